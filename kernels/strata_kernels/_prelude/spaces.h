// Metal's words with their memories kept apart, for clang's `-fsyntax-only`: a pointer
// that lacks its memory, or is given another's, does not compile.
typedef unsigned int uint;
typedef unsigned short ushort;
typedef int int32_t;
typedef unsigned int uint32_t;
struct uint3 {
  uint x, y, z;
};
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread
#define SHARED(type, name, count) static threadgroup type name[count]
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
void threadgroup_barrier(mem_flags);
template <class T>
T simd_shuffle_xor(T value, ushort mask);
template <class To, class From>
To as_type(From value);
float fma(float, float, float);
float exp(float);
float sqrt(float);
