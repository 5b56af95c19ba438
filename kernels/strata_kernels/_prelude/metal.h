// What the bodies are written in, as Metal spells it. The host build defines SHARED
// before it reads this text.
#ifndef SHARED
#define SHARED(type, name, count) threadgroup type name[count]
#endif
#define DEVICE device
#define THREAD thread
#define HELPER inline
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define SHUFFLE_XOR(value, mask) simd_shuffle_xor(value, ushort(mask))
#define BITS(value) as_type<uint>(value)
#define FLOAT_OF(bits) as_type<float>(bits)
#define FMA(a, b, c) fma(a, b, c)
#define EXP(x) exp(x)
#define SQRT(x) sqrt(x)
#define UNROLLED _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
