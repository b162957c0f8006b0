// Scans across the threads of a block: elements combine in the order of their indices, and with each block of
// a given size in one fixed tree, so results are bitwise the same from run to run.

#pragma once

#include "fusebuild/reduce.cuh"

namespace fusebuild {

// Replaces `state` by what the states of the lanes up to and including the caller's combine to.
template <typename Op, typename State>
FUSEBUILD_DEVICE void scan_warp(State& state) {
  const int lane = thread_lane();
  FUSEBUILD_UNROLL
  for (int reach = 1; reach < kWarpThreads; reach *= 2) {
    const State earlier = shuffle_index(state, lane < reach ? lane : lane - reach);
    if (lane >= reach) state = Op::combine(earlier, state);
  }
}

// Each of the kThreads threads of a (kThreads, 1, 1) block, whole warps, holds N neighbouring items. Replaces
// each item by what `carry` and all items up to and including it combine to, and `carry`, which is the same
// in every thread before and after, by what it and all items of the block combine to. All threads of the
// block must call this. Successive calls with one ReducePhase need one barrier each.
template <int kThreads, typename Op, int N>
FUSEBUILD_DEVICE void scan_block(ReducePhase& phase, typename Op::State& carry, States<Op, N>& items) {
  using State = typename Op::State;
  static_assert(kThreads % kWarpThreads == 0 && kThreads <= 1024, "whole warps, at most 1024 threads");
  FUSEBUILD_UNROLL
  for (int k = 1; k < N; ++k) items[k] = Op::combine(items[k - 1], items[k]);
  State inclusive = items[N - 1];
  scan_warp<Op>(inclusive);

  State before = carry;
  if constexpr (kThreads > kWarpThreads) {
    constexpr int kWarps = kThreads / kWarpThreads;
    FUSEBUILD_SHARED(State, totals, 2 * kWarps);
    State* own = totals + phase.parity * kWarps;
    const int warp = thread_x() / kWarpThreads;
    if (thread_lane() == kWarpThreads - 1) own[warp] = inclusive;
    sync_block();
    State running = carry;
    FUSEBUILD_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp) before = running;
      running = Op::combine(running, own[w]);
    }
    carry = running;
    phase.parity ^= 1;
  } else {
    carry = Op::combine(carry, shuffle_index(inclusive, kWarpThreads - 1));
  }
  const State previous = shuffle_index(inclusive, thread_lane() == 0 ? 0 : thread_lane() - 1);
  if (thread_lane() > 0) before = Op::combine(before, previous);
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) items[k] = Op::combine(before, items[k]);
}

}  // namespace fusebuild
