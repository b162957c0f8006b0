// The functions of warp_tiles.cuh, one warp's share of rows a thread.

#include <fusebuild/kernel.cuh>

// Which warp has each row, and how many tiles have it; the layout as far as it depends on sizes.
FUSEBUILD_KERNEL(128, 1)
shares(int32_t* __restrict__ owners, int32_t* __restrict__ times, int32_t* __restrict__ layout,
       int64_t outers, int64_t depth, int64_t columns, int64_t parts, int64_t warps, int64_t most_rows) {
  const auto pieces =
      fb::WarpPieces::share<8>(int(outers), int(depth), int(columns), int(parts), int(warps), int(most_rows));
  const int warp = fb::block_x() * 128 + fb::thread_x();
  if (warp == 0) {
    const int own[] = {pieces.piece_outers, pieces.tiles, pieces.tile_rows, pieces.row_shift,
                       pieces.team_shift};
    for (int i = 0; i < 5; ++i) layout[i] = own[i];
  }
  if (warp >= warps) return;
  for (auto tile = pieces.first(warp); tile.piece < pieces.count(); tile = pieces.next(tile, int(warps))) {
    for (int row = 0; row < tile.rows; ++row) {
      owners[tile.top + row] = warp;
      ++times[tile.top + row];
    }
  }
}
FUSEBUILD_ENTRY(shares)

// The same of one index whose tiles are told.
FUSEBUILD_KERNEL(128, 1)
told(int32_t* __restrict__ owners, int32_t* __restrict__ times, int64_t depth, int64_t warps, int64_t tiles,
     int64_t tile_rows) {
  const fb::WarpRows pieces(int(depth), int(warps), int(tiles), int(tile_rows), 0);
  const int warp = fb::block_x() * 128 + fb::thread_x();
  if (warp >= warps) return;
  for (auto tile = pieces.first(warp); tile.piece < pieces.count(); tile = pieces.next(tile, int(warps))) {
    for (int row = 0; row < tile.rows; ++row) {
      owners[tile.top + row] = warp;
      ++times[tile.top + row];
    }
  }
}
FUSEBUILD_ENTRY(told)
