// batchnorm_train_nchw.yaml, segment 0: outer_persistent, variant columns_vec8_int32_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 25: 23, 31: 29, 32: 30}
// schedule: threads=256 parts=[(block_x=0 ahead=8 group=(reductions=[1] kept=[1] partials=0 results=0 across=[]
//   scaled=[] outer=[] depth=[] is_last=True) suffix=)]
// launch: segment 0, columns_vec8_int32_vec8_int32 2 of 3 on sm_90: grid ceil_div(C, max(1, min(C, (8 - 6*max(argument
//   12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 //
//   max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))), 256))), 1, 1; block 256, 1, 1;
//   overlaps what is before; given running_mean, running_var, mean, rstd, new_mean, new_var, slot 0 of max(8*HW*max(1,
//   min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <=
//   384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))),
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
//   N*HW, C, HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C <
//   8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), 8))) // (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C < 8)))),
//   256)); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW < 1073741824, (HW % 8)
//   == 0, aligned(y, 16)
// launch: segment 0, columns_vec8_int32_folded_vec8_int32 2 of 3 on sm_90: grid ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C <
//   8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), 8))) // (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C < 8)))),
//   256)); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW < 1073741824, aligned(y,
//   16), N >= 16
// launch: segment 0, columns_vec8_int32_shifted_vec8_int32 2 of 3 on sm_90: grid ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C <
//   8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), 8))) // (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C < 8)))),
//   256)); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW < 1073741824, aligned(y,
//   16)
// launch: segment 0, columns_vec8_int32_scalar_int64 2 of 3 on sm_90: grid ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C <
//   8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1,
//   ceil_div(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1,
//   N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8),
//   32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256)
//   > 3*gpu.multiprocessors)))), 8))) // (8 - 6*max(HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors)))) > 256, C < 8)))),
//   256)); if N*C*HW < 2146435072, aligned(x, 16), HW <= 32, N >= 8, N >= HW, C*HW >= 64, N*HW < 1073741824
// launch: segment 0, vec8_int32_vec8_int32 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C //
//   (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N*HW >
//   24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8
//   - 6*max(max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, (HW % 8) == 0, aligned(x, 16), N*HW <
//   1073741824, aligned(y, 16)
// launch: segment 0, vec8_int32_scalar_int64 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C //
//   (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N*HW >
//   24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8
//   - 6*max(max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, (HW % 8) == 0, aligned(x, 16), N*HW <
//   1073741824
// launch: segment 0, pieces_vec8_int32_folded_vec8_int32 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1,
//   min(C, (8 - 6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1,
//   min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C),
//   4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8 -
//   6*max(max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, 8*N*((HW + 14) //
//   8) < 1073741824, aligned(x, 16), N*HW < 1073741824, aligned(y, 16), N >= 16
// launch: segment 0, pieces_vec8_int32_shifted_vec8_int32 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1,
//   min(C, (8 - 6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1,
//   min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C),
//   4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8 -
//   6*max(max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, 8*N*((HW + 14) //
//   8) < 1073741824, aligned(x, 16), N*HW < 1073741824, aligned(y, 16)
// launch: segment 0, pieces_vec8_int32_scalar_int64 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C,
//   (8 - 6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1,
//   min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C),
//   4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8 -
//   6*max(max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, 8*N*((HW + 14) //
//   8) < 1073741824, aligned(x, 16), N*HW < 1073741824
// launch: segment 0, scalar_int64_vec8_int32 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C //
//   (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8
//   - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, (HW % 8) == 0, aligned(x, 16),
//   aligned(y, 16)
// launch: segment 0, scalar_int64_folded_vec8_int32 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C,
//   (8 - 6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C //
//   (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8
//   - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, aligned(x, 16), aligned(y, 16), N >= 16
// launch: segment 0, scalar_int64_shifted_vec8_int32 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C,
//   (8 - 6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C //
//   (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8
//   - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))) > 256, C < 8)))), 256)); if N*C*HW < 2146435072, aligned(x, 16), aligned(y, 16)
// launch: segment 0, scalar_int64_scalar_int64 2 of 3 on sm_90: grid (argument 12 > 1)*ceil_div(C, max(1, min(C, (8 -
//   6*max(argument 12 > 256, C < 8))*min(max(1, C // (8*gpu.multiprocessors)), max(max(1, C //
//   (16*gpu.multiprocessors)), (256 // max(1, ceil_div(argument 12, 8))) // (8 - 6*max(argument 12 > 256, C < 8)))),
//   256))), 1, 1; block 256, 1, 1; overlaps what is before; given running_mean, running_var, mean, rstd, new_mean,
//   new_var, slot 0 of max(8*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32,
//   1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1,
//   ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)),
//   4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 24576)*ceil_div(N*HW,
//   8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 8*max(1, min((8*N*((HW + 14)
//   // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 8*max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1,
//   C), 4*(C > 8*gpu.multiprocessors))))*C) bytes, slot 1 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) >
//   3*gpu.multiprocessors*max(max(1, min(32, 1024 // max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1,
//   N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW, 8), 32))), max((3*gpu.multiprocessors) // max(1,
//   ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8), 256) > 3*gpu.multiprocessors))))*C, 4*max(1,
//   min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW + 14) // 8), 8192),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   slot 2 of max(4*HW*max(1, min(max(N > 1024, ceil_div(C*HW, 8) > 3*gpu.multiprocessors*max(max(1, min(32, 1024 //
//   max(1, N))), (N <= 384)*max(1, min(32, 3072 // max(1, N)))))*ceil_div(N*C*HW, 8192*max(1, ceil_div(ceil_div(C*HW,
//   8), 32))), max((3*gpu.multiprocessors) // max(1, ceil_div(ceil_div(C*HW, 8), 32)), 4*(ceil_div(ceil_div(C*HW, 8),
//   256) > 3*gpu.multiprocessors))))*C, 4*max(1, min((N*HW > 24576)*ceil_div(N*HW, 8192), max((8*gpu.multiprocessors)
//   // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((8*N*((HW + 14) // 8) > 24576)*ceil_div(8*N*((HW +
//   14) // 8), 8192), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C, 4*max(1, min((N*HW
//   > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors))))*C) bytes,
//   N*HW, C, max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))), max(1, min(C, (8 - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024),
//   max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))) > 256, C < 8))*min(max(1, C //
//   (8*gpu.multiprocessors)), max(max(1, C // (16*gpu.multiprocessors)), (256 // max(1, ceil_div(max(1, min((N*HW >
//   3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C > 8*gpu.multiprocessors)))), 8))) // (8
//   - 6*max(max(1, min((N*HW > 3072)*ceil_div(N*HW, 1024), max((8*gpu.multiprocessors) // max(1, C), 4*(C >
//   8*gpu.multiprocessors)))) > 256, C < 8)))), 256))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_57d15fe0a1be7920(
    const float* T3,  // running_mean: float[C]
    const float* T4,  // running_var: float[C]
    float* T6,  // mean: float[C]
    float* T14,  // rstd: float[C]
    float* T25,  // new_mean: float[C]
    float* T31,  // new_var: float[C]
    const double* P6,  // partial results of mean
    const float* P7,  // partial results of m2
    const float* P8,  // partial results of count
    int64_t s9,  // N*HW
    int64_t n1,  // C
    int64_t splits,  // partial results of each, combined in a fixed order
    int64_t block_width) {  // results per block
  fb::let_next_kernel_start();  // it waits for the end of this one
  const int width = block_width;
  const fb::Place place = fb::place_of<kThreads>(width);
  const int height = splits < place.height ? splits : place.height;  // threads per result
  constexpr int kAhead = 8;  // partial results that a thread loads before it combines the first
  const int64_t results = n1;
  const int x = place.x, y = place.y;
  const Index kept = Index(fb::block_x()) * width + x;
  const int64_t stride = height * results;  // from one partial result of a thread to its next
  const bool writes = y == 0 && kept < results;
  fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results
  const float t3 = writes ? T3[kept] : float{};  // running_mean
  const float t4 = writes ? T4[kept] : float{};  // running_var

  fb::Welford<float>::State a6 = fb::Welford<float>::identity();
  if (kept < results && y < height) {
    const int apart = height;
    int64_t first = y;
    const auto* q6 = P6 + (first * results + kept);
    const auto* q7 = P7 + (first * results + kept);
    const auto* q8 = P8 + (first * results + kept);
    for (; first < splits; first += kAhead * apart) {
      const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
      fb::Welford<float>::State p6[kAhead];
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        fb::forget_origin(q6);  // or compilers find each address from the first one
        fb::forget_origin(q7);
        fb::forget_origin(q8);
        if (is_there) {
          p6[u] = {*q6, *q7, *q8};
        }
        q6 += stride;
        q7 += stride;
        q8 += stride;
      }
      FUSEBUILD_UNROLL
      for (int u = 0; u < kAhead; ++u) {
        const bool is_there = u * apart < left;
        if (u % kTogether == 0 && !is_there) break;
        a6 = fb::Welford<float>::combine(a6, is_there ? p6[u] : fb::Welford<float>::identity());
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, height, fb::accumulator<fb::Welford<float>>(a6));
  if (y != 0 || kept >= results) return;
  const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train_nchw.yaml:16
  const float t7 = a6.v1;  // m2, batchnorm_train_nchw.yaml:16
  const int64_t t10 = s9;  // count, batchnorm_train_nchw.yaml:16
  const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train_nchw.yaml:17
  const float t13 = t11 + 1e-05f;  // batchnorm_train_nchw.yaml:17
  const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train_nchw.yaml:17
  const float t22 = t6 - t3;  // batchnorm_train_nchw.yaml:22
  const float t24 = 0.1f * t22;  // batchnorm_train_nchw.yaml:22
  const float t25 = t3 + t24;  // new_mean, batchnorm_train_nchw.yaml:22
  const int64_t t27 = fb::sub(t10, int64_t(1));  // batchnorm_train_nchw.yaml:23
  const float t28 = t7 / fb::cast<float>(t27);  // batchnorm_train_nchw.yaml:23
  const float t29 = t28 - t4;  // batchnorm_train_nchw.yaml:23
  const float t30 = 0.1f * t29;  // batchnorm_train_nchw.yaml:23
  const float t31 = t4 + t30;  // new_var, batchnorm_train_nchw.yaml:23
  T6[kept] = t6;
  T14[kept] = t14;
  T25[kept] = t25;
  T31[kept] = t31;
}

FUSEBUILD_ENTRY(reduction_finish_57d15fe0a1be7920)
