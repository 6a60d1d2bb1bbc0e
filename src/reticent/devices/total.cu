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

struct Plan {  // what reticent.devices.totals hands over by value
    const float* rows;        // of the vectors
    float* out;               // the noisy totals
    const unsigned* keys;     // of the steps, if there are several
    long long* total;         // the clean total, in units
    float* buffers;           // of the filter
    double* parts;            // of the norms
    float* factors;           // what each row is multiplied by
    double* seen;             // norms of the rows, then squared norms of what was added, in units
    unsigned* done;           // how many blocks are, for each row
    long long steps, dim;
    double limit;             // longer rows are cut to this
    unsigned key[8];          // of the step, if there is one
    float sigma, unit, per;   // per unit
};

#define SPREAD 128                   // threads in a block
#define MANY 16                      // coordinates of a thread: WIDE next to each other, then SPREAD * WIDE further on
#define PARTS (MANY / WIDE)

__device__ constexpr float gap[] = {GAP}, weight[] = {WEIGHT};

template <typename S> struct alignas(sizeof(S) * WIDE) Pack { S at[WIDE]; };

#if WIDE == 4
typedef uint4 Unit;
#else
typedef unsigned Unit;
#endif

template <typename S> __device__ __forceinline__ Pack<S> load(const S* from, long long j, long long dim) {
    Pack<S> got;
#pragma unroll
    for (int w = 0; w < WIDE; w++) got.at[w] = S(0);
    if (j < dim) got = *reinterpret_cast<const Pack<S>*>(from + j);
    return got;
}

// What is read or written once in a call goes first when the cache is full, so that the vector stays, which is read twice.
template <typename S> __device__ __forceinline__ Pack<S> load_once(const S* from, long long j, long long dim) {
    Pack<S> got;
#pragma unroll
    for (int w = 0; w < WIDE; w++) got.at[w] = S(0);
    if (j < dim)
#pragma unroll
        for (int h = 0; h < int(sizeof(Pack<S>) / sizeof(Unit)); h++)
            reinterpret_cast<Unit*>(&got)[h] = __ldcs(reinterpret_cast<const Unit*>(from + j) + h);
    return got;
}

template <typename S> __device__ __forceinline__ void store(S* to, long long j, long long dim, const Pack<S>& what) {
    if (j < dim)
#pragma unroll
        for (int h = 0; h < int(sizeof(Pack<S>) / sizeof(Unit)); h++)
            __stcs(reinterpret_cast<Unit*>(to + j) + h, reinterpret_cast<const Unit*>(&what)[h]);
}

// What is scaled is rounded, factor and products by up to 2^-24 of themselves: so it is cut a little shorter.
#define SHORTER (1.0 - 4.76837158203125e-7)

// The norms of rows, added up in double precision, and what each row is multiplied by: one row of blocks to a row, of which the
// last to finish adds the parts, always in the same order. What is not finite becomes a null record: the caller sees the norm, and
// releases nothing.
extern "C" __global__ void __launch_bounds__(256)
survey(const Plan plan) {
    const long long dim = plan.dim;
    __shared__ double part[8];
    __shared__ bool last;
    double total = 0.0;
    const float* row = plan.rows + blockIdx.y * dim;
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
    double* mine = plan.parts + (long long)blockIdx.y * gridDim.x;
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) total += part[w];
        mine[blockIdx.x] = total;
        __threadfence();
        last = atomicInc(plan.done + blockIdx.y, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x >= 32) return;
    __threadfence();
    double square = 0.0;
    for (int i = threadIdx.x; i < gridDim.x; i += 32) square += *(volatile double*)(mine + i);
    for (int s = 16; s >= 1; s /= 2) square += __shfl_xor_sync(0xffffffffu, square, s);
    if (threadIdx.x) return;
    const double size = sqrt(square);
    plan.seen[blockIdx.y] = size;
    plan.seen[plan.steps + blockIdx.y] = 0.0;
    plan.factors[blockIdx.y] =
        size <= plan.limit ? plan.per : (size <= 1.7976931348623157e308 ? float(plan.limit * SHORTER / size * plan.per) : 0.0f);
}

// Steps of the total: rows are scaled, cut to whole units towards zero and added, and what was added is measured once more, where
// it is added. Totals and noise are whole numbers of units, so their sum is exact, and one record moves it by itself and by nothing
// else; only what leaves is rounded to single precision. The second half of `seen` gets the squared norm of what each step added,
// in units, to 2^-21 of itself. LONG keeps buffers and totals in registers from step to step.
extern "C" __global__ void __launch_bounds__(SPREAD, 3) play(const Plan plan) {
    const long long base = (long long)blockIdx.x * SPREAD * MANY + threadIdx.x * WIDE;
    const unsigned long long block = (unsigned long long)blockIdx.x * SPREAD + threadIdx.x;
    const long long dim = plan.dim, steps = LONG ? plan.steps : 1;
    const float unit = plan.unit, per = plan.per;
    const float* const rows = plan.rows;
    long long* const total = plan.total;
    float *const buffers = plan.buffers, *const out = plan.out;
#if LONG
    Pack<long long> sum[PARTS];
    Pack<float> kept[PARTS][K > 0 ? K : 1];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const long long j = base + (long long)p * SPREAD * WIDE;
        sum[p] = load_once(total, j, dim);
#pragma unroll
        for (int k = 0; k < K; k++) kept[p][k] = load_once(buffers + k * dim, j, dim);
    }
#endif
    for (long long t = 0; t < steps; t++) {
        float z[MANY];
        Pack<float> row[PARTS];  // asked for before the normals are drawn, so that memory and arithmetic overlap
#pragma unroll
        for (int p = 0; p < PARTS; p++) row[p] = load(rows + t * dim, base + (long long)p * SPREAD * WIDE, dim);
        normals(LONG ? plan.keys + 8 * t : plan.key, block, plan.sigma, z);
        const float factor = plan.factors[t];
        double square = 0.0;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const long long j = base + (long long)p * SPREAD * WIDE;
#if !LONG
            Pack<long long> sum[PARTS];
            Pack<float> kept[PARTS][K > 0 ? K : 1];
            sum[p] = load_once(total, j, dim);
#pragma unroll
            for (int k = 0; k < K; k++) kept[p][k] = load_once(buffers + k * dim, j, dim);
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
        if (threadIdx.x % 32 == 0) atomicAdd(plan.seen + plan.steps + t, square);
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
