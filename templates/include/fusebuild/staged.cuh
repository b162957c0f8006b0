// Rows of any length that the blocks of a cluster have together, one after another, where each thread has the
// same places of shared memory for its vectors of every row: none waits for others before it reads what it
// has copied there itself, or copies the next row to where this one was.

#pragma once

#include "fusebuild/shifted.cuh"

namespace fusebuild {

// What a thread has of the row of so many `columns` that begins at element `first` of a tensor: `count`
// aligned vectors from column `start` on, each `step` after the one before it, and an `edge` element beside
// all vectors, if it has one.
template <int N, typename Index>
struct OwnOfRow {
  Index start, edge;
  int count;
  bool has_edge;

  FUSEBUILD_DEVICE OwnOfRow(int64_t first, Index columns, int thread, Index step) {
    const RoomyEdges<N, Index> edges(first, columns);
    start = edges.before + thread * N;
    edge = edges.column(thread);
    count = start < edges.end() ? static_cast<int>((edges.end() - start - 1) / step) + 1 : 0;
    has_edge = thread < edges.count;
  }
};

}  // namespace fusebuild
