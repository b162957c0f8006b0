// Launches side by side as one: a kernel that is given the arguments of many in a table, its members. The
// executor counts each member's blocks behind those of the members before it.

#pragma once

#include <utility>

namespace fusebuild {

// The calling block among those of its member.
struct Member {
  int block;
};

// The table as the executor fills it in, 8 bytes a word: where each member's blocks begin, in order, and each
// one's arguments. Members that a launch does not have begin behind its last block.
template <int kCount, typename... Parameters>
struct Members {
  int64_t begins[kCount];
  uint64_t arguments[kCount][sizeof...(Parameters)];
};

template <int kCount, typename... Parameters>
Members<kCount, Parameters...> members_of(void (*)(Member, Parameters...));

FUSEBUILD_CONSTEXPR int half_of(int count) {
  int half = 1;
  while (2 * half < count) half *= 2;
  return half;
}

// The last member that begins at `block` or before it.
template <int kCount>
FUSEBUILD_DEVICE int member_with(const int64_t (&begins)[kCount], int block) {
  int found = 0;
  FUSEBUILD_UNROLL
  for (int step = half_of(kCount); step > 0; step /= 2) {
    const int next = found + step;
    if (next < kCount && begins[next] <= block) found = next;
  }
  return found;
}

template <typename T>
FUSEBUILD_DEVICE T argument_in(const uint64_t& word) {
  T argument;
  memcpy(&argument, &word, sizeof(T));
  if constexpr (std::is_pointer_v<T>) known_to_be_global(argument);
  return argument;
}

template <auto kMember, int kCount, typename... Parameters, size_t... kIndices>
FUSEBUILD_DEVICE void run_member(const Members<kCount, Parameters...>& members, int member,
                                 std::index_sequence<kIndices...>) {
  kMember(Member{block_x() - static_cast<int>(members.begins[member])},
          argument_in<Parameters>(members.arguments[member][kIndices])...);
}

// What the calling block does for its member.
template <auto kMember, int kCount, typename... Parameters>
FUSEBUILD_DEVICE void run_member(const Members<kCount, Parameters...>& members) {
  run_member<kMember>(members, member_with(members.begins, block_x()),
                      std::index_sequence_for<Parameters...>{});
}

}  // namespace fusebuild
