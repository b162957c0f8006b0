// What the platform layer and its users both name: cache hints, shuffle modes, words of memory.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fusebuild {

// How long a cache line will be of use. kKeep is only for memory that the kernel never writes: it reads
// through the read-only path. kAhead says when to load instead: where it is written, and no later.
enum class Hint { kNone, kStreaming, kKeep, kAhead };

enum class Shuffle { kXor, kDown, kIndex };

constexpr int kWarpThreads = 32;

constexpr int kMaxClusterBlocks = 8;  // what every GPU with clusters has

// The type of one memory access of kBytes.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = unsigned char;
};
template <>
struct WordOf<2> {
  using Type = unsigned short;
};
template <>
struct WordOf<4> {
  using Type = unsigned int;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

}  // namespace fusebuild
