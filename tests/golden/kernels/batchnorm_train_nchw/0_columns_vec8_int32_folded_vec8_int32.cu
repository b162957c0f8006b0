// batchnorm_train_nchw.yaml, segment 0: outer_persistent, variant columns_vec8_int32_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 25: 23, 31: 29, 32: 30}
// schedule: threads=256 unroll=4 is_split=True walked=[0] always_split=True widest=0
// launch: segment 0, columns_vec8_int32_vec8_int32 1 of 3 on sm_90: grid ceil_div(ceil_div(C*HW, 8), min(256,
//   max(max(1, min(32, 1024 // max(1, N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8),
//   3*gpu.multiprocessors)))), argument 9, 1; block 256, 1, 1; overlaps what is before; given x, slot 0 of
//   max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))),
//   (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) //
//   max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14)
//   // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
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
//   N, C, HW, ceil_div(ceil_div(C*HW, 8), max(1, ceil_div(ceil_div(C*HW, 8), min(256, max(max(1, min(32, 1024 // max(1,
//   N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8), 3*gpu.multiprocessors)))))), max(1,
//   min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors)))); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW <
//   1073741824, (HW % 8) == 0, aligned(y, 16)
// launch: segment 0, columns_vec8_int32_folded_vec8_int32 1 of 3 on sm_90: grid ceil_div(ceil_div(C*HW, 8), min(256,
//   max(max(1, min(32, 1024 // max(1, N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8),
//   3*gpu.multiprocessors)))), argument 9, 1; block 256, 1, 1; overlaps what is before; given x, slot 0 of
//   max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))),
//   (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) //
//   max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14)
//   // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
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
//   N, C, HW, ceil_div(ceil_div(C*HW, 8), max(1, ceil_div(ceil_div(C*HW, 8), min(256, max(max(1, min(32, 1024 // max(1,
//   N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8), 3*gpu.multiprocessors)))))), max(1,
//   min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors)))); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW <
//   1073741824, aligned(y, 16), N >= 16
// launch: segment 0, columns_vec8_int32_shifted_vec8_int32 1 of 3 on sm_90: grid ceil_div(ceil_div(C*HW, 8), min(256,
//   max(max(1, min(32, 1024 // max(1, N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8),
//   3*gpu.multiprocessors)))), argument 9, 1; block 256, 1, 1; overlaps what is before; given x, slot 0 of
//   max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))),
//   (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) //
//   max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14)
//   // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
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
//   N, C, HW, ceil_div(ceil_div(C*HW, 8), max(1, ceil_div(ceil_div(C*HW, 8), min(256, max(max(1, min(32, 1024 // max(1,
//   N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8), 3*gpu.multiprocessors)))))), max(1,
//   min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors)))); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW <
//   1073741824, aligned(y, 16)
// launch: segment 0, columns_vec8_int32_scalar_int64 1 of 3 on sm_90: grid ceil_div(ceil_div(C*HW, 8), min(256,
//   max(max(1, min(32, 1024 // max(1, N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1,
//   min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8),
//   3*gpu.multiprocessors)))), argument 9, 1; block 256, 1, 1; overlaps what is before; given x, slot 0 of
//   max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))),
//   (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) //
//   max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14)
//   // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW >
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
//   N, C, HW, ceil_div(ceil_div(C*HW, 8), max(1, ceil_div(ceil_div(C*HW, 8), min(256, max(max(1, min(32, 1024 // max(1,
//   N))), 32*max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N))))), ceil_div(ceil_div(C*HW, 8), 3*gpu.multiprocessors)))))), max(1,
//   min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
//   max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) >
//   3*gpu.multiprocessors)))); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW <
//   1073741824
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 256;
constexpr int kVec = 8;  // columns per thread
constexpr int kUnroll = 4;  // rows in flight per thread
constexpr int kTogether = 4;  // of them that are loaded or left out without a branch

FUSEBUILD_KERNEL(kThreads, 3)
reduction_outer_7467408af8bf8376(
    const __nv_bfloat16* T0,  // x: bfloat16[N, C, HW]
    double* __restrict__ P6,  // partial results of mean
    float* __restrict__ P7,  // partial results of m2
    float* __restrict__ P8,  // partial results of count
    int64_t n0,  // N
    int64_t n1,  // C
    int64_t n2,  // HW
    int64_t block_width,  // threads side by side
    int64_t splits) {  // blocks that share a reduction
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index columns = n1 * n2;
  const Index depth = n0;
  const Index vectors = (columns + kVec - 1) / kVec;  // the last of a row may lack elements
  const Index all = vectors;
  const int width = block_width;  // threads side by side
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = place.height;  // threads that share columns
  const int x = place.x, y = place.y;
  const Index vector = Index(fb::block_x()) * width + x;
  const Index inner = vector * kVec;
  const bool has_columns = vector < all && y < height;
  const int split = fb::block_y();  // of the blocks that take a column's rows in turns
  const Index end = has_columns ? depth : 0;
  const int apart = height;  // rows from one of a thread to its next
  const Index first = Index(split) * (kUnroll * height) + y;
  const Index step = Index(splits) * kUnroll * height;

  fb::Moments<float> w6[kVec];
  Index read = 0;  // rows that the thread has read
  Index centered = 1;  // how many of them the shifts are the means of
  for (Index top = first; top < end; top += step) {
    const int left = end - top < kUnroll * height ? end - top : kUnroll * height;  // rows from its first one on
    fb::WordsAround<__nv_bfloat16, kVec> c0[kUnroll];
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      c0[u] = fb::load_words_around<kVec>(T0, Index(r * n1 * n2 + inner), Index(n0 * n1 * n2));
    }
    fb::recenter(centered, read, w6);
    read += kUnroll;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const bool is_there = u * apart < left;
      if (u % kTogether == 0 && !is_there) break;
      if (!is_there) continue;
      const Index r = top + u * height;
      const bool is_first = u == 0 && top == first;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::cut_around(c0[u], Index(r * n1 * n2 + inner)));
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        w6[k].add(t5, is_first);
      }
    }
  }
  const int64_t count = fb::steps_in_turns<Index>(first, end, height, kUnroll, splits);
  auto a6 = fb::states(w6, count);
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Welford<float>>(a6));
  if (y != 0 || !has_columns) return;
  FUSEBUILD_UNROLL
  for (int k = 0; k < kVec; ++k) {
    if (inner + k >= columns) break;  // reduction_finish combines what they leave
    const Index element = inner + k;
    const Index beside = n2;  // neighbours that are of one result
    const int64_t part = int64_t(split) * beside + element % beside;
    const int64_t place = part * n1 + element / beside;
    P6[place] = a6[k].v0;
    P7[place] = a6[k].v1;
    P8[place] = a6[k].v2;
  }
}

FUSEBUILD_ENTRY(reduction_outer_7467408af8bf8376)
