// test.yaml, segment 0: reduction, variant vec4_int32
// segment fids to original fids: {0: 1, 2: 6}
// schedule: threads=128 unroll=8 is_split=True in_pieces=False can_cluster=False
// launch: segment 0, vec4_int32 1 of 2 on sm_90: grid ceil_div(max(1, 2*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1)
//   > 12), 4*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 32), 8*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) >
//   64), 16*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 256), 32*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) >
//   512), 64*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 1024), 128*(N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1)
//   > 2048)), 128)*argument 6, 1, 1; block 128, 1, 1; one of 2 side by side; overlaps what is before; given x1, s1,
//   slot 3 of max(4*max(1, min((N*K > 12288)*ceil_div(N*K, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors)))), 4*max(1, min((N*K > 3072)*ceil_div(N*K, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 >
//   8*gpu.multiprocessors))))) bytes, N*K, (N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 12) + (N*K*(3*(N*K <=
//   2048*gpu.multiprocessors) + 1) > 32) + (N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 64) + (N*K*(3*(N*K <=
//   2048*gpu.multiprocessors) + 1) > 256) + (N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 512) + (N*K*(3*(N*K <=
//   2048*gpu.multiprocessors) + 1) > 1024) + (N*K*(3*(N*K <= 2048*gpu.multiprocessors) + 1) > 2048), max(1, min((N*K >
//   12288)*ceil_div(N*K, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))); if ((N*K) % 4) ==
//   0, aligned(x1, 16), N*K < 1073741824
// launch: segment 1, vec4_int32 1 of 2 on sm_90: grid ceil_div(max(1, 2*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) >
//   12), 4*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 32), 8*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 64),
//   16*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 256), 32*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 512),
//   64*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 1024), 128*(L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 2048)),
//   128)*argument 6, 1, 1; block 128, 1, 1; one of 2 side by side; overlaps what is before; given x2, s2, slot 4 of
//   max(4*max(1, min((L > 12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))),
//   4*max(1, min((L > 3072)*ceil_div(L, 1024), max((8*gpu.multiprocessors) // 1, 4*(1 > 8*gpu.multiprocessors)))))
//   bytes, L, (L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 12) + (L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 32) +
//   (L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 64) + (L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 256) + (L*(3*(L <=
//   2048*gpu.multiprocessors) + 1) > 512) + (L*(3*(L <= 2048*gpu.multiprocessors) + 1) > 1024) + (L*(3*(L <=
//   2048*gpu.multiprocessors) + 1) > 2048), max(1, min((L > 12288)*ceil_div(L, 4096), max((8*gpu.multiprocessors) // 1,
//   4*(1 > 8*gpu.multiprocessors)))); if (L % 4) == 0, aligned(x2, 16), L < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 4;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_MEMBER(kThreads, 4)
reduction_inner_441d20b0f807855a_member(fb::Member member,
    const float* T0,  // x1: float[elements]
    float* __restrict__ T2,  // s1: float[]
    float* __restrict__ P2,  // partial results of s1
    int64_t n0,  // elements
    int64_t row_shift,  // of the threads that share a row
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const int64_t rows = 1;
  const Index columns = n0;
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(0) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int split = member.block;  // of the blocks that take a row's vectors in turns
  const float* r0 = T0;

  fb::LongSum w2;
  const Index step = width * kVec;
  for (Index first = (Index(split) * (kUnroll * width) + lane) * kVec; first < columns;
      first += Index(splits) * kUnroll * step) {
    fb::Packed<float, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + u * step;
      if (col >= columns) break;
      p0[u] = fb::load_packed<kVec>(r0 + col);
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index col = first + u * step;
      if (col >= columns) break;
      const fb::Vec<float, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e2;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t0 = v0[k];
        const float t1 = t0 * t0;  // test.yaml:8
        e2[k] = t1;
      }
      w2.add(e2);
    }
  }
  float a2 = w2.total();
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Sum>(a2));
  if (splits > 1) {  // reduction_finish combines what they leave in order
    if (!active || lane != 0) return;
    P2[split] = a2;
    return;
  }
  if (!active || lane != 0) return;

  const float t2 = a2;  // test.yaml:8
  T2[0] = t2;
}

FUSEBUILD_MEMBERS_ENTRY(reduction_inner_441d20b0f807855a, 2)
