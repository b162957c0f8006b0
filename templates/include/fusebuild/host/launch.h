// Launching a kernel on the CPU: FUSEBUILD_ENTRY exports, for each kernel, a C function that takes what
// cuLaunchKernel takes.

#pragma once

#include <cstddef>
#include <utility>

#include "fusebuild/host/block.h"

namespace fusebuild::host {

static_assert(kMaxClusterBlocks * kMaxThreads <= kMaxStacks, "every thread of a cluster has a stack");

// A static shared array of one OS thread, between red zones, for each block of a cluster. It is poisoned when
// a block, or a peer of it, first reaches it.
template <typename T, int kCount>
struct SharedArray {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory holds plain data");
  using Array = T[kCount];

  struct OfBlock {
    static constexpr int kRedZone = 64;
    alignas(64) unsigned char before[kRedZone];
    alignas(16) Array data;
    unsigned char after[kRedZone];
    uint64_t generation;

    Array& enter() {
      if (generation != position.generation) {
        generation = position.generation;
        memset(static_cast<void*>(data), kPoison, sizeof(data));
#if defined(FUSEBUILD_ASAN)
        __asan_poison_memory_region(before, kRedZone);
        __asan_poison_memory_region(after, kRedZone);
#endif
      }
      return data;
    }
  };
  OfBlock blocks[kMaxClusterBlocks];

  Array& enter() { return blocks[position.rank].enter(); }

  // What block `rank` has where the running block, of the same cluster, has `mine`.
  static T* of_peer(Array& mine, int rank) {
    auto* own = reinterpret_cast<OfBlock*>(reinterpret_cast<unsigned char*>(&mine) - offsetof(OfBlock, data));
    return own[rank - position.rank].enter();
  }
};

inline bool is_valid(const int64_t* grid, const int32_t* block, int64_t shared_bytes) {
  constexpr int64_t kMaxGridX = INT32_MAX, kMaxGridYZ = 65535;
  for (int dim = 0; dim < 3; ++dim) {
    if (grid[dim] < 0 || grid[dim] > (dim == 0 ? kMaxGridX : kMaxGridYZ)) return false;
    if (block[dim] < 1 || block[dim] > kMaxThreads) return false;
  }
  return int64_t{block[0]} * block[1] * block[2] <= kMaxThreads && shared_bytes >= 0 &&
         shared_bytes <= INT32_MAX;
}

// Runs every cluster, of so many neighbours along x or along y, one after another; an empty grid runs none.
inline int32_t run_grid(const Kernel& kernel, int along_x, int64_t along_y, const int64_t* grid,
                        const int32_t* block_size, int64_t shared_bytes, const Stacks& stacks) {
  if (!is_valid(grid, block_size, shared_bytes) || along_y < 1 || along_y > kMaxClusterBlocks / along_x)
    return kInvalidValue;
  if (grid[0] % along_x != 0 || grid[1] % along_y != 0 || (along_x > 1 && along_y > 1)) return kInvalidValue;
  const Point apart{along_x > 1 ? 1 : 0, along_y > 1 ? 1 : 0, 0};
  Cluster cluster(kernel, Point{block_size[0], block_size[1], block_size[2]}, shared_bytes, stacks,
                  along_x * static_cast<int>(along_y));
  if (!cluster.has_memory()) return kOutOfMemory;
  const Point size{static_cast<int>(grid[0]), static_cast<int>(grid[1]), static_cast<int>(grid[2])};
  position.block_size = Point{block_size[0], block_size[1], block_size[2]};
  position.grid = size;
  for (int z = 0; z < size.z; ++z) {
    for (int y = 0; y < size.y; y += static_cast<int>(along_y)) {
      for (int x = 0; x < size.x; x += along_x) {
        const int32_t code = cluster.run(Point{x, y, z}, apart);
        if (code != kOk) return code;
      }
    }
  }
  current_block = nullptr;
  return kOk;
}

// What is passed by reference stays where it is: a table would not fit on a thread's stack.
template <typename T>
T read_argument(const void* address) {
  if constexpr (std::is_reference_v<T>) {
    return *static_cast<const std::remove_reference_t<T>*>(address);
  } else {
    T value;
    memcpy(&value, address, sizeof(T));
    return value;
  }
}

// A parameter's kind and bytes: "p8" for a pointer, "i8", "i4" and "i1" for integers, "f8", "f4" and "f2" for
// floating types, of which those of two bytes are classes.
template <typename T>
constexpr char kind_of = std::is_pointer_v<T>    ? 'p'
                         : std::is_integral_v<T> ? 'i'
                                                 : 'f';

template <typename... Parameters>
struct Signature {
  char text[2 * sizeof...(Parameters) + 1];
};

template <typename... Parameters>
constexpr Signature<Parameters...> signature_of(void (*)(Parameters...)) {
  Signature<Parameters...> signature{};
  int end = 0;
  ((signature.text[end++] = kind_of<Parameters>, signature.text[end++] = '0' + sizeof(Parameters)), ...);
  return signature;
}

// The same for a table of so many members, each of which has `Parameters`, as "p8i8f4*00060".
template <typename... Parameters>
struct TableSignature {
  char text[2 * sizeof...(Parameters) + 7];
};

template <int kCount, typename First, typename... Parameters>
constexpr TableSignature<Parameters...> signature_of_table(void (*)(First, Parameters...)) {
  TableSignature<Parameters...> signature{};
  int end = 0;
  ((signature.text[end++] = kind_of<Parameters>, signature.text[end++] = '0' + sizeof(Parameters)), ...);
  signature.text[end++] = '*';
  for (int digit = 10000; digit > 0; digit /= 10) signature.text[end++] = '0' + kCount / digit % 10;
  return signature;
}

template <typename... Parameters, size_t... kIndices>
void call(void (*function)(Parameters...), [[maybe_unused]] void** args, std::index_sequence<kIndices...>) {
  function(read_argument<Parameters>(args[kIndices])...);
}

template <int kCluster, typename... Parameters>
int32_t launch(const char* name, void (*function)(Parameters...), const int64_t* grid, const int32_t* block,
               int64_t shared_bytes, int64_t cluster, void** args, const Stacks* stacks) {
  static_assert(kCluster >= 1 && kCluster <= kMaxClusterBlocks, "blocks per cluster: at most 8");
  struct Call {
    void (*function)(Parameters...);
    void** args;
  };
  const Call packed{function, args};
  const auto run = [](const void* address) {
    const Call& unpacked = *static_cast<const Call*>(address);
    call(unpacked.function, unpacked.args, std::index_sequence_for<Parameters...>{});
  };
  return run_grid(Kernel{name, run, &packed}, kCluster, cluster, grid, block, shared_bytes, *stacks);
}

}  // namespace fusebuild::host
