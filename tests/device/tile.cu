// The places of tile.cuh: of a matrix's tiles, one a block, and of a tile's columns, one a thread.

#include <fusebuild/kernel.cuh>

FUSEBUILD_KERNEL(32, 1)
tile_places(int64_t* __restrict__ out, int64_t rows, int64_t columns) {
  const int number = fb::block_x(), beside = static_cast<int>(columns);
  const fb::TilePlace own(number / beside, number % beside, static_cast<int>(rows), beside);
  if (fb::thread_x() != 0) return;
  out[number * 2] = own.row;
  out[number * 2 + 1] = own.column;
}
FUSEBUILD_ENTRY(tile_places)

FUSEBUILD_KERNEL(256, 1)
column_places(int64_t* __restrict__ out, int64_t pitch) {
  out[fb::thread_x()] = fb::column_place<8>(fb::thread_x(), static_cast<int>(pitch));
}
FUSEBUILD_ENTRY(column_places)
