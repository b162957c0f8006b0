// batchnorm_train_nchw.yaml, segment 0: outer_persistent, variant pieces_vec8_int32_folded_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 25: 23, 31: 29, 32: 30}
// schedule: threads=128 unroll=8 is_split=True in_pieces=True can_cluster=False
// launch: segment 0, pieces_vec8_int32_folded_vec8_int32 1 of 3 on sm_90: grid ceil_div(C*max(1, 2*(8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24), 4*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14)
//   // 8) <= 2048*gpu.multiprocessors) + 1) > 64), 8*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)), 16*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)), 32*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)), 64*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 2048), 128*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 4096)), 128), argument 16, 1; block 128, 1, 1; overlaps what is before; given x,
//   running_mean, running_var, mean, rstd, new_mean, new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024,
//   ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 //
//   max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, N, C, HW, (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24) +
//   (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 64) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 2048) + (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW +
//   14) // 8) <= 2048*gpu.multiprocessors) + 1) > 4096), max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))); if N*C*HW <
//   2146435072, 8*N*((HW + 14) // 8) < 1073741824, aligned(x, 16), N*HW < 1073741824, aligned(y, 16), N >= 16
// launch: segment 0, pieces_vec8_int32_shifted_vec8_int32 1 of 3 on sm_90: grid ceil_div(C*max(1, 2*(8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24), 4*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14)
//   // 8) <= 2048*gpu.multiprocessors) + 1) > 64), 8*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)), 16*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)), 32*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)), 64*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 2048), 128*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 4096)), 128), argument 16, 1; block 128, 1, 1; overlaps what is before; given x,
//   running_mean, running_var, mean, rstd, new_mean, new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024,
//   ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 //
//   max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, N, C, HW, (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24) +
//   (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 64) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 2048) + (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW +
//   14) // 8) <= 2048*gpu.multiprocessors) + 1) > 4096), max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))); if N*C*HW <
//   2146435072, 8*N*((HW + 14) // 8) < 1073741824, aligned(x, 16), N*HW < 1073741824, aligned(y, 16)
// launch: segment 0, pieces_vec8_int32_scalar_int64 1 of 3 on sm_90: grid ceil_div(C*max(1, 2*(8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24), 4*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14)
//   // 8) <= 2048*gpu.multiprocessors) + 1) > 64), 8*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)), 16*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)), 32*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)), 64*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 2048), 128*(8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <=
//   2048*gpu.multiprocessors) + 1) > 4096)), 128), argument 16, 1; block 128, 1, 1; overlaps what is before; given x,
//   running_mean, running_var, mean, rstd, new_mean, new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024,
//   ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 //
//   max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, N, C, HW, (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 24) +
//   (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 64) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 128*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 512*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 1024*((C >= 16384) + 1)) + (8*N*((HW + 14) //
//   8)*(3*(8*C*N*((HW + 14) // 8) <= 2048*gpu.multiprocessors) + 1) > 2048) + (8*N*((HW + 14) // 8)*(3*(8*C*N*((HW +
//   14) // 8) <= 2048*gpu.multiprocessors) + 1) > 4096), max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))); if N*C*HW <
//   2146435072, 8*N*((HW + 14) // 8) < 1073741824, aligned(x, 16), N*HW < 1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kUnroll = 8;  // accesses in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 4)
reduction_inner_cd8503426e7563a1(
    const __nv_bfloat16* T0,  // x: bfloat16[N, C, HW]
    const float* T3,  // running_mean: float[C]
    const float* T4,  // running_var: float[C]
    float* T6,  // mean: float[C]
    float* T14,  // rstd: float[C]
    float* T25,  // new_mean: float[C]
    float* T31,  // new_var: float[C]
    double* __restrict__ P6,  // partial results of mean
    float* __restrict__ P7,  // partial results of m2
    float* __restrict__ P8,  // partial results of count
    int64_t s9,  // N*HW
    int64_t n0,  // N
    int64_t n1,  // C
    int64_t n2,  // HW
    int64_t row_shift,  // of the threads that share a row
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
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
  const float t3 = T3[row];  // running_mean
  const float t4 = T4[row];  // running_var
  const int64_t t10 = s9;  // count, batchnorm_train_nchw.yaml:16
  const int64_t t27 = fb::sub(t10, int64_t(1));  // batchnorm_train_nchw.yaml:23

  fb::BatchMoments<float, Index> w6;
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
      fb::Vec<float, kVec> e6;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        e6[k] = t5;
      }
      w6.add(e6, inside);
    }
  }
  auto a6 = w6.state<fb::Welford<float>::State>(fb::Welford<float>::identity());
  fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Welford<float>>(a6));
  if (splits > 1) {  // reduction_finish combines what they leave in order
    if (!active || lane != 0) return;
    P6[split * n1 + row] = a6.v0;
    P7[split * n1 + row] = a6.v1;
    P8[split * n1 + row] = a6.v2;
    return;
  }
  const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train_nchw.yaml:16
  const float t7 = a6.v1;  // m2, batchnorm_train_nchw.yaml:16
  const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train_nchw.yaml:17
  const float t13 = t11 + 1e-05f;  // batchnorm_train_nchw.yaml:17
  const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train_nchw.yaml:17
  const float t22 = t6 - t3;  // batchnorm_train_nchw.yaml:22
  const float t24 = 0.1f * t22;  // batchnorm_train_nchw.yaml:22
  const float t25 = t3 + t24;  // new_mean, batchnorm_train_nchw.yaml:22
  const float t28 = t7 / fb::cast<float>(t27);  // batchnorm_train_nchw.yaml:23
  const float t29 = t28 - t4;  // batchnorm_train_nchw.yaml:23
  const float t30 = 0.1f * t29;  // batchnorm_train_nchw.yaml:23
  const float t31 = t4 + t30;  // new_var, batchnorm_train_nchw.yaml:23
  fb::store_rows_of<kThreads>(row_shift, rows, fb::row_result(T6, t6), fb::row_result(T14, t14),
      fb::row_result(T25, t25), fb::row_result(T31, t31));
}

FUSEBUILD_ENTRY(reduction_inner_cd8503426e7563a1)
