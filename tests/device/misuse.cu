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

// One warp leaves no partial results of the row that all take up.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) leaves_a_row_to_the_others(int32_t* out) {
  ExchangePhase phase = join_exchange();
  int32_t sum = thread_x();
  wait_cluster();
  if (block_x() == 0 || thread_x() < 32) begin_reduce_row<64, 2>(phase, accumulator<Sum>(sum));
  finish_reduce_row<64, 2>(phase, accumulator<Sum>(sum));
  out[thread_x()] = sum;
}
FUSEBUILD_CLUSTER_ENTRY(leaves_a_row_to_the_others, 2)

// A cluster of two blocks whose threads do not all come to its barrier.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) returns_before_its_cluster_meets(int32_t* out) {
  if (block_x() == 1 && thread_x() >= 60) return;
  sync_cluster();
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(returns_before_its_cluster_meets, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) arrives_twice(int32_t* out) {
  join_cluster();
  sync_cluster();
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(arrives_twice, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) waits_without_arriving(int32_t* out) {
  wait_cluster();
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(waits_without_arriving, 2)

// As a reduction by a kernel that forgot join_cluster, but for the barrier.
FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) sends_through_no_barrier(int32_t* out) {
  ClusterPhase phase;
  sync_cluster();
  phase.has_met = true;
  reduce_row_in_cluster<64, 2>(phase, accumulator<Sum>(out[thread_x()]));
}
FUSEBUILD_CLUSTER_ENTRY(sends_through_no_barrier, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) sends_to_blocks_that_may_not_have_started(int32_t* out) {
  ClusterPhase phase = join_cluster();
  phase.has_met = true;
  reduce_row_in_cluster<64, 2>(phase, accumulator<Sum>(out[thread_x()]));
}
FUSEBUILD_CLUSTER_ENTRY(sends_to_blocks_that_may_not_have_started, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) sends_to_a_block_that_has_returned(int32_t* out) {
  FUSEBUILD_SHARED(int32_t, values, 64);
  join_cluster();
  wait_cluster();
  if (block_x() == 1) return;
  send_word(in_peer(values, 1), 7, in_peer(transfer_barriers(), 1));
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(sends_to_a_block_that_has_returned, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) sends_beyond_its_cluster(int32_t* out) {
  FUSEBUILD_SHARED(int32_t, values, 64);
  join_cluster();
  wait_cluster();
  send_word(in_peer(values, 2), 7, in_peer(transfer_barriers(), 2));
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(sends_beyond_its_cluster, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) expects_twice(int32_t* out) {
  join_cluster();
  wait_cluster();
  expect_transfers(transfer_barriers()[0], 4);
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(expects_twice, 2)

FUSEBUILD_CLUSTER_KERNEL(64, 1, 2) waits_for_what_none_sends(int32_t* out) {
  join_cluster();
  wait_cluster();
  if (thread_x() == 0) expect_transfers(transfer_barriers()[0], 4);
  if (block_x() == 0 && thread_x() < 63) wait_transfers(transfer_barriers()[0], 0);
  out[thread_x()] = 1;
}
FUSEBUILD_CLUSTER_ENTRY(waits_for_what_none_sends, 2)

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
