// batchnorm_train_nchw.yaml, segment 0: reduction, variant pieces_vec8_int32
// segment fids to original fids: {0: 0, 1: 3, 2: 4, 4: 8, 12: 13, 16: 23, 22: 29}
// schedule: threads=128 unroll=8 is_split=True in_pieces=True
// launch: segment 0, pieces_vec8_int32 1 of 2 on sm_90: grid ceil_div(C*max(1, 2*(8*N*((HW + 14) // 8) > 24),
//   4*(8*N*((HW + 14) // 8) > 64), 8*(8*N*((HW + 14) // 8) > 128*((C >= 16384) + 1)), 16*(8*N*((HW + 14) // 8) >
//   512*((C >= 16384) + 1)), 32*(8*N*((HW + 14) // 8) > 1024*((C >= 16384) + 1)), 64*(8*N*((HW + 14) // 8) > 2048),
//   128*(8*N*((HW + 14) // 8) > 4096)), 128), argument 16, 1; block 128, 1, 1; given x, running_mean, running_var,
//   mean, rstd, new_mean, new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(1, min(32, 1024 // max(1, N))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) //
//   max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14)
//   // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(1, min(32, 1024 // max(1,
//   N))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(1, min(32, 1024 // max(1,
//   N))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, N, C, HW, (8*N*((HW + 14) // 8) > 24) + (8*N*((HW + 14) // 8) > 64) + (8*N*((HW + 14) // 8) > 128*((C >=
//   16384) + 1)) + (8*N*((HW + 14) // 8) > 512*((C >= 16384) + 1)) + (8*N*((HW + 14) // 8) > 1024*((C >= 16384) + 1)) +
//   (8*N*((HW + 14) // 8) > 2048) + (8*N*((HW + 14) // 8) > 4096), max(1, min((8*N*((HW + 14) // 8) >
//   24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))); if N*C*HW < 2146435072, 8*N*((HW + 14) // 8) < 1073741824, aligned(x, 16), N*HW <
//   1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_20f9639eaf222ad3(
    const __nv_bfloat16* T0,  // x: bfloat16[N, C, HW]
    const float* T1,  // running_mean: float[C]
    const float* T2,  // running_var: float[C]
    float* T4,  // mean: float[C]
    float* T12,  // rstd: float[C]
    float* T16,  // new_mean: float[C]
    float* T22,  // new_var: float[C]
    double* __restrict__ P4,  // partial results of mean
    float* __restrict__ P5,  // partial results of m2
    float* __restrict__ P6,  // partial results of count
    int64_t s7,  // N*HW
    int64_t n0,  // N
    int64_t n1,  // C
    int64_t n2,  // HW
    int64_t row_shift,  // of the threads that share a row
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  const int64_t rows = n1;
  const Index columns = n2;
  const Index pieces = n0;  // of a row, each with so many columns
  const Index padded = (columns + 2 * kVec - 2) / kVec * kVec;  // elements of the aligned vectors around one, at most
  const Index all = rows, total = pieces * all * columns;  // rows and elements
  const int width = 1 << row_shift;  // threads that share a row
  const int lane = fb::thread_x() & (width - 1);
  const int64_t wanted = int64_t(fb::block_x()) * (kThreads >> row_shift) + (fb::thread_x() >> row_shift);
  const bool active = wanted < rows;  // the last block's spare threads repeat a row and store nothing
  const int64_t row = active ? wanted : rows - 1;
  const int split = fb::block_y();  // of the blocks that take a row's vectors in turns
  const float t1 = T1[row];  // running_mean
  const float t2 = T2[row];  // running_var
  const int64_t t8 = s7;  // count, batchnorm_train_nchw.yaml:16
  const int64_t t18 = fb::sub(t8, int64_t(1));  // batchnorm_train_nchw.yaml:23

  fb::BatchMoments<float, Index> w4;
  const Index step = width * kVec;
  for (Index first = (Index(split) * (kUnroll * width) + lane) * kVec; first < pieces * padded;
      first += Index(splits) * kUnroll * step) {
    fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index place = first + u * step;
      if (place >= pieces * padded) break;
      const Index piece = unsigned(place) / unsigned(padded);
      const Index begin = (piece * all + Index(row)) * columns;
      const Index col = place - piece * padded - fb::shift_of<kVec>(begin);
      if (col >= columns) continue;  // this piece has one vector less
      p0[u] = fb::load_packed_up_to<kVec>(T0 + (begin + col), total - (begin + col));
    }
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index place = first + u * step;
      if (place >= pieces * padded) break;
      const Index piece = unsigned(place) / unsigned(padded);
      const Index begin = (piece * all + Index(row)) * columns;
      const Index col = place - piece * padded - fb::shift_of<kVec>(begin);
      if (col >= columns) continue;  // this piece has one vector less
      const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<float, kVec> e4;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t3 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        e4[k] = t3;
      }
      w4.add(e4, inside);
    }
  }
  auto a4 = w4.state<fb::Welford<float>::State>(fb::Welford<float>::identity());
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Welford<float>>(a4));
  if (splits > 1) {  // reduction_finish combines what they leave in order
    if (!active || lane != 0) return;
    P4[split * n1 + row] = a4.v0;
    P5[split * n1 + row] = a4.v1;
    P6[split * n1 + row] = a4.v2;
    return;
  }
  const float t4 = fb::Welford<float>::mean(a4);  // mean, batchnorm_train_nchw.yaml:16
  const float t5 = a4.v1;  // m2, batchnorm_train_nchw.yaml:16
  const float t9 = t5 / fb::cast<float>(t8);  // batchnorm_train_nchw.yaml:17
  const float t11 = t9 + 1e-05f;  // batchnorm_train_nchw.yaml:17
  const float t12 = fb::rsqrt(t11);  // rstd, batchnorm_train_nchw.yaml:17
  const float t13 = t4 - t1;  // batchnorm_train_nchw.yaml:22
  const float t15 = 0.1f * t13;  // batchnorm_train_nchw.yaml:22
  const float t16 = t1 + t15;  // new_mean, batchnorm_train_nchw.yaml:22
  const float t19 = t5 / fb::cast<float>(t18);  // batchnorm_train_nchw.yaml:23
  const float t20 = t19 - t2;  // batchnorm_train_nchw.yaml:23
  const float t21 = 0.1f * t20;  // batchnorm_train_nchw.yaml:23
  const float t22 = t2 + t21;  // new_var, batchnorm_train_nchw.yaml:23
  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T4, t4), fb::row_result(T12, t12),
      fb::row_result(T16, t16), fb::row_result(T22, t22));
}

FUSEBUILD_ENTRY(reduction_inner_20f9639eaf222ad3)
