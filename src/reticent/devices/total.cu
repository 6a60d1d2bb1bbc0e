// A running total with correlated noise in single precision: fresh normals from ChaCha12, buffers and totals in one sweep.
//
// A thread has 16 coordinates, and one ChaCha block is its 16 normals of one step. Compiled with: K (buffers), GAP
// and WEIGHT (the filter), WIDE (numbers that are loaded at once), LONG (whether there are many steps in a call).

__device__ __forceinline__ unsigned turn(unsigned v, int n) { return __funnelshift_l(v, v, n); }

#define QUARTER(a, b, c, d) \
    a += b; d = turn(d ^ a, 16); c += d; b = turn(b ^ c, 12); a += b; d = turn(d ^ a, 8); c += d; b = turn(b ^ c, 7);

__device__ __forceinline__ void chacha(const unsigned* key, unsigned long long block, unsigned (&out)[16]) {
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

__device__ __forceinline__ float root(float v) {
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// Box and Muller: two words, two normals, to about 1e-6 of their standard deviation (the angle's functions are off by 2^-21).
__device__ __forceinline__ void normals(const unsigned* key, unsigned long long block, float sigma, float (&z)[16]) {
    unsigned word[16];
    chacha(key, block, word);
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const float u = (float(word[i]) + 0.5f) * 2.3283064365386963e-10f;  // in (0, 1]
        const float radius = sigma * root(-2.0f * logf(fminf(u, 0.99999994f)));
        float s, c;
        __sincosf(float(int(word[i + 1])) * 1.4629180792671596e-9f, &s, &c);  // an angle from -pi to pi
        z[i] = radius * c;
        z[i + 1] = radius * s;
    }
}

#define SPREAD 128                   // threads in a block
#define MANY 16                      // coordinates of a thread: WIDE next to each other, then SPREAD * WIDE further on
#define PARTS (MANY / WIDE)

__device__ constexpr float gap[] = {GAP}, weight[] = {WEIGHT};

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

// What is scaled is rounded, factor and products by up to 2^-24 of themselves: so it is cut a little shorter.
#define SHORTER (1.0 - 4.76837158203125e-7)

// The norms of rows, added up in double precision, and what each row is multiplied by: one row of blocks to a row, of which the
// last to finish adds the parts, always in the same order. What is not finite becomes a null record: the caller sees the norm, and
// releases nothing.
extern "C" __global__ void __launch_bounds__(256)
survey(const float* __restrict__ rows, long long dim, double limit, float per, double* __restrict__ parts,
       unsigned* __restrict__ done, float* __restrict__ factors, double* __restrict__ norms, double* __restrict__ added) {
    __shared__ double part[8];
    __shared__ bool last;
    double total = 0.0;
    const float* row = rows + blockIdx.y * dim;
    const long long start = ((long long)blockIdx.x * 256 + threadIdx.x) * WIDE, stride = (long long)gridDim.x * 256 * WIDE;
#pragma unroll 4
    for (long long j = start; j < dim; j += stride) {
        const Pack<float> some = load(row, j, dim);
#pragma unroll
        for (int w = 0; w < WIDE; w++) total = fma(double(some.at[w]), double(some.at[w]), total);
    }
    for (int s = 16; s >= 1; s /= 2) total += __shfl_xor_sync(0xffffffffu, total, s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;
    __syncthreads();
    double* mine = parts + (long long)blockIdx.y * gridDim.x;
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) total += part[w];
        mine[blockIdx.x] = total;
        __threadfence();
        last = atomicInc(done + blockIdx.y, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x >= 32) return;
    __threadfence();
    double square = 0.0;
    for (int i = threadIdx.x; i < gridDim.x; i += 32) square += *(volatile double*)(mine + i);
    for (int s = 16; s >= 1; s /= 2) square += __shfl_xor_sync(0xffffffffu, square, s);
    if (threadIdx.x) return;
    const double size = sqrt(square);
    norms[blockIdx.y] = size;
    added[blockIdx.y] = 0.0;
    factors[blockIdx.y] = size <= limit ? per : (size <= 1.7976931348623157e308 ? float(limit * SHORTER / size * per) : 0.0f);
}

#if LONG  // keys lie on the device, or are arguments
#define KEYS const unsigned* __restrict__ keys
#define KEY(t) (keys + 8 * t)
#else
#define KEYS unsigned long long key0, unsigned long long key1, unsigned long long key2, unsigned long long key3
#define KEY(t) key
#endif

// Steps of the total: rows are scaled, cut to whole units towards zero and added, and what was added is measured once more, where
// it is added. Totals and noise are whole numbers of units, so their sum is exact, and one record moves it by itself and by nothing
// else; only what leaves is rounded to single precision. `added` gets the squared norm of each step's, in units, to 2^-21 of itself.
// LONG keeps buffers and totals in registers from step to step.
extern "C" __global__ void __launch_bounds__(SPREAD, 3)
play(const float* __restrict__ rows, long long steps, long long dim, const float* __restrict__ factors,
     KEYS, float sigma, float unit, float per, long long* __restrict__ total,
     float* __restrict__ buffers, float* __restrict__ out, double* __restrict__ added) {
    const long long base = (long long)blockIdx.x * SPREAD * MANY + threadIdx.x * WIDE;
    const unsigned long long block = (unsigned long long)blockIdx.x * SPREAD + threadIdx.x;
#if !LONG
    const unsigned key[8] = {unsigned(key0), unsigned(key0 >> 32), unsigned(key1), unsigned(key1 >> 32),
                             unsigned(key2), unsigned(key2 >> 32), unsigned(key3), unsigned(key3 >> 32)};
#else
    Pack<long long> sum[PARTS];
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
        Pack<float> row[PARTS];  // asked for before the normals are drawn, so that memory and arithmetic overlap
#pragma unroll
        for (int p = 0; p < PARTS; p++) row[p] = load(rows + t * dim, base + (long long)p * SPREAD * WIDE, dim);
        normals(KEY(t), block, sigma, z);
        const float factor = factors[t];
        double square = 0.0;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const long long j = base + (long long)p * SPREAD * WIDE;
#if !LONG
            Pack<long long> sum[PARTS];
            Pack<float> kept[PARTS][K > 0 ? K : 1];
            sum[p] = load(total, j, dim);
#pragma unroll
            for (int k = 0; k < K; k++) kept[p][k] = load(buffers + k * dim, j, dim);
#endif
            Pack<float> seen;
            float some = 0.0f;
#pragma unroll
            for (int w = 0; w < WIDE; w++) {
                const float scaled = factor == 0.0f ? 0.0f : factor * row[p].at[w];
                const float fresh = z[p * WIDE + w];
                some = fmaf(scaled, scaled, some);
                float noise = fresh;
#pragma unroll
                for (int k = 0; k < K; k++) {
                    const float old = kept[p][k].at[w];
                    noise = fmaf(weight[k], old, noise);
                    kept[p][k].at[w] = old + fmaf(-gap[k], old, fresh);
                }
                sum[p].at[w] += __float2ll_rz(scaled);
                seen.at[w] = unit * __ll2float_rn(sum[p].at[w] + __float2ll_rn(per * noise));
            }
            square += double(some);
            store(out + t * dim, j, dim, seen);
#if !LONG
            store(total, j, dim, sum[p]);
#pragma unroll
            for (int k = 0; k < K; k++) store(buffers + k * dim, j, dim, kept[p][k]);
#endif
        }
#pragma unroll
        for (int s = 16; s >= 1; s /= 2) square += __shfl_xor_sync(0xffffffffu, square, s);
        if (threadIdx.x % 32 == 0) atomicAdd(added + t, square);
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
