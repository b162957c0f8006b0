// Indices, shared memory, shuffles and vector accesses.

#include <fusebuild/kernel.cuh>

using namespace fusebuild;

// Ten numbers per thread: where it is.
FUSEBUILD_KERNEL(1024, 1) indices(int32_t* __restrict__ out, int32_t size_x, int32_t size_y, int32_t size_z) {
  const int block = block_x() + grid_x() * (block_y() + grid_y() * block_z());
  const int thread = thread_x() + size_x * (thread_y() + size_y * thread_z());
  int32_t* mine = out + 10 * (block * size_x * size_y * size_z + thread);
  mine[0] = thread_x();
  mine[1] = thread_y();
  mine[2] = thread_z();
  mine[3] = block_x();
  mine[4] = block_y();
  mine[5] = block_z();
  mine[6] = grid_x();
  mine[7] = grid_y();
  mine[8] = grid_z();
  mine[9] = thread;
}
FUSEBUILD_ENTRY(indices)

// Each thread copies its vectors with three groups in flight, through places of its own, and adds one.
FUSEBUILD_KERNEL(64, 1) pipeline(const float* __restrict__ in, float* __restrict__ out, int64_t count) {
  constexpr int kStages = 3;
  Packed<float, 4>* places = dynamic_shared<Packed<float, 4>>() + thread_x();
  for (int stage = 0; stage < kStages; ++stage) {
    const int64_t at = (stage * 64 + thread_x()) * 4;
    if (at < count) copy_async(places + stage * 64, in + at);
    end_copies();
  }
  int stage = 0;
  for (int64_t at = thread_x() * 4; at < count; at += 64 * 4) {
    wait_copies<kStages - 1>();
    const Vec<float, 4> x = unpack(places[stage * 64]);
    const int64_t next = at + kStages * 64 * 4;
    if (next < count) copy_async(places + stage * 64, in + next);
    end_copies();
    Vec<float, 4> y;
    for (int k = 0; k < 4; ++k) y[k] = x[k] + 1.0f;
    store(out + at, y);
    stage = stage + 1 < kStages ? stage + 1 : 0;
  }
}
FUSEBUILD_ENTRY(pipeline)

// What is read before it has been waited for, and after.
FUSEBUILD_KERNEL(1, 1) copy_and_look(const int32_t* __restrict__ in, int32_t* __restrict__ out) {
  Packed<int32_t, 1>* place = dynamic_shared<Packed<int32_t, 1>>();
  copy_async(place, in);
  end_copies();
  out[0] = unpack(*place)[0];
  wait_copies<0>();
  out[1] = unpack(*place)[0];
}
FUSEBUILD_ENTRY(copy_and_look)

// One 32 x 32 tile per block, through static shared memory.
FUSEBUILD_KERNEL(256, 2)
transpose_tile(const float* __restrict__ in, float* __restrict__ out, int64_t rows, int64_t cols) {
  FUSEBUILD_SHARED(float, tile, 32 * 33);
  const int64_t row = int64_t(block_y()) * 32, col = int64_t(block_x()) * 32;
  for (int y = thread_y(); y < 32; y += 8) {
    if (row + y < rows && col + thread_x() < cols)
      tile[y * 33 + thread_x()] = in[(row + y) * cols + col + thread_x()];
  }
  sync_block();
  for (int y = thread_y(); y < 32; y += 8) {
    if (col + y < cols && row + thread_x() < rows)
      out[(col + y) * rows + row + thread_x()] = tile[thread_x() * 33 + y];
  }
}
FUSEBUILD_ENTRY(transpose_tile)

// Reverses each block's part through dynamic shared memory, `rounds` times.
FUSEBUILD_KERNEL(1024, 1)
reverse_blocks(const double* __restrict__ in, double* __restrict__ out, int32_t threads, int32_t rounds) {
  double* cache = dynamic_shared<double>();
  double value = in[block_x() * threads + thread_x()];
  for (int round = 0; round < rounds; ++round) {
    cache[thread_x()] = value;
    sync_block();
    value = cache[threads - 1 - thread_x()];
    sync_block();
  }
  out[block_x() * threads + thread_x()] = value;
}
FUSEBUILD_ENTRY(reverse_blocks)

// What shared memory holds that no one has written: the same in every block, and on the host, poison.
FUSEBUILD_KERNEL(32, 1) read_unwritten_shared(uint32_t* __restrict__ out) {
  FUSEBUILD_SHARED(uint32_t, values, 32);
  uint32_t* cache = dynamic_shared<uint32_t>();
  out[64 * block_x() + thread_x()] = values[thread_x()];
  out[64 * block_x() + 32 + thread_x()] = cache[thread_x()];
  values[thread_x()] = cache[thread_x()] = 7;
}
FUSEBUILD_ENTRY(read_unwritten_shared)

template <typename T, int kWidth>
FUSEBUILD_DEVICE void shuffle_all(const T* in, T* out) {
  const int thread = thread_x();
  const T value = in[thread];
  out[thread] = shuffle_xor(value, 3, kWidth);
  sync_warp();
  out[64 + thread] = shuffle_down(value, 2, kWidth);
  out[128 + thread] = shuffle_index(value, kWidth - 1, kWidth);
}

#define SHUFFLE_KERNEL(T, name, width)                                                              \
  FUSEBUILD_KERNEL(64, 1) shuffle_##name##_##width(const T* __restrict__ in, T* __restrict__ out) { \
    shuffle_all<T, width>(in, out);                                                                 \
  }                                                                                                 \
  FUSEBUILD_ENTRY(shuffle_##name##_##width)

#define SHUFFLE_KERNELS(T, name) \
  SHUFFLE_KERNEL(T, name, 4) SHUFFLE_KERNEL(T, name, 16) SHUFFLE_KERNEL(T, name, 32)
SHUFFLE_KERNELS(float, float)
SHUFFLE_KERNELS(double, double)
SHUFFLE_KERNELS(__nv_bfloat16, bfloat16)
SHUFFLE_KERNELS(int64_t, int64)
SHUFFLE_KERNELS(bool, bool)

// Copies a quarter of the input by each way to load, in vectors of N.
template <typename T, int N>
FUSEBUILD_DEVICE void copy_vectors(const T* in, T* out, int64_t quarter) {
  FUSEBUILD_SHARED(T, places, 64 * N);
  const int64_t i = (int64_t(block_x()) * 64 + thread_x()) * N;
  if (i >= quarter) return;
  T* place = places + thread_x() * N;
  store_shared(place, unpack(load_packed_ahead<N>(in + 3 * quarter + i)));
  Packed<T, N> packed[1] = {load_shared_packed<N>(place)};
  if constexpr (Packed<T, N>::kBytes >= 4) stay_packed(packed);
  store_packed(out + 3 * quarter + i, packed[0]);
  store(out + i, load<N>(in + i));
  store_packed(out + quarter + i, load_packed_wide<N>(in + quarter + i));
  Vec<T, N> kept = unpack(load_packed<N>(in + 2 * quarter + i));
  const T first = kept[0];
  kept[0] = kept[N - 1];  // so that elements are seen to have their places
  kept[N - 1] = first;
  store(out + 2 * quarter + i, kept);
}

#define COPY_KERNEL(T, name, n)                                                       \
  FUSEBUILD_KERNEL(64, 1)                                                             \
  copy_##name##_##n(const T* __restrict__ in, T* __restrict__ out, int64_t quarter) { \
    copy_vectors<T, n>(in, out, quarter);                                             \
  }                                                                                   \
  FUSEBUILD_ENTRY(copy_##name##_##n)

#define COPY_KERNELS(T, name) \
  COPY_KERNEL(T, name, 1)     \
  COPY_KERNEL(T, name, 2) COPY_KERNEL(T, name, 4) COPY_KERNEL(T, name, 8) COPY_KERNEL(T, name, 16)
COPY_KERNELS(double, double)
COPY_KERNELS(float, float)
COPY_KERNELS(__half, half)
COPY_KERNELS(__nv_bfloat16, bfloat16)
COPY_KERNELS(int64_t, int64)
COPY_KERNELS(int32_t, int32)
COPY_KERNELS(bool, bool)
