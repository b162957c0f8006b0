// The platform layer for the CPU: platform.cuh's names, where a block's threads are fibers of one OS thread.
//
// It is stricter than a GPU, so that tests find what a GPU would let pass now and then: every thread of a
// block must reach every sync_block, every lane of a warp every shuffle, every thread of a cluster both
// halves of its barrier in turn, and every access must be aligned. A kernel that breaks this ends there, with
// a message on stderr, and its launch fails.

#pragma once

#include <cmath>

#include "fusebuild/access.cuh"
#include "fusebuild/host/launch.h"
#include "fusebuild/host/special_functions.h"

#define FUSEBUILD_DEVICE inline __attribute__((always_inline))
#define FUSEBUILD_INLINE __attribute__((always_inline))
#define FUSEBUILD_CONSTEXPR constexpr
#define FUSEBUILD_UNROLL
#define FUSEBUILD_UNROLL_BY(n)
#define FUSEBUILD_KERNEL(max_threads, min_blocks) static void
#define FUSEBUILD_CLUSTER_KERNEL(max_threads, min_blocks, cluster) static void
#define FUSEBUILD_SHARED(type, name, count)                                          \
  static thread_local ::fusebuild::host::SharedArray<type, (count)> name##_of_block; \
  type(&name)[count] = name##_of_block.enter()

// int32_t fusebuild_host3_NAME(grid, block, shared_bytes, cluster, args, stacks): runs the whole grid before
// it returns. `grid` and `block` have three sizes each; so many blocks as `cluster` says, neighbours along y,
// run together; args[i] points to the value of the i-th argument, and
// `stacks` are for this call. Returns 0, 1 for sizes that CUDA would refuse, 2 where there is no memory, or 3
// where a thread broke a rule: with these two some blocks may have run. May be called from several OS threads
// at once. The name has the version of all this: one that takes other parameters has another.
#define FUSEBUILD_ENTRY(name) FUSEBUILD_CLUSTER_ENTRY(name, 1)

// The same for kernels whose blocks run in clusters of so many, neighbours along x.
//
// fusebuild_host3_NAME_parameters describes the kernel's parameters, as signature_of spells them: the
// executor compares it with what a plan would pass.
#define FUSEBUILD_CLUSTER_ENTRY(name, cluster) \
  FUSEBUILD_ENTRY_WITH(name, cluster, ::fusebuild::host::signature_of(name))

// The same for a kernel that runs as many launches as one (members.cuh): NAME_member is what a block of one
// of them does, and fusebuild_host3_NAME_parameters describes what each of them is given.
#define FUSEBUILD_MEMBER(max_threads, min_blocks) static void
#define FUSEBUILD_MEMBERS_ENTRY(name, count)                                                  \
  static void name(const decltype(::fusebuild::members_of<count>(&name##_member))& members) { \
    ::fusebuild::run_member<name##_member>(members);                                          \
  }                                                                                           \
  FUSEBUILD_ENTRY_WITH(name, 1, ::fusebuild::host::signature_of_table<count>(name##_member))

#define FUSEBUILD_ENTRY_WITH(name, cluster, signature)                                                   \
  extern "C" __attribute__((visibility("default"))) constexpr auto fusebuild_host3_##name##_parameters = \
      signature;                                                                                         \
  extern "C" __attribute__((visibility("default"))) int32_t fusebuild_host3_##name(                      \
      const int64_t* grid, const int32_t* block, int64_t shared_bytes, int64_t along_y, void** args,     \
      const ::fusebuild::host::Stacks* stacks) {                                                         \
    return ::fusebuild::host::launch<cluster>(#name, name, grid, block, shared_bytes, along_y, args,     \
                                              stacks);                                                   \
  }

namespace fusebuild {

FUSEBUILD_DEVICE int thread_x() { return host::position.thread.x; }
FUSEBUILD_DEVICE int thread_y() { return host::position.thread.y; }
FUSEBUILD_DEVICE int thread_z() { return host::position.thread.z; }
FUSEBUILD_DEVICE int block_x() { return host::position.block.x; }
FUSEBUILD_DEVICE int block_y() { return host::position.block.y; }
FUSEBUILD_DEVICE int block_z() { return host::position.block.z; }
FUSEBUILD_DEVICE int block_threads() { return host::position.block_size.x; }
FUSEBUILD_DEVICE int grid_x() { return host::position.grid.x; }
FUSEBUILD_DEVICE int grid_y() { return host::position.grid.y; }
FUSEBUILD_DEVICE int grid_z() { return host::position.grid.z; }

template <int kThreads>
FUSEBUILD_DEVICE int thread_x() {
  return thread_x();
}

FUSEBUILD_DEVICE int thread_lane() { return host::current_block->lane(); }

FUSEBUILD_DEVICE void sync_block() { host::current_block->sync_block(); }
FUSEBUILD_DEVICE void sync_warp() { host::current_block->sync_warp(); }

// Kernels run one after the other.
FUSEBUILD_DEVICE void wait_for_previous_kernel() {}
FUSEBUILD_DEVICE void wait_for_previous_kernel(int64_t) {}
FUSEBUILD_DEVICE void let_next_kernel_start() {}
FUSEBUILD_DEVICE void expect_sector(const void*) {}

FUSEBUILD_DEVICE int rank_in_cluster() { return host::position.rank; }
FUSEBUILD_DEVICE void arrive_cluster() { host::current_block->arrive_cluster(); }
FUSEBUILD_DEVICE void arrive_cluster_early() { host::current_block->arrive_cluster(); }
FUSEBUILD_DEVICE void wait_cluster() { host::current_block->wait_cluster(); }

using TransferBarrier = host::TransferBarrier;

template <int kCount>
FUSEBUILD_DEVICE void prepare_transfers(TransferBarrier (&barriers)[kCount]) {
  for (TransferBarrier& barrier : barriers) host::current_block->prepare_transfers(barrier);
}
FUSEBUILD_DEVICE void expect_transfers(TransferBarrier& barrier, int bytes) {
  host::current_block->expect_transfers(barrier, bytes);
}
FUSEBUILD_DEVICE void wait_transfers(TransferBarrier& barrier, int parity) {
  host::current_block->wait_transfers(barrier, parity);
}

// The blocks of a kernel share an OS thread.
FUSEBUILD_DEVICE int count_up(int* counter) { return (*counter)++; }
FUSEBUILD_DEVICE int count_up_in_order(int* counter) { return count_up(counter); }

template <typename Integer>
FUSEBUILD_DEVICE Integer exchange(Integer* place, Integer number) {
  const Integer before = *place;
  *place = number;
  return before;
}

template <typename Integer>
FUSEBUILD_DEVICE void raise_to(Integer* place, Integer number) {
  if (*place < number) *place = number;
}

// Blocks run one after another.
FUSEBUILD_DEVICE void await_count(const int* counter, int count) {
  if (*counter < count) host::current_block->fail("it waits for blocks that come later");
}

struct PeerAddress {
  unsigned char* address;

  PeerAddress operator+(int bytes) const { return {address + bytes}; }
};

template <typename T, int kCount>
FUSEBUILD_DEVICE PeerAddress in_peer(T (&mine)[kCount], int rank) {
  host::current_block->check_peer(rank);
  return {reinterpret_cast<unsigned char*>(host::SharedArray<T, kCount>::of_peer(mine, rank))};
}

FUSEBUILD_DEVICE void send_word(PeerAddress place, unsigned word, PeerAddress barrier) {
  memcpy(place.address, &word, sizeof(word));
  host::current_block->count_transfer(*reinterpret_cast<TransferBarrier*>(barrier.address), sizeof(word));
}

template <typename T>
FUSEBUILD_DEVICE T* dynamic_shared() {
  return reinterpret_cast<T*>(host::position.dynamic_shared);
}

// A lane's slot holds 16 bytes; what is larger goes in pieces.
template <Shuffle kMode, typename T>
FUSEBUILD_DEVICE T shuffle(T value, int operand, int width) {
  if constexpr (sizeof(T) <= 16) {
    return host::current_block->shuffle(kMode, value, operand, width);
  } else {
    unsigned words[(sizeof(T) + 3) / 4] = {};
    memcpy(words, &value, sizeof(T));
    for (unsigned& word : words) word = host::current_block->shuffle(kMode, word, operand, width);
    memcpy(&value, words, sizeof(T));
    return value;
  }
}

template <typename Word>
FUSEBUILD_DEVICE void check_aligned(const Word* address, const char* access) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  if (number % sizeof(Word) == 0) return;
  host::current_block->fail("misaligned %zu-byte %s, its address modulo 16 is %zu", sizeof(Word), access,
                            number % 16);
}

template <Hint kHint, typename Word>
FUSEBUILD_DEVICE Word load_word(const Word* address) {
  check_aligned(address, "load");
  Word word;
  memcpy(&word, static_cast<const void*>(address), sizeof(Word));
  return word;
}

template <typename Word>
FUSEBUILD_DEVICE void store_word(Word* address, Word word) {
  check_aligned(address, "store");
  memcpy(static_cast<void*>(address), &word, sizeof(Word));
}

template <typename Word>
FUSEBUILD_DEVICE void copy_word_async(Word* place, const Word* address, int bytes) {
  check_aligned(address, "asynchronous load");
  check_aligned(place, "asynchronous store");
  host::current_block->copies().add(place, address, sizeof(Word), static_cast<size_t>(bytes));
}
template <typename Word>
FUSEBUILD_DEVICE void copy_word_async(Word* place, const Word* address) {
  copy_word_async(place, address, static_cast<int>(sizeof(Word)));
}
FUSEBUILD_DEVICE void end_copies() { host::current_block->copies().end_group(); }
template <int kLater>
FUSEBUILD_DEVICE void wait_copies() {
  host::current_block->copies().finish(kLater);
}

// Only registers of a GPU are few.
template <typename Word>
FUSEBUILD_DEVICE void forget_origin(Word&) {}
template <typename T>
FUSEBUILD_DEVICE void known_to_be_global(T*) {}

// The upper word of the product of two.
FUSEBUILD_DEVICE uint32_t high_product(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t(a) * b >> 32);
}

FUSEBUILD_DEVICE int leading_zeros(uint32_t word) { return word == 0 ? 32 : __builtin_clz(word); }

FUSEBUILD_DEVICE uint32_t shift_up(uint32_t word, int places) { return places < 32 ? word << places : 0; }

FUSEBUILD_DEVICE uint32_t select_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t selected = 0;
  for (int k = 0; k < 4; ++k) selected |= (bytes >> (8 * (selector >> 4 * k & 7)) & 0xff) << 8 * k;
  return selected;
}

FUSEBUILD_DEVICE float exp2_or_zero(float x) {
  const float result = std::exp2(x);
  return result < std::numeric_limits<float>::min() ? 0.0f : result;
}

FUSEBUILD_DEVICE int count_bits(unsigned x) { return __builtin_popcount(x); }

FUSEBUILD_DEVICE bool any_lane(bool test) {
  for (int mask = 16; mask > 0; mask /= 2) test = shuffle<Shuffle::kXor>(test, mask, 32) || test;
  return test;
}

FUSEBUILD_DEVICE float approximate_reciprocal(float x) { return 1.0f / x; }

FUSEBUILD_DEVICE float max_or_nan(float a, float b) {
  if (a != a || b != b) return a + b;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}
FUSEBUILD_DEVICE float min_or_nan(float a, float b) {
  if (a != a || b != b) return a + b;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}

// As PTX's cvt.rzi: saturates; NaN becomes 0 from float to 32 bits, else the most negative integer.
template <typename Integer, typename Float>
FUSEBUILD_DEVICE Integer truncate_to_integer(Float x) {
  constexpr Integer kLowest = std::numeric_limits<Integer>::lowest();
  constexpr bool kNanIsZero = sizeof(Float) == 4 && sizeof(Integer) == 4;
  if (x != x) return kNanIsZero ? Integer(0) : kLowest;
  if (x < static_cast<Float>(kLowest)) return kLowest;
  // -lowest is a power of two, and so exact in every floating type.
  if (x >= -static_cast<Float>(kLowest)) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(x);
}

FUSEBUILD_DEVICE float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
FUSEBUILD_DEVICE double rsqrt(double x) { return 1.0 / ::sqrt(x); }
FUSEBUILD_DEVICE float erfinv(float x) { return static_cast<float>(host::erfinv(static_cast<double>(x))); }
FUSEBUILD_DEVICE double erfinv(double x) { return host::erfinv(x); }
FUSEBUILD_DEVICE float erfcinv(float x) { return static_cast<float>(host::erfcinv(static_cast<double>(x))); }
FUSEBUILD_DEVICE double erfcinv(double x) { return host::erfcinv(x); }
FUSEBUILD_DEVICE float lgamma(float x) { return host::log_gamma(x); }
FUSEBUILD_DEVICE double lgamma(double x) { return host::log_gamma(x); }
FUSEBUILD_DEVICE float rounded_product(float a, float b) { return a * b; }  // compiled with -ffp-contract=off
FUSEBUILD_DEVICE void sin_and_cos_of_pi(float x, float& sine, float& cosine) {
  const double angle = 3.14159265358979323846 * x;
  sine = static_cast<float>(::sin(angle));
  cosine = static_cast<float>(::cos(angle));
}

}  // namespace fusebuild
