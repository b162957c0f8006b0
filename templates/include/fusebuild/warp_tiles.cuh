// Tiles of whole rows that each warp has for itself in shared memory, as they lie side by side in global
// memory, while it walks its share of the rows.

#pragma once

#include "fusebuild/flat.cuh"

namespace fusebuild {

constexpr int kWarpDoublings = 5;
static_assert(1 << kWarpDoublings == kWarpThreads, "as many doublings as make a warp");

// Rows of one warp, side by side: those of `outers` whole outer indices from `outer` on, or some of part
// number `part` of one.
struct WarpTile {
  int piece, number;  // the tile's own in its piece
  int part;
  int outer, outers;
  int64_t top, end;  // its first row, and where those of its indices end
  int rows;
};

// `depth` rows of `columns` elements for each of `outers` indices, in pieces: of `piece_outers` whole indices
// where those have few rows, or one of `parts` of an index, which take its tiles in turn. A piece has so many
// `tiles` of `tile_rows`. As many threads of a warp share a row as it asks for, 2^row_shift, so that none has
// more than kHeld of its columns; 2^team_shift groups of so many share an index.
struct WarpPieces {
  int outers, depth, columns, parts;
  int piece_outers, tiles, tile_rows, row_shift, team_shift;

  // For rows that so many `warps` share, with tiles of `most_rows` at most. Where there is but one index, it
  // has a part for each warp.
  template <int kHeld>
  static FUSEBUILD_DEVICE WarpPieces share(int outers, int depth, int columns, int parts, int warps,
                                           int most_rows) {
    WarpPieces own = {outers, depth, columns, parts, 1, 1, 0, 0, 0};
    while (own.row_shift < kWarpDoublings && kHeld << own.row_shift < columns) ++own.row_shift;
    const int most_shift = kWarpDoublings - own.row_shift, groups = 1 << most_shift;
    // What an index adds up to takes as long as some of its rows: few groups share one, unless its rows are
    // too many for a tile with those of all teams, or indices too few for the warps, or teams meet at banks.
    const auto is_worth = [&](int team_bits) {
      const bool meet = (depth & ((256 >> team_bits) - 1)) == 0 ||
                        ((depth & 511) * columns & ((512 >> team_bits) - 1)) == 0;
      return meet || depth > most_rows >> team_bits || outers >> team_bits < warps;
    };
    while (own.team_shift < most_shift && depth >= 4 << own.team_shift &&
           is_worth(most_shift - own.team_shift))
      ++own.team_shift;
    const int teams = groups >> own.team_shift;
    if (parts == 1 && depth <= most_rows >> (most_shift - own.team_shift)) {
      const int most = most_rows / (teams * depth), wanted = (outers + teams * warps - 1) / (teams * warps);
      own.piece_outers = teams * (wanted < 1 ? 1 : wanted < most ? wanted : most);
      own.tile_rows = own.piece_outers * depth;
      return own;
    }
    // Whole turns of a warp, in tiles of the same length.
    own.team_shift = most_shift;
    const int fit = most_rows >> most_shift, step = parts * groups;
    const int turns = depth / step + (depth % step != 0);
    own.tiles = (turns + fit - 1) / fit;
    own.tile_rows = (turns + own.tiles - 1) / own.tiles * groups;
    return own;
  }

  FUSEBUILD_DEVICE int count() const { return (outers + piece_outers - 1) / piece_outers * parts; }

  // The first tile of a piece. It has no rows where those of its index have ended.
  FUSEBUILD_DEVICE WarpTile first(int piece) const {
    WarpTile own;
    own.piece = piece, own.number = 0;
    own.part = piece % parts;
    own.outer = piece / parts * piece_outers;
    own.outers = outers - own.outer < piece_outers ? outers - own.outer : piece_outers;
    own.top = int64_t(own.outer) * depth + own.part * tile_rows;
    own.end = int64_t(own.outer + own.outers) * depth;
    own.rows = rows_from(own.top, own.end);
    return own;
  }

  FUSEBUILD_DEVICE int rows_from(int64_t top, int64_t end) const {
    const int64_t left = end - top;
    return left < 0 ? 0 : left < tile_rows ? static_cast<int>(left) : tile_rows;
  }

  FUSEBUILD_DEVICE bool is_last(const WarpTile& at) const { return at.number + 1 >= tiles; }

  // The tile after `at` of a warp among so many `warps`, which take pieces in turn.
  FUSEBUILD_DEVICE WarpTile next(const WarpTile& at, int warps) const {
    if (is_last(at)) return first(at.piece + warps);
    WarpTile own = at;
    ++own.number;
    own.top += int64_t(parts) * tile_rows;
    own.rows = rows_from(own.top, own.end);
    return own;
  }
};

// The same where there is but one index, of which each of `warps` has `tiles` of `tile_rows`, the first of
// each side by side: whoever launches knows how many, and nothing is divided here.
struct WarpRows {
  int depth, warps, tiles, tile_rows, row_shift;
  int team_shift;

  FUSEBUILD_DEVICE WarpRows(int depth, int warps, int tiles, int tile_rows, int row_shift)
      : depth(depth),
        warps(warps),
        tiles(tiles),
        tile_rows(tile_rows),
        row_shift(row_shift),
        team_shift(kWarpDoublings - row_shift) {}

  FUSEBUILD_DEVICE int count() const { return warps; }

  FUSEBUILD_DEVICE WarpTile first(int warp) const { return at(warp, 0, int64_t(warp) * tile_rows); }

  FUSEBUILD_DEVICE WarpTile next(const WarpTile& tile, int) const {
    const int number = tile.number + 1;
    return at(number < tiles ? tile.piece : warps, number, tile.top + int64_t(warps) * tile_rows);
  }

 private:
  FUSEBUILD_DEVICE WarpTile at(int piece, int number, int64_t top) const {
    const int64_t left = depth - top;
    const int rows = left < 0 ? 0 : left < tile_rows ? static_cast<int>(left) : tile_rows;
    return {piece, number, piece, 0, 1, top, depth, rows};
  }
};

// What is copied from `source` to `place`, or the other way around.
template <typename T>
struct TileOf {
  T* place;
  const T* source;
};
template <typename T>
FUSEBUILD_DEVICE TileOf<T> tile_of(T* place, const T* source) {
  return {place, source};
}

template <int N, typename T>
FUSEBUILD_DEVICE void copy_vector(const TileOf<T>& tile, int i) {
  copy_async<N>(reinterpret_cast<Packed<T, N>*>(tile.place + i), tile.source + i);
}
template <typename T>
FUSEBUILD_DEVICE void copy_number(const TileOf<T>& tile, int i) {
  if constexpr (sizeof(T) >= 4)
    copy_async<1>(reinterpret_cast<Packed<T, 1>*>(tile.place + i), tile.source + i);
  else
    tile.place[i] = tile.source[i];
}

// As copy_flat, of several tiles by the threads of a warp.
template <int N, typename... Tiles>
FUSEBUILD_DEVICE void copy_to_warp(int end, int64_t readable, const Tiles&... tiles) {
  const int whole = readable < end + N ? static_cast<int>(readable) & -N : end;
  FUSEBUILD_UNROLL_BY(2)
  for (int i = thread_lane() * N; i < whole; i += kWarpThreads * N) (copy_vector<N>(tiles, i), ...);
  const int i = whole + thread_lane();
  if (i < end) ((tiles.place[i] = tiles.source[i]), ...);  // what the tensors' last vectors lack
}

// Begins to copy `count` elements of each, which lie anywhere; those narrower than a word come one by one.
template <typename... Tiles>
FUSEBUILD_DEVICE void copy_numbers_to_warp(int count, const Tiles&... tiles) {
  FUSEBUILD_UNROLL_BY(1)
  for (int i = thread_lane(); i < count; i += kWarpThreads) (copy_number(tiles, i), ...);
}

// As store_flat, by the threads of a warp.
template <int N, typename T>
FUSEBUILD_DEVICE void store_from_warp(T* target, const T* tile, int begin, int end) {
  const int first = begin == 0 ? 0 : N, last = end & -N;
  FUSEBUILD_UNROLL_BY(2)
  for (int i = first + thread_lane() * N; i < last; i += kWarpThreads * N)
    store(target + i, load_shared<N>(tile + i));
  // What tiles share with those beside them.
  const int before = begin + thread_lane(), after = (last < first ? first : last) + thread_lane();
  if (before < first && before < end) target[before] = tile[before];
  if (after < end) target[after] = tile[after];
}

// The first `count` of the N elements from `address` on that are so many `apart`; zeros beyond.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_apart(const T* address, int apart, int count) {
  Vec<T, N> values = {};
  FUSEBUILD_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k >= count) break;
    values[k] = address[k * apart];
  }
  return values;
}

// N elements from an aligned address on, if there are any; else zeros.
template <int N, typename T>
FUSEBUILD_DEVICE Vec<T, N> load_if(bool are_there, const T* address) {
  Vec<T, N> values = {};
  if (are_there) values = load<N>(address);
  return values;
}

// Reduces among the lanes whose numbers agree modulo `threads` and are in one group of `threads` * `groups`,
// both of which are powers of two. Each gets the same bits. All lanes of the warp must call this.
template <typename... Accumulators>
FUSEBUILD_DEVICE void reduce_groups(int threads, int groups, const Accumulators&... accumulators) {
  FUSEBUILD_UNROLL
  for (int mask = kWarpThreads / 2; mask > 0; mask /= 2)
    if (mask >= threads && mask < threads * groups)
      (combine_with_lane<kWarpThreads>(accumulators, mask), ...);
}

}  // namespace fusebuild
