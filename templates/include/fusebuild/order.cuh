// Sorting rows. An element and its place in its row are one number, an entry, and no two entries of a row are
// equal: so any network of comparisons gives the one order, in which equal elements keep their order.

#pragma once

#include "fusebuild/cast.cuh"
#include "fusebuild/reduce.cuh"

namespace fusebuild {

// --- Keys: unsigned integers that compare as elements do, NaN greatest. Both zeros have one key.

FUSEBUILD_DEVICE uint32_t ascending_key(float x) {
  if (x != x) return ~uint32_t(0);
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return x == 0 ? 0x80000000u : bits >> 31 ? ~bits : bits | 0x80000000u;
}
FUSEBUILD_DEVICE uint64_t ascending_key(double x) {
  if (x != x) return ~uint64_t(0);
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return x == 0 ? uint64_t(1) << 63 : bits >> 63 ? ~bits : bits | uint64_t(1) << 63;
}
FUSEBUILD_DEVICE uint32_t ascending_key(__half x) { return ascending_key(widen(x)); }
FUSEBUILD_DEVICE uint32_t ascending_key(__nv_bfloat16 x) { return ascending_key(widen(x)); }
FUSEBUILD_DEVICE uint32_t ascending_key(int32_t x) { return uint32_t(x) ^ 0x80000000u; }
FUSEBUILD_DEVICE uint64_t ascending_key(int64_t x) { return uint64_t(x) ^ uint64_t(1) << 63; }
FUSEBUILD_DEVICE uint32_t ascending_key(bool x) { return x; }

// The element of a key. Every NaN becomes the same one.
template <typename T, typename Key>
FUSEBUILD_DEVICE T element_of_key(Key key) {
  constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);
  if constexpr (std::is_same_v<T, bool>) {
    return key != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(key ^ kSign);
  } else {
    const Key bits = key & kSign ? key ^ kSign : ~key;
    std::conditional_t<sizeof(Key) == 8, double, float> x;
    memcpy(&x, &bits, sizeof(x));
    return cast<T>(x);
  }
}

template <typename T>
FUSEBUILD_DEVICE bool is_negative_zero(T x) {
  if constexpr (kIsReducedPrecision<T>) {
    return is_negative_zero(widen(x));
  } else if constexpr (kIsFloating<T>) {
    return x == T(0) && signbit(x);
  } else {
    return false;
  }
}

// --- Entries. The low bit of a place says that the element is -0, whose key is that of 0.

struct WideEntry {
  uint64_t key;
  uint64_t place;
};
FUSEBUILD_DEVICE bool operator<(const WideEntry& a, const WideEntry& b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

FUSEBUILD_DEVICE uint64_t entry_of(uint32_t key, uint32_t place) { return uint64_t(key) << 32 | place; }
FUSEBUILD_DEVICE WideEntry entry_of(uint64_t key, uint32_t place) { return {key, place}; }
FUSEBUILD_DEVICE uint32_t key_of(uint64_t entry) { return uint32_t(entry >> 32); }
FUSEBUILD_DEVICE uint64_t key_of(const WideEntry& entry) { return entry.key; }
FUSEBUILD_DEVICE uint32_t place_of(uint64_t entry) { return uint32_t(entry); }
FUSEBUILD_DEVICE uint32_t place_of(const WideEntry& entry) { return uint32_t(entry.place); }

template <typename T>
using Key = decltype(ascending_key(T()));
template <typename T>
using Entry = decltype(entry_of(Key<T>(), 0u));

// How elements of type T are sorted: which of them comes first.
template <typename T, bool kDescending>
struct Order {
  using Element = T;
  using Entry = fusebuild::Entry<T>;

  // That of the element x at `place` of its row, below 2^31.
  static FUSEBUILD_DEVICE Entry entry(T x, int place) {
    const Key<T> key = ascending_key(x);
    const uint32_t low = uint32_t(place) << 1 | uint32_t(is_negative_zero(x));
    return entry_of(kDescending ? Key<T>(~key) : key, low);
  }
  // That behind all elements.
  static FUSEBUILD_DEVICE Entry last() { return entry_of(Key<T>(~Key<T>(0)), ~0u); }

  static FUSEBUILD_DEVICE T element(const Entry& entry) {
    const Key<T> key = kDescending ? Key<T>(~key_of(entry)) : key_of(entry);
    const T x = element_of_key<T>(key);
    if constexpr (kIsReducedPrecision<T>) {
      return place_of(entry) & 1 ? cast<T>(-0.0f) : x;
    } else if constexpr (kIsFloating<T>) {
      return place_of(entry) & 1 ? T(-0.0) : x;
    } else {
      return x;
    }
  }
  static FUSEBUILD_DEVICE int64_t place(const Entry& entry) { return place_of(entry) >> 1; }
};

// --- Bitonic networks (Batcher, "Sorting networks and their applications", 1968) in which the lower entry
// always goes to the lower position: to merge two sorted halves, position p first meets its mirror image, and
// then what is half as far apart from step to step. Threads hold kItems neighbouring positions each.

template <typename E>
FUSEBUILD_DEVICE void order_pair(E& lower, E& upper) {
  const bool is_swapped = upper < lower;
  const E first = is_swapped ? upper : lower;
  upper = is_swapped ? lower : upper;
  lower = first;
}

// Sorts the items of a thread that its steps with other threads left bitonic.
template <typename E, int kItems>
FUSEBUILD_DEVICE void merge_items(E (&items)[kItems]) {
  FUSEBUILD_UNROLL
  for (int apart = kItems / 2; apart > 0; apart /= 2) {
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) {
      if ((i & apart) == 0) order_pair(items[i], items[i + apart]);
    }
  }
}

// Sorts the items of a thread.
template <typename E, int kItems>
FUSEBUILD_DEVICE void sort_items(E (&items)[kItems]) {
  FUSEBUILD_UNROLL
  for (int size = 2; size <= kItems; size *= 2) {
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) {
      if ((i & size / 2) == 0) order_pair(items[i], items[i ^ (size - 1)]);
    }
    FUSEBUILD_UNROLL
    for (int apart = size / 4; apart > 0; apart /= 2) {
      FUSEBUILD_UNROLL
      for (int i = 0; i < kItems; ++i) {
        if ((i & apart) == 0) order_pair(items[i], items[i + apart]);
      }
    }
  }
}

// The threads of a row, which are numbered by `lane`: lanes of one warp, or all of the block. `shared` has
// room for kThreads * kItems entries.
template <int kThreads, typename E>
struct RowOfThreads {
  static_assert(is_power_of_two(kThreads) && kThreads <= 1024, "a power of two, at most 1024");
  static constexpr bool kInWarp = kThreads <= kWarpThreads;

  E* shared;
  int lane;

  FUSEBUILD_DEVICE void sync() const {
    if constexpr (kInWarp) {
      sync_warp();
    } else {
      sync_block();
    }
  }

  // Each thread keeps the lower ones of its items and those of the thread `lane ^ mask`, or the upper ones if
  // that is before it. Where positions are mirrored, the other's last item meets the first.
  template <bool kMirrored, int kItems>
  FUSEBUILD_DEVICE void exchange(E (&items)[kItems], int mask) const {
    const bool is_lower = (lane & (kMirrored ? (mask + 1) / 2 : mask)) == 0;
    E others[kItems];
    if (kInWarp || mask < kWarpThreads) {
      FUSEBUILD_UNROLL
      for (int i = 0; i < kItems; ++i) others[i] = shuffle_xor(items[kMirrored ? kItems - 1 - i : i], mask);
    } else {
      sync();  // nobody reads what was there
      FUSEBUILD_UNROLL
      for (int i = 0; i < kItems; ++i) shared[i * kThreads + lane] = items[i];
      sync();
      FUSEBUILD_UNROLL
      for (int i = 0; i < kItems; ++i)
        others[i] = shared[(kMirrored ? kItems - 1 - i : i) * kThreads + (lane ^ mask)];
    }
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) {
      if ((others[i] < items[i]) == is_lower) items[i] = others[i];
    }
  }

  // Sorts what the threads hold where they are two sorted halves that have met, mirrored, already.
  template <int kItems>
  FUSEBUILD_DEVICE void merge(E (&items)[kItems], int threads) const {
    for (int apart = threads / 2; apart > 0; apart /= 2) exchange<false>(items, apart);
    merge_items(items);
  }

  // Sorts what the threads hold, kItems neighbours each, of which all behind the first `count` are last()
  // already. All of them must call this, and all lanes of a warp.
  template <int kItems>
  FUSEBUILD_DEVICE void sort(E (&items)[kItems], int count = kThreads * kItems) const {
    sort_items(items);
    for (int span = 2; span <= kThreads && span / 2 * kItems < count; span *= 2) {
      exchange<true>(items, span - 1);
      merge(items, span / 2);
    }
  }

  // Gives the thread neighbours, where its item i was at position i * kThreads + lane.
  template <int kItems>
  FUSEBUILD_DEVICE void collect(E (&items)[kItems]) const {
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) shared[i * kThreads + lane] = items[i];
    sync();
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) items[i] = shared[lane * kItems + i];
  }

  // The other way round: neighbours are in neighbouring threads then.
  template <int kItems>
  FUSEBUILD_DEVICE void spread(E (&items)[kItems]) const {
    sync();
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) shared[lane * kItems + i] = items[i];
    sync();
    FUSEBUILD_UNROLL
    for (int i = 0; i < kItems; ++i) items[i] = shared[i * kThreads + lane];
  }
};

// --- The first 32 * kHeld entries that a warp has seen, sorted, kHeld neighbours in each lane

template <typename O, int kHeld>
struct FirstEntries {
  using E = typename O::Entry;
  using Warp = RowOfThreads<kWarpThreads, E>;

  E held[kHeld];

  FUSEBUILD_DEVICE FirstEntries() {
    FUSEBUILD_UNROLL
    for (int i = 0; i < kHeld; ++i) held[i] = O::last();
  }

  // The last one of them. All lanes of the warp take part in this and in what follows.
  FUSEBUILD_DEVICE E worst() const { return shuffle_index(held[kHeld - 1], kWarpThreads - 1); }

  // Sees as many `others`, which are sorted and held alike.
  FUSEBUILD_DEVICE void merge(const E (&others)[kHeld]) {
    FUSEBUILD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const E other = shuffle_xor(others[kHeld - 1 - i], kWarpThreads - 1);
      if (other < held[i]) held[i] = other;
    }
    Warp{nullptr, thread_lane()}.merge(held, kWarpThreads);
  }

  // Sees as many `others` in any order; most often none of them is before the `worst`.
  FUSEBUILD_DEVICE void see(E (&others)[kHeld], E& worst) {
    bool is_better = false;
    FUSEBUILD_UNROLL
    for (int i = 0; i < kHeld; ++i) is_better = is_better || others[i] < worst;
    if (!any_lane(is_better)) return;
    Warp{nullptr, thread_lane()}.sort(others);
    merge(others);
    worst = this->worst();
  }

  // Leaves in the first of the block's kWarps warps what all of them have seen. All threads of the block must
  // call this.
  template <int kWarps>
  FUSEBUILD_DEVICE void merge_warps() {
    FUSEBUILD_SHARED(E, lists, kWarps / 2 * kWarpThreads * kHeld);
    const int warp = thread_x() / kWarpThreads;
    for (int left = kWarps / 2; left > 0; left /= 2) {
      E* list = lists + (warp % left) * (kWarpThreads * kHeld) + thread_lane() * kHeld;
      if (warp >= left && warp < 2 * left) {
        FUSEBUILD_UNROLL
        for (int i = 0; i < kHeld; ++i) list[i] = held[i];
      }
      sync_block();
      if (warp < left) {
        E others[kHeld];
        FUSEBUILD_UNROLL
        for (int i = 0; i < kHeld; ++i) others[i] = list[i];
        merge(others);
      }
      sync_block();
    }
  }
};

// --- Rows in memory that all threads of a block see

// Keys and places apart: a place has 16 bits, so a row has 32768 elements at most.
template <typename T>
struct SharedRow {
  Key<T>* keys;
  uint16_t* places;

  FUSEBUILD_DEVICE SharedRow(unsigned char* memory, int columns)
      : keys(reinterpret_cast<Key<T>*>(memory)), places(reinterpret_cast<uint16_t*>(keys + columns)) {}

  FUSEBUILD_DEVICE Entry<T> get(int i) const { return entry_of(keys[i], uint32_t(places[i])); }
  FUSEBUILD_DEVICE void set(int i, const Entry<T>& entry) const {
    keys[i] = key_of(entry);
    places[i] = uint16_t(place_of(entry));
  }
};

template <typename T>
struct GlobalRow {
  Entry<T>* entries;

  FUSEBUILD_DEVICE Entry<T> get(int i) const { return entries[i]; }
  FUSEBUILD_DEVICE void set(int i, const Entry<T>& entry) const { entries[i] = entry; }
};

template <typename Row>
FUSEBUILD_DEVICE void order_places(const Row& row, int lower, int64_t upper, int columns) {
  if (upper >= columns) return;
  const auto first = row.get(lower), second = row.get(int(upper));
  if (second < first) {
    row.set(lower, second);
    row.set(int(upper), first);
  }
}

// Sorts a row of any length: what lies behind it counts as greater, and so stays there. All of the block's
// kThreads threads must call this, which waits for all before and after.
template <int kThreads, typename Row>
FUSEBUILD_DEVICE void sort_in_memory(const Row& row, int columns) {
  sync_block();
  for (int64_t size = 2; size / 2 < columns; size *= 2) {
    const int64_t half = size / 2;
    for (int64_t pair = thread_x();; pair += kThreads) {
      const int64_t start = pair / half * size, within = pair % half;
      if (start + within >= columns) break;
      order_places(row, int(start + within), start + size - 1 - within, columns);
    }
    sync_block();
    for (int64_t apart = size / 4; apart > 0; apart /= 2) {
      for (int64_t pair = thread_x();; pair += kThreads) {
        const int64_t lower = pair / apart * (2 * apart) + pair % apart;
        if (lower >= columns) break;
        order_places(row, int(lower), lower + apart, columns);
      }
      sync_block();
    }
  }
}

}  // namespace fusebuild
