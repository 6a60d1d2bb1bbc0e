// A running total with correlated noise in single precision: fresh normals from ChaCha12, buffers and totals in one sweep.
//
// A thread has 16 coordinates, and one ChaCha block is its 16 normals of one step. Compiled with: K (buffers), T (type of
// totals and records), WIDE (numbers that are loaded at once), LONG (whether there are many steps in a call).

__device__ __forceinline__ unsigned turn(unsigned v, int n) { return __funnelshift_l(v, v, n); }

#define QUARTER(a, b, c, d) \
    a += b; d = turn(d ^ a, 16); c += d; b = turn(b ^ c, 12); a += b; d = turn(d ^ a, 8); c += d; b = turn(b ^ c, 7);

__device__ __forceinline__ void chacha(const unsigned* __restrict__ key, unsigned long long block, unsigned (&out)[16]) {
    unsigned x[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u, key[0], key[1], key[2], key[3],
                      key[4], key[5], key[6], key[7], unsigned(block), unsigned(block >> 32), 0u, 0u};
    unsigned start[16];
#pragma unroll
    for (int i = 0; i < 16; i++) start[i] = x[i];
#pragma unroll
    for (int round = 0; round < 6; round++) {
        QUARTER(x[0], x[4], x[8], x[12]) QUARTER(x[1], x[5], x[9], x[13])
        QUARTER(x[2], x[6], x[10], x[14]) QUARTER(x[3], x[7], x[11], x[15])
        QUARTER(x[0], x[5], x[10], x[15]) QUARTER(x[1], x[6], x[11], x[12])
        QUARTER(x[2], x[7], x[8], x[13]) QUARTER(x[3], x[4], x[9], x[14])
    }
#pragma unroll
    for (int i = 0; i < 16; i++) out[i] = x[i] + start[i];
}

// Box and Muller: two words, two normals.
__device__ __forceinline__ void normals(const unsigned* __restrict__ key, unsigned long long block, float sigma, float (&z)[16]) {
    unsigned word[16];
    chacha(key, block, word);
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const float u = (float(word[i]) + 0.5f) * 2.3283064365386963e-10f;  // in (0, 1]
        const float radius = sigma * sqrtf(-2.0f * logf(fminf(u, 0.99999994f)));
        float s, c;
        sincospif(float(word[i + 1]) * 4.656612873077393e-10f, &s, &c);
        z[i] = radius * c;
        z[i + 1] = radius * s;
    }
}

#define SPREAD 128                   // threads in a block
#define MANY 16                      // coordinates of a thread: WIDE next to each other, then SPREAD * WIDE further on
#define PARTS (MANY / WIDE)

// In double precision: the promise is computed from these very numbers.
struct Filter { double gap[K > 0 ? K : 1]; double weight[K > 0 ? K : 1]; };

template <typename S> struct alignas(sizeof(S) * WIDE) Pack { S at[WIDE]; };

template <typename S> __device__ __forceinline__ Pack<S> load(const S* from, long long j, long long dim) {
    Pack<S> got;
#pragma unroll
    for (int w = 0; w < WIDE; w++) got.at[w] = S(0);
    if (j < dim) got = *reinterpret_cast<const Pack<S>*>(from + j);
    return got;
}

template <typename S> __device__ __forceinline__ void store(S* to, long long j, long long dim, const Pack<S>& what) {
    if (j < dim) *reinterpret_cast<Pack<S>*>(to + j) = what;
}

// The squared norms of rows, added up in double precision; one block of threads to a piece of a row.
extern "C" __global__ void squares(const T* __restrict__ rows, long long dim, double* __restrict__ out) {
    __shared__ double part[32];
    double total = 0.0;
    const T* row = rows + blockIdx.y * dim;
    for (long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x; j < dim; j += (long long)gridDim.x * blockDim.x)
        total = fma(double(row[j]), double(row[j]), total);
    for (int s = 16; s >= 1; s /= 2) total += __shfl_xor_sync(0xffffffffu, total, s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) total += part[w];
        out[(long long)blockIdx.y * gridDim.x + blockIdx.x] = total;
    }
}

// What is scaled is rounded to single precision, each entry by up to 2^-24 of itself: so it is cut a little shorter.
#define SHORTER (1.0 - 2.384185791015625e-7)

// One block of threads to a step: what its vector is scaled by, and its squared norm. What is not finite becomes a null
// record: the caller sees the norm, and releases nothing.
extern "C" __global__ void factors(const double* __restrict__ parts, int pieces, double limit, double* __restrict__ out,
                                   double* __restrict__ norms) {
    if (threadIdx.x) return;
    double square = 0.0;
    for (int i = 0; i < pieces; i++) square += parts[(long long)blockIdx.x * pieces + i];
    norms[blockIdx.x] = square;
    const double size = sqrt(square);
    out[blockIdx.x] = size <= limit ? 1.0 : (size <= 1.7976931348623157e308 ? limit * SHORTER / size : 0.0);
}

// The squared norm of what was added in each step.
extern "C" __global__ void close(const double* __restrict__ measured, long long warps, double* __restrict__ out) {
    __shared__ double part[256];
    double total = 0.0;
    for (long long i = threadIdx.x; i < warps; i += 256) total += measured[blockIdx.x * warps + i];
    part[threadIdx.x] = total;
    for (int s = 128; s >= 1; s /= 2) {
        __syncthreads();
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

// Steps of the total: rows are scaled, added, and what was added is measured once more, where it is added.
// `measured` has a place for every warp and step. LONG keeps buffers in registers from step to step.
extern "C" __global__ void __launch_bounds__(SPREAD)
play(const T* __restrict__ rows, long long steps, long long dim, const double* __restrict__ factors,
     const unsigned* __restrict__ keys, float sigma, Filter filter, T* __restrict__ total,
     float* __restrict__ buffers, T* __restrict__ out, double* __restrict__ measured) {
    const long long base = (long long)blockIdx.x * SPREAD * MANY + threadIdx.x * WIDE;
    const unsigned long long block = (unsigned long long)blockIdx.x * SPREAD + threadIdx.x;
    const long long warps = (long long)gridDim.x * (SPREAD / 32), warp = block / 32;
#if LONG
    Pack<T> sum[PARTS];
    Pack<float> kept[PARTS][K > 0 ? K : 1];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const long long j = base + (long long)p * SPREAD * WIDE;
        sum[p] = load(total, j, dim);
#pragma unroll
        for (int k = 0; k < K; k++) kept[p][k] = load(buffers + k * dim, j, dim);
    }
#endif
    for (long long t = 0; t < steps; t++) {
        float z[MANY];
        normals(keys + 8 * t, block, sigma, z);
        const double factor = factors[t];
        double square = 0.0;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const long long j = base + (long long)p * SPREAD * WIDE;
            const Pack<T> v = load(rows + t * dim, j, dim);
#if !LONG
            Pack<T> sum[PARTS];
            Pack<float> kept[PARTS][K > 0 ? K : 1];
            sum[p] = load(total, j, dim);
#pragma unroll
            for (int k = 0; k < K; k++) kept[p][k] = load(buffers + k * dim, j, dim);
#endif
            Pack<T> seen;
#pragma unroll
            for (int w = 0; w < WIDE; w++) {
                const T add = factor == 0.0 ? T(0) : T(factor * double(v.at[w]));
                const float fresh = z[p * WIDE + w];
                square = fma(double(add), double(add), square);
                double known = 0.0;
#pragma unroll
                for (int k = 0; k < K; k++) {
                    const double old = kept[p][k].at[w];
                    known = fma(filter.weight[k], old, known);
                    kept[p][k].at[w] = float(old + (fresh - filter.gap[k] * old));
                }
                sum[p].at[w] += add;
                seen.at[w] = T(sum[p].at[w] + (fresh + known));
            }
            store(out + t * dim, j, dim, seen);
#if !LONG
            store(total, j, dim, sum[p]);
#pragma unroll
            for (int k = 0; k < K; k++) store(buffers + k * dim, j, dim, kept[p][k]);
#endif
        }
#pragma unroll
        for (int s = 16; s >= 1; s /= 2) square += __shfl_xor_sync(0xffffffffu, square, s);
        if (threadIdx.x % 32 == 0) measured[t * warps + warp] = square;
    }
#if LONG
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const long long j = base + (long long)p * SPREAD * WIDE;
        store(total, j, dim, sum[p]);
#pragma unroll
        for (int k = 0; k < K; k++) store(buffers + k * dim, j, dim, kept[p][k]);
    }
#endif
}

// Normals alone: the floor that a run is measured against.
extern "C" __global__ void __launch_bounds__(SPREAD)
draw(const unsigned* __restrict__ keys, long long steps, long long dim, float sigma, float* __restrict__ out) {
    const long long base = (long long)blockIdx.x * SPREAD * MANY + threadIdx.x * WIDE;
    for (long long t = 0; t < steps; t++) {
        float z[MANY];
        normals(keys + 8 * t, (unsigned long long)blockIdx.x * SPREAD + threadIdx.x, sigma, z);
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            Pack<float> some;
#pragma unroll
            for (int w = 0; w < WIDE; w++) some.at[w] = z[p * WIDE + w];
            store(out + t * dim, base + (long long)p * SPREAD * WIDE, dim, some);
        }
    }
}
