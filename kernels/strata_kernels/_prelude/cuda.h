// What the bodies are written in, as CUDA spells it. Groups have one dimension and
// whole warps.
typedef unsigned int uint;
#define SHARED(type, name, count) __shared__ type name[count]
#define DEVICE
#define THREAD
#define HELPER __device__ __forceinline__
#define BARRIER() __syncthreads()
#define SHUFFLE_XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define BITS(value) __float_as_uint(value)
#define FLOAT_OF(bits) __uint_as_float(bits)
#define FMA(a, b, c) fmaf(a, b, c)
#define EXP(x) expf(x)
#define SQRT(x) sqrtf(x)
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define threadgroup_position_in_grid blockIdx
#define thread_index_in_simdgroup (threadIdx.x & 31u)
#define simdgroup_index_in_threadgroup (threadIdx.x >> 5)
