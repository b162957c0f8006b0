// The functions of random.cuh as kernels, one element a thread.

#include <fusebuild/kernel.cuh>

// Four words of counter and two of key to four words, for each of the n rows.
FUSEBUILD_KERNEL(128, 1)
philox(const int64_t* __restrict__ counter, const int64_t* __restrict__ key, int64_t* __restrict__ out,
       int64_t n) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i >= n) return;
  fb::PhiloxWords words;
  for (int w = 0; w < 4; ++w) words.word[w] = uint32_t(counter[4 * i + w]);
  const fb::PhiloxWords drawn = fb::philox4x32_10(words, uint32_t(key[2 * i]), uint32_t(key[2 * i + 1]));
  for (int w = 0; w < 4; ++w) out[4 * i + w] = drawn.word[w];
}
FUSEBUILD_ENTRY(philox)

FUSEBUILD_KERNEL(128, 1)
uniform(const int64_t* __restrict__ index, float* __restrict__ out, int64_t seed, int64_t offset, int64_t n) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < n) out[i] = fb::philox_uniform(index[i], seed, offset);
}
FUSEBUILD_ENTRY(uniform)

// Vectors of four: every element by its own place in its vector.
FUSEBUILD_KERNEL(128, 1)
uniform_vectors(float* __restrict__ out, int64_t seed, int64_t offset, int64_t n) {
  const int64_t i = 4 * (int64_t(fb::block_x()) * 128 + fb::thread_x());
  if (i >= n) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < 4; ++k) out[i + k] = fb::philox_uniform(fb::vector_element<4>(i, k), seed, offset);
}
FUSEBUILD_ENTRY(uniform_vectors)

FUSEBUILD_KERNEL(128, 1)
between(const float* __restrict__ draw, const float* __restrict__ bounds, float* __restrict__ out,
        int64_t n) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < n) out[i] = fb::uniform_between(draw[i], bounds[0], bounds[1]);
}
FUSEBUILD_ENTRY(between)

FUSEBUILD_KERNEL(128, 1)
normal(const int64_t* __restrict__ index, float* __restrict__ out, int64_t seed, int64_t offset, int64_t n) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < n) out[i] = fb::philox_normal(index[i], seed, offset);
}
FUSEBUILD_ENTRY(normal)

// Vectors of four: every element by its own place in its vector.
FUSEBUILD_KERNEL(128, 1)
normal_vectors(float* __restrict__ out, int64_t seed, int64_t offset, int64_t n) {
  const int64_t i = 4 * (int64_t(fb::block_x()) * 128 + fb::thread_x());
  if (i >= n) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < 4; ++k) out[i + k] = fb::philox_normal(fb::vector_element<4>(i, k), seed, offset);
}
FUSEBUILD_ENTRY(normal_vectors)

FUSEBUILD_KERNEL(128, 1)
around(const float* __restrict__ draw, const float* __restrict__ numbers, float* __restrict__ out,
       int64_t n) {
  const int64_t i = int64_t(fb::block_x()) * 128 + fb::thread_x();
  if (i < n) out[i] = fb::normal_around(draw[i], numbers[0], numbers[1]);
}
FUSEBUILD_ENTRY(around)
