// Kernels that break a rule, each in its own way. The host target ends them with a message.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

FUSEBUILD_KERNEL(64, 1) returns_before_sync(int32_t* out) {
  if (thread_x() == 5) return;
  sync_block();
  out[thread_x()] = 1;
}
FUSEBUILD_ENTRY(returns_before_sync)

FUSEBUILD_KERNEL(64, 1) returns_before_shuffle(int32_t* out) {
  if (thread_x() >= 40) return;
  out[thread_x()] = shuffle_xor(thread_x(), 1);
}
FUSEBUILD_ENTRY(returns_before_shuffle)

FUSEBUILD_KERNEL(64, 1) shuffles_while_others_sync(int32_t* out) {
  if (thread_x() % 2 == 0)
    sync_block();
  else
    out[thread_x()] = shuffle_xor(thread_x(), 1);
}
FUSEBUILD_ENTRY(shuffles_while_others_sync)

FUSEBUILD_KERNEL(64, 1) shuffles_by_two_widths(int32_t* out) {
  out[thread_x()] = thread_x() < 16 ? shuffle_xor(thread_x(), 1, 16) : shuffle_xor(thread_x(), 1, 8);
}
FUSEBUILD_ENTRY(shuffles_by_two_widths)

FUSEBUILD_KERNEL(64, 1) shuffles_while_others_sync_warp(int32_t* out) {
  if (thread_x() < 16)
    sync_warp();
  else
    out[thread_x()] = shuffle_xor(thread_x(), 1);
}
FUSEBUILD_ENTRY(shuffles_while_others_sync_warp)

FUSEBUILD_KERNEL(64, 1) reads_a_lane_that_is_not_there(int32_t* out) {
  out[thread_x()] = shuffle_xor(thread_x(), 16);
}
FUSEBUILD_ENTRY(reads_a_lane_that_is_not_there)

FUSEBUILD_KERNEL(64, 1) loads_unaligned(int32_t* out) { store(out, load<4>(out + 1)); }
FUSEBUILD_ENTRY(loads_unaligned)

FUSEBUILD_KERNEL(64, 1) stores_unaligned(int32_t* out) { store(out + 2, load<4>(out)); }
FUSEBUILD_ENTRY(stores_unaligned)

FUSEBUILD_KERNEL(64, 1) needs_a_huge_stack(int32_t* out) {
  volatile char large[512 * 1024];
  large[thread_x()] = 1;
  sync_block();
  out[thread_x()] = large[thread_x()];
}
FUSEBUILD_ENTRY(needs_a_huge_stack)

// The rest are wrong in a way that only the sanitizers see.
FUSEBUILD_KERNEL(64, 1) leaves_static_shared(int32_t* out) {
  FUSEBUILD_SHARED(int32_t, values, 64);
  values[thread_x() + out[0]] = 1;
  sync_block();
  out[thread_x()] = values[thread_x()];
}
FUSEBUILD_ENTRY(leaves_static_shared)

FUSEBUILD_KERNEL(64, 1) leaves_dynamic_shared(int32_t* out) {
  int32_t* values = dynamic_shared<int32_t>();
  values[thread_x() + out[0]] = 1;
  sync_block();
  out[thread_x()] = values[thread_x()];
}
FUSEBUILD_ENTRY(leaves_dynamic_shared)

FUSEBUILD_KERNEL(64, 1) leaves_its_tensor(int32_t* out) { store(out + 4 * 64 * out[0], load<4>(out)); }
FUSEBUILD_ENTRY(leaves_its_tensor)
