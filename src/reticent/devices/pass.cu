// One pass over the records: predictor, slope and weighted sum of every row, each row read once.
//
// LANES threads share a row and keep it in registers: V numbers each, loaded WIDE at a time. A warp holds 32 / LANES
// rows at once and R of these groups, so the slopes of all of them are computed side by side. Sums are in double
// precision, in an order that depends on the number of rows alone (the bound on their rounding: docs/scale.md).
//
// Compiled with: T (type of the records), L (type of the labels), W (type of the weights), D, LANES, V, WIDE, R,
// RESIDENT (blocks on a multiprocessor at a time), KIND (of the loss, as in reticent.losses.kernels), WEIGHTED.

struct alignas(sizeof(T) * WIDE) Pack { T at[WIDE]; };

// exp of the device's library is within one unit in the last place.
__device__ __forceinline__ double sigmoid(double u) {
    const double e = exp(-fabs(u));
    return (u >= 0.0 ? 1.0 : e) / (1.0 + e);
}

__device__ __forceinline__ double slope_of(double z, double y, double p0, double p1) {
#if KIND == 0
    return -y * sigmoid(-y * z);
#elif KIND == 1
    return z - y;
#elif KIND == 3
    return -y * fmin(1.0, fmax(0.0, (1.0 - y * z) / p0));
#elif KIND == 4
    return fmin(p0, fmax(-p0, z - y));
#elif KIND == 6
    return exp(fmin(z, p0)) - y;
#elif KIND == 8
    return -y * fmin(p0, sigmoid(-y * z));
#else
#error "this loss has no device code"
#endif
}

#define WARPS 4
#define DEPTH 256                       // rows that one register adds up
#define GROUPS (32 / LANES)
#define BATCHES (DEPTH / R)
#define PER_WARP (DEPTH * GROUPS)
#define PER_BLOCK (PER_WARP * WARPS)
#define EVERYONE 0xffffffffu

// R numbers of each lane, added over the lanes of a row: lane j ends with the sum of row j / (LANES / R).
__device__ __forceinline__ double gather(double (&part)[R], int lane) {
    int left = R;
#pragma unroll
    for (int s = LANES / 2; s >= 1; s /= 2) {
        if (left > 1) {
            left /= 2;
#pragma unroll
            for (int i = 0; i < R / 2; i++) {
                if (i < left) {
                    const bool upper = lane & s;
                    const double send = upper ? part[i] : part[i + left];
                    const double keep = upper ? part[i + left] : part[i];
                    part[i] = keep + __shfl_xor_sync(EVERYONE, send, s);
                }
            }
        } else {
            part[0] += __shfl_xor_sync(EVERYONE, part[0], s);
        }
    }
    return part[0];
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, RESIDENT)
sums(const T* __restrict__ X, long long count, long long stride, const L* __restrict__ labels,
     const W* __restrict__ weights, const double* __restrict__ point, double offset, double unit, double length,
     double p0, double p1, double bound, double* __restrict__ partial) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int own = lane % LANES, group = lane / LANES;
    const int mine = own / (LANES / R);  // which of the R rows of its group this lane answers for
    const bool speaks = own % (LANES / R) == 0;
    double at[V], sum[V];
#pragma unroll
    for (int k = 0; k < V; k++) {
        const int column = ((k / WIDE) * LANES + own) * WIDE + k % WIDE;
        at[k] = column < D ? point[column] : 0.0;
        sum[k] = 0.0;
    }
    double slopes = 0.0;
    const long long first = (long long)blockIdx.x * PER_BLOCK + (long long)warp * PER_WARP;
    for (int batch = 0; batch < BATCHES; batch++) {
        const long long base = first + (long long)batch * R * GROUPS;
        if (base >= count) break;
        T row[R][V];
        double dot[R], square[R];
#pragma unroll
        for (int r = 0; r < R; r++) {
            const long long i = base + r * GROUPS + group;
            const T* from = X + i * stride;
#pragma unroll
            for (int k = 0; k < V / WIDE; k++) {
                const int column = (k * LANES + own) * WIDE;
                Pack got;
#pragma unroll
                for (int w = 0; w < WIDE; w++) got.at[w] = T(0);
                if (i < count && column < D) got = *reinterpret_cast<const Pack*>(from + column);
#pragma unroll
                for (int w = 0; w < WIDE; w++) row[r][k * WIDE + w] = got.at[w];
            }
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            dot[r] = 0.0;
            square[r] = 0.0;
#pragma unroll
            for (int k = 0; k < V; k++) {
                const double a = double(row[r][k]);
                dot[r] = fma(a, at[k], dot[r]);
                square[r] = fma(a, a, square[r]);
            }
        }
        double z = gather(dot, own);
        const double squared = gather(square, own);
        const long long i = base + mine * GROUPS + group;
        double scale = 1.0 / unit, slope = 0.0;
        // What is not finite, or has no finite square, counts for nothing: a survey has refused it, if it was there then.
        if (i < count && squared <= 1.7976931348623157e308) {
            const double size = sqrt(squared);
            if (size > unit * length) scale = length / size;
            z = z * scale + offset;
            slope = fmin(bound, fmax(-bound, slope_of(z, double(labels[i]), p0, p1)));
#if WEIGHTED
            slope *= double(weights[i]);
#endif
            if (slope != slope) slope = 0.0;
            if (speaks) slopes += slope;
        }
        const double factor = slope * scale;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const double f = __shfl_sync(EVERYONE, factor, group * LANES + r * (LANES / R));
            if (f != 0.0) {
#pragma unroll
                for (int k = 0; k < V; k++) sum[k] = fma(f, double(row[r][k]), sum[k]);
            }
        }
    }
    __shared__ double block[D + 1];
#pragma unroll
    for (int s = 16; s >= LANES; s /= 2) {
#pragma unroll
        for (int k = 0; k < V; k++) sum[k] += __shfl_xor_sync(EVERYONE, sum[k], s);
    }
    for (int s = 16; s >= 1; s /= 2) {
        slopes += __shfl_xor_sync(EVERYONE, slopes, s);
    }
    for (int j = threadIdx.x; j < D + 1; j += WARPS * 32) block[j] = 0.0;
    for (int w = 0; w < WARPS; w++) {
        __syncthreads();
        if (w != warp) continue;
        if (lane < LANES) {
#pragma unroll
            for (int k = 0; k < V; k++) {
                const int column = ((k / WIDE) * LANES + own) * WIDE + k % WIDE;
                if (column < D) block[column] += sum[k];
            }
        }
        if (lane == 0) block[D] += slopes;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < D + 1; j += WARPS * 32)
        partial[(long long)blockIdx.x * (D + 1) + j] = block[j];
}

// Blocks' sums, 256 of them at a time, one thread to a column.
extern "C" __global__ void fold(const double* __restrict__ partial, long long rows, double* __restrict__ out) {
    const int j = blockIdx.y * blockDim.x + threadIdx.x;
    if (j >= D + 1) return;
    const long long start = (long long)blockIdx.x * 256;
    const long long stop = start + 256 < rows ? start + 256 : rows;
    double total = 0.0;
    for (long long i = start; i < stop; i++) total += partial[i * (D + 1) + j];
    out[(long long)blockIdx.x * (D + 1) + j] = total;
}
