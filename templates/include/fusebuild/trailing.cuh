// Parts of rows that blocks read, and others that they wait for: what is known of a row when all of its parts
// have been read. Each row has a counter, which is `parts` when all have left their partial results, and one
// more when a block has combined them.

#pragma once

#include "fusebuild/vec.cuh"

namespace fusebuild {

// The block's turn, the first of which is 0: blocks that have earlier ones have begun, and get to what they
// leave before they wait. So whoever waits for those alone does not wait forever, in whichever order blocks
// begin.
FUSEBUILD_DEVICE int draw_turn(int* turns) {
  FUSEBUILD_SHARED(int, turn, 1);
  if (thread_x() == 0) turn[0] = count_up(turns);
  sync_block();
  return turn[0];
}

// Waits until the row of the counter `awaited` is known, if there is one. For all threads of the block.
FUSEBUILD_DEVICE void await_row(const int* awaited, int64_t parts) {
  if (thread_x() == 0 && awaited != nullptr) await_count(awaited, static_cast<int>(parts) + 1);
  sync_block();
}

// The same, and counts the block's part of another row, whose partial results its first thread has left in
// memory. Whether it is the last: then all threads see those of the others.
FUSEBUILD_DEVICE bool is_last_part(int* counter, int64_t parts, const int* awaited) {
  FUSEBUILD_SHARED(int, before, 1);
  if (thread_x() == 0) before[0] = count_up_in_order(counter);
  const bool waits = thread_x() == kWarpThreads && awaited != nullptr;  // beside the first warp
  if (waits) await_count(awaited, static_cast<int>(parts) + 1);
  sync_block();
  return before[0] == parts - 1;
}

}  // namespace fusebuild
