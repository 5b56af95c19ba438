// Runs Metal text as C++: one fiber a thread, one thread group after the other.
//
// A fiber runs until it needs the others: a shuffle waits for the 32 lanes of its
// simdgroup, a barrier for its whole group. Whoever waits at another place than the
// rest, or has returned, is an error with a name. Between two barriers each simdgroup
// runs as far as it can before the next one begins, forwards or in reverse; what
// depends on that order lacks a barrier. Memory of a thread group is filled with NaN
// before each group.
// Few and light headers: the time to build a kernel is theirs.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if !defined(STRATA_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define STRATA_UCONTEXT
#endif
#ifdef STRATA_UCONTEXT
#include <ucontext.h>
#endif

typedef unsigned int uint;
typedef unsigned short ushort;
struct uint3 {
  uint x, y, z;
};

namespace strata {

template <class To, class From>
inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To made;
  memcpy(&made, &value, sizeof made);
  return made;
}

constexpr int LANES = 32;
constexpr size_t STACK = 256 * 1024;
enum State { READY, SHUFFLE, BARRIER_, DONE };

#ifdef STRATA_UCONTEXT
typedef ucontext_t Context;
inline void change(Context* from, Context* to) { swapcontext(from, to); }
inline void prepare(Context* made, char* stack, void (*entry)()) {
  getcontext(made);
  made->uc_stack.ss_sp = stack;
  made->uc_stack.ss_size = STACK;
  made->uc_link = nullptr;
  makecontext(made, entry, 0);
}
#else
typedef void* Context;
extern "C" void strata_change(Context* from, Context to) asm("strata_change");
inline void change(Context* from, Context* to) { strata_change(from, *to); }
#ifdef __x86_64__
asm(R"(
.text
.globl strata_change
strata_change:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr int SAVED = 6, ENTRY = 6, WORDS = 8;
#else
asm(R"(
.text
.p2align 2
.globl strata_change
strata_change:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
constexpr int SAVED = 20, ENTRY = 11, WORDS = 20;
#endif
inline void prepare(Context* made, char* stack, void (*entry)()) {
  // The registers that are to be restored, all zero, and the place to return to.
  auto top = reinterpret_cast<uintptr_t>(stack + STACK) & ~uintptr_t(15);
  auto words = reinterpret_cast<void**>(top) - WORDS;
  memset(words, 0, WORDS * sizeof(void*));
  words[ENTRY] = reinterpret_cast<void*>(entry);
  *made = words;
}
#endif

struct Fiber {
  Context context{};
  char* stack = nullptr;
  State state = READY;
  uint64_t site = 0;
  uint bits = 0;
  uint mask = 0;
};

struct Array {
  const char* name;
  char* data;
};

struct Machine {
  Fiber* fibers = nullptr;
  Array arrays[64];
  int count = 0;
  void (*body)(void**) = nullptr;
  void** buffers = nullptr;
  Context scheduler{};
  uint group = 0;
  uint thread = 0;
  char error[256] = "";
};

inline Machine machine;

inline Fiber& self() { return machine.fibers[machine.thread]; }

inline void pause(State state) {
  self().state = state;
  change(&self().context, &machine.scheduler);
}

// The calls that led here: two places of the text differ in it.
__attribute__((noinline)) inline uint64_t site() {
  uint64_t found = 1469598103934665603ull;
  auto low = self().stack, high = low + STACK;
  auto frame = static_cast<char*>(__builtin_frame_address(0));
  while (frame >= low && frame + 16 <= high) {
    auto words = reinterpret_cast<uintptr_t*>(frame);
    found = (found ^ words[1]) * 1099511628211ull;
    auto next = reinterpret_cast<char*>(words[0]);
    if (next <= frame) break;
    frame = next;
  }
  return found;
}

inline void enter() {
  machine.body(machine.buffers);
  pause(DONE);
}

// Where a thread stands; groups have one dimension.
inline uint3 threadgroup_position_in_grid() { return {machine.group, 0, 0}; }
inline uint thread_index_in_simdgroup() { return machine.thread % LANES; }
inline uint simdgroup_index_in_threadgroup() { return machine.thread / LANES; }

template <class T>
T shuffle_xor(T value, uint mask) {
  static_assert(sizeof(T) == sizeof(uint));
  self().bits = bits_as<uint>(value);
  self().mask = mask;
  self().site = site();
  pause(SHUFFLE);
  return bits_as<T>(self().bits);
}

inline void barrier() {
  self().site = site();
  pause(BARRIER_);
}

// The same bytes for all threads of a group, by the array's name.
inline char* shared(const char* name, size_t bytes) {
  for (int i = 0; i < machine.count; i++)
    if (!strcmp(machine.arrays[i].name, name)) return machine.arrays[i].data;
  if (machine.count == 64) abort();
  auto data = static_cast<char*>(malloc(bytes));
  memset(data, 0xff, bytes);
  machine.arrays[machine.count++] = {name, data};
  return data;
}

inline bool fail(const char* why, uint thread) {
  snprintf(machine.error, sizeof machine.error, "%s: thread %u of group %u", why, thread,
           machine.group);
  return false;
}

inline void resume(uint thread) {
  machine.thread = thread;
  change(&machine.scheduler, &self().context);
}

// Give the lanes of one simdgroup what they exchange, if all of them wait for it.
inline bool exchange(uint first, bool& moved) {
  auto lane = &machine.fibers[first];
  int waiting = 0;
  for (int i = 0; i < LANES; i++) waiting += lane[i].state == SHUFFLE;
  moved = waiting > 0;
  if (!waiting) return true;
  uint before[LANES];
  for (int i = 0; i < LANES; i++) {
    if (lane[i].state != SHUFFLE)
      return fail("a simdgroup's lanes part: one does not take part in a shuffle", first + i);
    if (lane[i].site != lane[0].site || lane[i].mask != lane[0].mask)
      return fail("a simdgroup's lanes part: one waits in another shuffle", first + i);
    before[i] = lane[i].bits;
  }
  for (int i = 0; i < LANES; i++) {
    lane[i].bits = before[(i ^ lane[i].mask) & (LANES - 1)];
    lane[i].state = READY;
  }
  return true;
}

// One simdgroup until each lane waits at a barrier or has returned.
inline bool advance(uint first, bool reverse) {
  for (bool moved = true; moved;) {
    for (int i = 0; i < LANES; i++) {
      uint thread = first + (reverse ? LANES - 1 - i : i);
      if (machine.fibers[thread].state == READY) resume(thread);
    }
    if (!exchange(first, moved)) return false;
  }
  return true;
}

inline bool meet(uint threads, bool& done) {
  auto fibers = machine.fibers;
  done = fibers[0].state == DONE;
  for (uint i = 0; i < threads; i++) {
    if ((fibers[i].state == DONE) != done)
      return fail("a thread returned before a barrier that others wait at", i);
    if (!done && fibers[i].site != fibers[0].site)
      return fail("threads of a group wait at two barriers", i);
  }
  for (uint i = 0; i < threads && !done; i++) fibers[i].state = READY;
  return true;
}

inline bool run_group(uint threads, bool reverse) {
  for (uint i = 0; i < threads; i++) {
    machine.fibers[i].state = READY;
    prepare(&machine.fibers[i].context, machine.fibers[i].stack, enter);
  }
  uint count = threads / LANES;
  for (bool done = false; !done;) {
    for (uint i = 0; i < count; i++)
      if (!advance((reverse ? count - 1 - i : i) * LANES, reverse)) return false;
    if (!meet(threads, done)) return false;
  }
  return true;
}

inline int run(uint groups, uint threads, bool reverse, char* message, size_t size,
               void (*body)(void**), void** buffers) {
  machine.body = body;
  machine.buffers = buffers;
  machine.error[0] = 0;
  machine.fibers = static_cast<Fiber*>(calloc(threads, sizeof(Fiber)));
  auto stacks = static_cast<char*>(malloc(threads * STACK));
  for (uint i = 0; i < threads; i++) machine.fibers[i].stack = stacks + i * STACK;
  bool well = true;
  for (uint i = 0; i < groups && well; i++) {
    machine.group = reverse ? groups - 1 - i : i;
    well = run_group(threads, reverse);
    while (machine.count) free(machine.arrays[--machine.count].data);
  }
  free(stacks);
  free(machine.fibers);
  snprintf(message, size, "%s", machine.error);
  return well ? 0 : 1;
}

}  // namespace strata

// What the text takes for granted.
#define device
#define constant
#define thread
#define threadgroup
#define SHARED(type, name, count) \
  type(&name)[count] =            \
      *reinterpret_cast<type(*)[count]>(strata::shared(#name, sizeof(type) * (count)))
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
inline void threadgroup_barrier(mem_flags) { strata::barrier(); }
template <class T>
inline T simd_shuffle_xor(T value, ushort mask) {
  return strata::shuffle_xor(value, mask);
}
template <class To, class From>
inline To as_type(From value) {
  return strata::bits_as<To>(value);
}
#define fma fmaf
#define exp expf
#define sqrt sqrtf
