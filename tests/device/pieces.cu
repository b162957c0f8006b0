// What vectors of pieces.cuh have of rows of pieces: one vector a thread, which begins at the thread's
// column.

#include <fusebuild/kernel.cuh>

template <int N, typename T>
FUSEBUILD_DEVICE void values_of(T* out, const T* pieces, int64_t columns, int64_t size) {
  const int col = fb::block_x() * 128 + fb::thread_x();
  if (col + N > columns) return;
  const fb::Pieces<N, int> own(col, static_cast<int>(col / size), size);
  fb::Packed<T, N> values{};
  own.each([&](int piece, auto from) FUSEBUILD_INLINE { fb::fill_from(values, from, pieces[piece]); });
  own.spread(values);
  const fb::Vec<T, N> each = fb::unpack(values);
  for (int k = 0; k < N; ++k) out[int64_t(col) * N + k] = each[k];
}

#define VALUES(name, N, T)                                                                 \
  FUSEBUILD_KERNEL(128, 1)                                                                 \
  name(T* __restrict__ out, const T* __restrict__ pieces, int64_t columns, int64_t size) { \
    values_of<N>(out, pieces, columns, size);                                              \
  }                                                                                        \
  FUSEBUILD_ENTRY(name)

VALUES(of_bytes_by_2, 2, int8_t)
VALUES(of_bytes_by_16, 16, int8_t)
VALUES(of_halves_by_8, 8, int16_t)
VALUES(of_words_by_4, 4, int32_t)
VALUES(of_words_by_8, 8, int32_t)
VALUES(of_doubles_by_2, 2, int64_t)
