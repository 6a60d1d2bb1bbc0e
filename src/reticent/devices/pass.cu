// One pass over the records: predictor, slope and weighted sum of every row, each row read once.
//
// LANES threads share a row: V numbers each, loaded WIDE at a time. A warp works on 32 / LANES rows at once and on R of
// these groups, so the slopes of all of them are computed side by side, while the next STAGES - 1 batches are on their
// way from memory to the multiprocessor. Sums are in double precision, in an order that depends on the number of rows
// alone (the bound on their rounding: docs/clusters-and-devices.md).
//
// Compiled with: T (type of the records), L (type of the labels), W (type of the weights), D, STRIDE (from row to row),
// LANES, V, WIDE, R, STAGES, KIND (of the loss, as in reticent.losses.kernels), WEIGHTED.

struct alignas(sizeof(T) * WIDE) Pack { T at[WIDE]; };

struct Numbers {  // what reticent.devices.cuda hands over by value
    long long count;
    double offset, unit, length, p0, p1, bound;
};

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
#define PER_WARP (DEPTH * GROUPS)
#define PER_BLOCK (PER_WARP * WARPS)
#define EVERYONE 0xffffffffu
#define PACKS (V / WIDE)

// A pack goes from memory to this thread's own place without passing through registers; zeros where there is none.
__device__ __forceinline__ void fetch(Pack* to, const T* from, bool there) {
#if __CUDA_ARCH__ >= 800
    const unsigned place = unsigned(__cvta_generic_to_shared(to)), bytes = there ? sizeof(Pack) : 0;
    if constexpr (sizeof(Pack) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(sizeof(Pack)),
                     "r"(bytes) : "memory");
#else
    Pack got = {};
    if (there) got = *reinterpret_cast<const Pack*>(from);
    *to = got;
#endif
}

// Everything fetched so far is one batch.
__device__ __forceinline__ void batch_ends() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait until all but the last so many batches are there.
template <int MANY> __device__ __forceinline__ void all_but() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(MANY) : "memory");
#endif
}

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

extern "C" __global__ void __launch_bounds__(WARPS * 32)
sums(const T* __restrict__ X, const L* __restrict__ labels, const W* __restrict__ weights,
     const double* __restrict__ point, double* __restrict__ partial, Numbers given) {
    const long long count = given.count;
    const double unit = given.unit, length = given.length, bound = given.bound;
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
    const int here = count - first < PER_WARP ? int(count - first) : PER_WARP;  // rows of this warp, if any
    // A thread fetches what it reads itself, so that nobody has to wait for others.
    extern __shared__ __align__(16) unsigned char room[];
    Pack* const places = reinterpret_cast<Pack*>(room) + threadIdx.x;
    const T* from = X + (first + group) * STRIDE + own * WIDE;
    int asked = 0, filled = 0, read = 0;  // rows that were asked for; where the next batch goes; where this one lies
    const auto ask = [&]() {
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int k = 0; k < PACKS; k++) {
                const bool there = asked + r * GROUPS + group < here && (k * LANES + own) * WIDE < D;
                fetch(places + ((filled * R + r) * PACKS + k) * (WARPS * 32),
                      from + r * GROUPS * STRIDE + k * LANES * WIDE, there);
            }
        }
        batch_ends();
        from += R * GROUPS * STRIDE;
        asked += R * GROUPS;
        filled = filled + 1 == STAGES ? 0 : filled + 1;
    };
    L next_label{};
    W next_weight{};
    const auto ask_label = [&](int start) {
        if (start + mine * GROUPS + group >= here) return;
        next_label = labels[first + start + mine * GROUPS + group];
#if WEIGHTED
        next_weight = weights[first + start + mine * GROUPS + group];
#endif
    };
#pragma unroll
    for (int batch = 0; batch < STAGES - 1; batch++) ask();
    ask_label(0);
    for (int start = 0; start < here; start += R * GROUPS) {
        const Pack* const batch = places + read * (R * PACKS * WARPS * 32);
        double row[R][V], dot[R], square[R];
        all_but<STAGES - 2>();
#pragma unroll
        for (int r = 0; r < R; r++) {
            dot[r] = 0.0;
            square[r] = 0.0;
#pragma unroll
            for (int k = 0; k < V; k++) {
                const double a = row[r][k] = double(batch[(r * PACKS + k / WIDE) * (WARPS * 32)].at[k % WIDE]);
                dot[r] = fma(a, at[k], dot[r]);
                square[r] = fma(a, a, square[r]);
            }
        }
        ask();  // in the place of the batch before this one
        read = read + 1 == STAGES ? 0 : read + 1;
        const L label = next_label;
        const W weight = next_weight;
        ask_label(start + R * GROUPS);
        double z = gather(dot, own);
        const double squared = gather(square, own);
        double scale = 1.0 / unit, slope = 0.0;
        // What is not finite, or has no finite square, counts for nothing: a survey has refused it, if it was there then.
        if (start + mine * GROUPS + group < here && squared <= 1.7976931348623157e308) {
            const double size = sqrt(squared);
            if (size > unit * length) scale = length / size;
            z = z * scale + given.offset;
            slope = fmin(bound, fmax(-bound, slope_of(z, double(label), given.p0, given.p1)));
#if WEIGHTED
            slope *= double(weight);
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
                for (int k = 0; k < V; k++) sum[k] = fma(f, row[r][k], sum[k]);
            }
        }
    }
    all_but<0>();
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
#pragma unroll 16
    for (long long i = start; i < stop; i++) total += partial[i * (D + 1) + j];
    out[(long long)blockIdx.x * (D + 1) + j] = total;
}
