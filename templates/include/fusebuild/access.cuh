// What the platform layer and its users both name: cache hints, shuffle modes, words of memory.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace fusebuild {

// How a load is asked for. kAhead begins where it is written, and no later. kWide brings all of its 256 bytes
// into L2, of which another block reads the rest. Others that hardware has gain nothing in what fusebuild
// writes: on an H200 loads that leave caches first, or L1 at once, took 3 to 30 % longer, stores the same up
// to 1 %.
enum class Hint { kNone, kAhead, kWide };

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
