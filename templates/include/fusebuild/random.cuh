// Random numbers without a state: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011. Each is a function of an index, a seed and an offset, whoever computes it.

#pragma once

#include "fusebuild/access.cuh"

namespace fusebuild {

struct PhiloxWords {
  uint32_t word[4];  // the low ones first
};

// What becomes of `counter` under the key (key_low, key_high).
FUSEBUILD_DEVICE PhiloxWords philox4x32_10(PhiloxWords counter, uint32_t key_low, uint32_t key_high) {
  auto& [a, b, c, d] = counter.word;
  FUSEBUILD_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t(0xD2511F53u) * a, second = uint64_t(0xCD9E8D57u) * c;
    a = uint32_t(second >> 32) ^ b ^ key_low;
    b = uint32_t(second);
    c = uint32_t(first >> 32) ^ d ^ key_high;
    d = uint32_t(first);
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return counter;
}

// The four words of element `index`: what becomes of the counter (index / 4, offset) under the key `seed`.
// Calls with neighbouring indices are one where the compiler sees that they share a counter.
FUSEBUILD_DEVICE PhiloxWords philox_words(int64_t index, int64_t seed, int64_t offset) {
  const uint64_t group = uint64_t(index) >> 2, key = uint64_t(seed), high = uint64_t(offset);
  const PhiloxWords counter = {
      {uint32_t(group), uint32_t(group >> 32), uint32_t(high), uint32_t(high >> 32)}};
  return philox4x32_10(counter, uint32_t(key), uint32_t(key >> 32));
}

// A float in [0, 1), a multiple of 2^-24: the upper bits of word index % 4.
FUSEBUILD_DEVICE float philox_uniform(int64_t index, int64_t seed, int64_t offset) {
  return float(philox_words(index, seed, offset).word[index & 3] >> 8) * 0x1p-24f;
}

// A normal number of mean 0 and deviation 1, by Box and Muller: the first word of the element's pair is a
// radius, the second one an angle in turns, and the two elements of the pair are the coordinates of that
// point. Neighbours share a radius and an angle as they share a counter. The product is rounded: a draw less
// the largest one, drawn once more, is 0 where it is the largest (it was 1.5e-8 on an H200 where it was
// contracted).
FUSEBUILD_DEVICE float philox_normal(int64_t index, int64_t seed, int64_t offset) {
  const PhiloxWords drawn = philox_words(index, seed, offset);
  const uint32_t first = index & 2 ? drawn.word[2] : drawn.word[0];
  const uint32_t second = index & 2 ? drawn.word[3] : drawn.word[1];
  const float share = ::fmaf(float(first), 0x1p-32f, 0x1p-33f);  // in (0, 1]
  const float radius = ::sqrtf(-2.0f * ::logf(share));
  float sine, cosine;
  sin_and_cos_of_pi(float(second >> 8) * 0x1p-23f, sine, cosine);
  return rounded_product(radius, index & 1 ? sine : cosine);
}

// From [0, 1) to [minval, maxval), rounded once: what is contracted must not depend on the code around it.
FUSEBUILD_DEVICE float uniform_between(float draw, float minval, float maxval) {
  return ::fmaf(draw, maxval - minval, minval);
}

// A normal number of another mean and deviation, rounded once as well.
FUSEBUILD_DEVICE float normal_around(float draw, float mean, float std) { return ::fmaf(draw, std, mean); }

// The index of element k of a vector of N neighbours whose first index, a multiple of N, is `first`.
template <int N>
FUSEBUILD_DEVICE int64_t vector_element(int64_t first, int k) {
  return (first & -int64_t(N)) | k;
}

}  // namespace fusebuild
