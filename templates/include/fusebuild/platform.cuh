// The platform layer for CUDA (sm_80 and later). host/platform.h defines the same names for the CPU.

#pragma once

#include "fusebuild/access.cuh"

// Functions must leave no body behind: a surviving internal-linkage function has a name that depends on the
// directory it was compiled in, and so would the cubin.
#define FUSEBUILD_DEVICE __device__ __forceinline__
#define FUSEBUILD_INLINE __attribute__((always_inline))
#define FUSEBUILD_CONSTEXPR __host__ __device__ constexpr
#define FUSEBUILD_PRAGMA(text) _Pragma(#text)
#define FUSEBUILD_UNROLL _Pragma("unroll")
#define FUSEBUILD_UNROLL_BY(n) FUSEBUILD_PRAGMA(unroll n)
#define FUSEBUILD_KERNEL(max_threads, min_blocks) \
  extern "C" __global__ void __launch_bounds__(max_threads, min_blocks)
#define FUSEBUILD_CLUSTER_KERNEL(max_threads, min_blocks, cluster) \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(max_threads, min_blocks)
#define FUSEBUILD_SHARED(type, name, count) __shared__ alignas(16) type name[count]
#define FUSEBUILD_ENTRY(name)
#define FUSEBUILD_CLUSTER_ENTRY(name, cluster)

// A kernel that runs as many launches as one (members.cuh): NAME_member is what a block of one of them does.
#define FUSEBUILD_MEMBER(max_threads, min_blocks)                         \
  constexpr int kMemberThreads = max_threads, kMemberBlocks = min_blocks; \
  FUSEBUILD_DEVICE void
#define FUSEBUILD_MEMBERS_ENTRY(name, count)                                                           \
  extern "C" __global__ void __launch_bounds__(kMemberThreads, kMemberBlocks)                          \
      name(const __grid_constant__ decltype(::fusebuild::members_of<count>(&name##_member)) members) { \
    ::fusebuild::run_member<name##_member>(members);                                                   \
  }

namespace fusebuild {

FUSEBUILD_DEVICE int thread_x() { return static_cast<int>(threadIdx.x); }
FUSEBUILD_DEVICE int thread_y() { return static_cast<int>(threadIdx.y); }
FUSEBUILD_DEVICE int thread_z() { return static_cast<int>(threadIdx.z); }
FUSEBUILD_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
FUSEBUILD_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
FUSEBUILD_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
FUSEBUILD_DEVICE int block_threads() { return static_cast<int>(blockDim.x); }  // of blocks that are a line
FUSEBUILD_DEVICE int grid_x() { return static_cast<int>(gridDim.x); }
FUSEBUILD_DEVICE int grid_y() { return static_cast<int>(gridDim.y); }
FUSEBUILD_DEVICE int grid_z() { return static_cast<int>(gridDim.z); }

// The same where a block is known to have so many threads along x: so the compiler finds that a thread's
// columns end with the row.
template <int kThreads>
FUSEBUILD_DEVICE int thread_x() {
  const int x = thread_x();
  __builtin_assume(x >= 0 && x < kThreads);
  return x;
}

// The thread's place in its warp, whatever the shape of the block.
FUSEBUILD_DEVICE int thread_lane() {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

FUSEBUILD_DEVICE void sync_block() { __syncthreads(); }
FUSEBUILD_DEVICE void sync_warp() { __syncwarp(); }

// Waits until the kernel before has ended, since this one may be launched to begin earlier, which takes
// sm_90; what that one wrote is seen then. Every thread of every kernel calls it, so that a kernel that has
// ended proves that those before it have. Nothing may be read through `const T* __restrict__`: such loads may
// move up.
FUSEBUILD_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same when `known` is, a number that is never negative: what computes it comes before, while the kernel
// before still runs. Compilers move it behind otherwise.
FUSEBUILD_DEVICE void wait_for_previous_kernel(int64_t known) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .pred is_known; setp.ge.s64 is_known, %0, 0; @is_known griddepcontrol.wait; }"
               :
               : "l"(known)
               : "memory");
#endif
}

// Lets the next kernel begin, where it was launched to do so early, once every block has come here or ended:
// it takes no place from blocks of this one. It must wait for this one's end.
FUSEBUILD_DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Asks for the sector of 32 bytes at `address` to be in L2 when it is loaded.
FUSEBUILD_DEVICE void expect_sector(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// --- Clusters (sm_90 and later)

// The barrier of a cluster in two halves, for all threads of all its blocks; whole warps call each together.
// What was written before arrive_cluster is seen after wait_cluster. arrive_cluster_early says only that the
// caller's block has started and that its transfer barriers are there, and waits for no memory access.
FUSEBUILD_DEVICE void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
FUSEBUILD_DEVICE void arrive_cluster_early() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
FUSEBUILD_DEVICE void wait_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// The caller's block among those of its cluster, however they lie.
FUSEBUILD_DEVICE int rank_in_cluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Counts the bytes that peers send into the shared memory of its block. A phase is over when one thread has
// said how many to expect and that many have come; sending early does no harm.
struct alignas(8) TransferBarrier {
  uint64_t state;
};

FUSEBUILD_DEVICE uint32_t shared_address(const void* generic) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(generic));
}

// By one thread, before its block arrives at the cluster's first barrier.
template <int kCount>
FUSEBUILD_DEVICE void prepare_transfers(TransferBarrier (&barriers)[kCount]) {
  FUSEBUILD_UNROLL
  for (int b = 0; b < kCount; ++b)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barriers[b])) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

FUSEBUILD_DEVICE void expect_transfers(TransferBarrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(bytes)
               : "memory");
}

// Waits for the end of the phase of the given parity; the first phase has parity 0. What was sent is seen.
FUSEBUILD_DEVICE void wait_transfers(TransferBarrier& barrier, int parity) {
  uint32_t is_over;
  do {
    asm volatile(
        "{\n"
        "  .reg .pred over;\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
        "  selp.u32 %0, 1, 0, over;\n"
        "}"
        : "=r"(is_over)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  } while (is_over == 0);
}

// Counts up in global memory, for all blocks at once; the number before. (What adds one a compiler does once
// for all lanes, which then wait for the answer to share it out.)
FUSEBUILD_DEVICE int count_up(int* counter) {
  unsigned number;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], 0x7fffffff;"
               : "=r"(number)
               : "l"(counter)
               : "memory");
  return static_cast<int>(number);
}

// The same where what the thread wrote before is seen by whoever counts up so later, or awaits the count.
FUSEBUILD_DEVICE int count_up_in_order(int* counter) {
  int number;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(number) : "l"(counter) : "memory");
  return number;
}

// Puts `number` in a place of global memory; what was there before.
FUSEBUILD_DEVICE int32_t exchange(int32_t* place, int32_t number) { return atomicExch(place, number); }
FUSEBUILD_DEVICE int64_t exchange(int64_t* place, int64_t number) {
  auto* word = reinterpret_cast<unsigned long long*>(place);
  return static_cast<int64_t>(atomicExch(word, static_cast<unsigned long long>(number)));
}

// Leaves the larger of `number` and what is there in a place of global memory.
FUSEBUILD_DEVICE void raise_to(int32_t* place, int32_t number) { atomicMax(place, number); }
FUSEBUILD_DEVICE void raise_to(int64_t* place, int64_t number) {
  atomicMax(reinterpret_cast<long long*>(place), static_cast<long long>(number));
}

// Waits until `counter` is at least `count`. What the threads wrote that counted is seen.
FUSEBUILD_DEVICE void await_count(const int* counter, int count) {
  int number;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(number) : "l"(counter) : "memory");
  while (number < count) {
    __nanosleep(100);
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(number) : "l"(counter) : "memory");
  }
}

// A place in the shared memory of a block of the cluster, to send to.
struct PeerAddress {
  uint32_t address;

  FUSEBUILD_DEVICE PeerAddress operator+(int bytes) const { return {address + static_cast<uint32_t>(bytes)}; }
};

// Where block `rank` of the cluster has what is `mine` in the calling block.
template <typename T, int kCount>
FUSEBUILD_DEVICE PeerAddress in_peer(T (&mine)[kCount], int rank) {
  PeerAddress peer;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer.address) : "r"(shared_address(&mine[0])), "r"(rank));
  return peer;
}

// Sends four bytes, which the barrier beside them counts.
FUSEBUILD_DEVICE void send_word(PeerAddress place, unsigned word, PeerAddress barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(place.address),
      "r"(word), "r"(barrier.address)
      : "memory");
}

// ---

// The block's dynamic shared memory, 16-byte aligned; every T names the same bytes.
template <typename T>
FUSEBUILD_DEVICE T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char fusebuild_dynamic_shared[];
  return reinterpret_cast<T*>(fusebuild_dynamic_shared);
}

// Copies of one word to shared memory that the thread does not wait for: nothing is kept in registers.
FUSEBUILD_DEVICE void copy_word_async(uint4* place, const uint4* address) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(place)), "l"(address)
               : "memory");
}
FUSEBUILD_DEVICE void copy_word_async(uint2* place, const uint2* address) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(place)), "l"(address)
               : "memory");
}
FUSEBUILD_DEVICE void copy_word_async(unsigned int* place, const unsigned int* address) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(place)), "l"(address)
               : "memory");
}

// The same of the first `bytes` of a word, from none of them to all: zeros come in place of the others, which
// are not read.
FUSEBUILD_DEVICE void copy_word_async(uint4* place, const uint4* address, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(place)), "l"(address),
               "r"(bytes)
               : "memory");
}
FUSEBUILD_DEVICE void copy_word_async(uint2* place, const uint2* address, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(place)), "l"(address),
               "r"(bytes)
               : "memory");
}
FUSEBUILD_DEVICE void copy_word_async(unsigned int* place, const unsigned int* address, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(place)), "l"(address),
               "r"(bytes)
               : "memory");
}

// Ends a group of copies: those that the thread began since the last end.
FUSEBUILD_DEVICE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until the thread's copies have arrived, all but those of its last `kLater` groups. Only the thread itself
// sees them then.
template <int kLater>
FUSEBUILD_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
}

template <Shuffle kMode>
FUSEBUILD_DEVICE unsigned shuffle_word(unsigned word, int operand, int width) {
  constexpr unsigned kAllLanes = 0xffffffffu;
  if constexpr (kMode == Shuffle::kXor) return __shfl_xor_sync(kAllLanes, word, operand, width);
  if constexpr (kMode == Shuffle::kDown) return __shfl_down_sync(kAllLanes, word, operand, width);
  if constexpr (kMode == Shuffle::kIndex) return __shfl_sync(kAllLanes, word, operand, width);
}

// A value of any size, moved between lanes four bytes at a time. All lanes of the warp take part.
template <Shuffle kMode, typename T>
FUSEBUILD_DEVICE T shuffle(T value, int operand, int width) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  unsigned words[kWords] = {};
  memcpy(words, &value, sizeof(T));
  FUSEBUILD_UNROLL
  for (int w = 0; w < kWords; ++w) words[w] = shuffle_word<kMode>(words[w], operand, width);
  memcpy(&value, words, sizeof(T));
  return value;
}

// Those of kAhead are plain: ptxas moves loads of the read-only path down to their use, volatile or not.
template <Hint kHint>
FUSEBUILD_DEVICE uint4 load_word(const uint4* address) {
  if constexpr (kHint == Hint::kNone) return *address;
  uint4 word;
  if constexpr (kHint == Hint::kWide) {
    asm volatile("ld.global.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(address));
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(address));
  }
  return word;
}

template <Hint kHint>
FUSEBUILD_DEVICE uint2 load_word(const uint2* address) {
  if constexpr (kHint == Hint::kNone) return *address;
  uint2 word;
  if constexpr (kHint == Hint::kWide) {
    asm volatile("ld.global.L2::256B.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "l"(address));
  } else {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "l"(address));
  }
  return word;
}

template <Hint kHint>
FUSEBUILD_DEVICE unsigned int load_word(const unsigned int* address) {
  if constexpr (kHint == Hint::kNone) return *address;
  unsigned int word;
  if constexpr (kHint == Hint::kWide) {
    asm volatile("ld.global.L2::256B.u32 %0, [%1];" : "=r"(word) : "l"(address));
  } else {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(address));
  }
  return word;
}

// Words of one and two bytes are read one by one: what lies beside them is brought anyway.
template <Hint kHint, typename Word>
FUSEBUILD_DEVICE Word load_word(const Word* address) {
  static_assert(sizeof(Word) <= 2);
  if constexpr (kHint != Hint::kAhead) return *address;
  unsigned short word;
  if constexpr (sizeof(Word) == 2)
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(word) : "l"(address));
  else
    asm volatile("ld.global.u8 %0, [%1];" : "=h"(word) : "l"(address));
  return static_cast<Word>(word);
}

// The wide stores are spelled out: the compiler may take `*address = word` apart into the values that made up
// the word and then, where it cannot prove the address aligned, leave it in two-byte pieces.
FUSEBUILD_DEVICE void store_word(uint4* address, uint4 word) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word.x), "r"(word.y),
               "r"(word.z), "r"(word.w)
               : "memory");
}
FUSEBUILD_DEVICE void store_word(uint2* address, uint2 word) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(word.x), "r"(word.y) : "memory");
}
FUSEBUILD_DEVICE void store_word(unsigned int* address, unsigned int word) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(word) : "memory");
}
template <typename Word>
FUSEBUILD_DEVICE void store_word(Word* address, Word word) {
  static_assert(sizeof(Word) <= 2);
  *address = word;
}

// From here on the compiler knows nothing of where `word` or `address` comes from: it does not compute that
// again for each element.
FUSEBUILD_DEVICE void forget_origin(unsigned int& word) { asm volatile("" : "+r"(word)); }
FUSEBUILD_DEVICE void forget_origin(int32_t& number) { asm("" : "+r"(number)); }
FUSEBUILD_DEVICE void forget_origin(int64_t& number) { asm volatile("" : "+l"(number)); }
FUSEBUILD_DEVICE void forget_origin(uint2& word) { asm volatile("" : "+r"(word.x), "+r"(word.y)); }
FUSEBUILD_DEVICE void forget_origin(uint4& word) {
  asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
}
template <typename T>
FUSEBUILD_DEVICE void forget_origin(const T*& address) {
  asm volatile("" : "+l"(address));
  __builtin_assume(__isGlobal(address));  // or else it would be read as one of any memory
}

// From here on the compiler knows what it knows of every pointer that is a kernel's own parameter.
template <typename T>
FUSEBUILD_DEVICE void known_to_be_global(T* address) {
  __builtin_assume(__isGlobal(address));
}

// The upper word of the product of two.
FUSEBUILD_DEVICE uint32_t high_product(uint32_t a, uint32_t b) { return __umulhi(a, b); }

FUSEBUILD_DEVICE int leading_zeros(uint32_t word) { return __clz(static_cast<int>(word)); }

// A word shifted up by any number of places, at least 0: nothing is left of it by 32 or more.
FUSEBUILD_DEVICE uint32_t shift_up(uint32_t word, int places) {
  uint32_t result;
  asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(word), "r"(places));
  return result;
}

// Four of the eight bytes of two words, from `low`'s first to `high`'s last: each by its number, from 0 to 7,
// in one of the selector's four lower groups of four bits.
FUSEBUILD_DEVICE uint32_t select_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

// 2^x, to 2 units in the last place; 0 where it is subnormal.
FUSEBUILD_DEVICE float exp2_or_zero(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

FUSEBUILD_DEVICE int count_bits(unsigned x) { return __popc(x); }

// Whether `test` holds in any lane of the warp. All of them take part.
FUSEBUILD_DEVICE bool any_lane(bool test) { return __any_sync(0xffffffffu, test); }

// 1 / x to 1 unit in the last place; of a subnormal x, infinity, and 0 where it is subnormal itself.
FUSEBUILD_DEVICE float approximate_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// One instruction where there is one: NaN if either is NaN, and +0 is above -0.
FUSEBUILD_DEVICE float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
FUSEBUILD_DEVICE float min_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Toward zero; what does not fit saturates.
template <typename Integer, typename Float>
FUSEBUILD_DEVICE Integer truncate_to_integer(Float x) {
  return static_cast<Integer>(x);
}

// The math functions that have no common name on both platforms.
FUSEBUILD_DEVICE float rsqrt(float x) { return ::rsqrtf(x); }
FUSEBUILD_DEVICE double rsqrt(double x) { return ::rsqrt(x); }
FUSEBUILD_DEVICE float erfinv(float x) { return ::erfinvf(x); }
FUSEBUILD_DEVICE double erfinv(double x) { return ::erfinv(x); }
FUSEBUILD_DEVICE float erfcinv(float x) { return ::erfcinvf(x); }
FUSEBUILD_DEVICE double erfcinv(double x) { return ::erfcinv(x); }
FUSEBUILD_DEVICE float lgamma(float x) { return ::lgammaf(x); }
FUSEBUILD_DEVICE double lgamma(double x) { return ::lgamma(x); }
// a * b rounded, whatever is added to it: the same bits wherever a kernel computes it once more.
FUSEBUILD_DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
// Of x times pi, whose product is never rounded.
FUSEBUILD_DEVICE void sin_and_cos_of_pi(float x, float& sine, float& cosine) {
  ::sincospif(x, &sine, &cosine);
}

}  // namespace fusebuild
