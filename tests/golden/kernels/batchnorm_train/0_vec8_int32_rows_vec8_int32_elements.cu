// batchnorm_train.yaml, segment 0: outer_persistent, variant vec8_int32_rows_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 26: 20, 32: 26, 33: 27}
// schedule: threads=128 rows=8 unroll=1 min_blocks=7 walked=0, backwards
// launch: segment 0, vec8_int32_rows_vec8_int32 3 of 3 on sm_90: grid argument 9*ceil_div(R, (128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))))*argument 13), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, R, C, ceil_div(ceil_div(C, 8), max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))), 4294967295 //
//   max(ceil_div(ceil_div(C, 8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), 1), max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4),
//   4*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)),
//   6*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C,
//   8))), 7 - max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C,
//   8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C,
//   8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1,
//   ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), max(1, ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2),
//   8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8),
//   32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C,
//   8), 128) <= 9*ceil_div(C, 8)))), max(1, 2*(R*C >= 8192*gpu.multiprocessors), 4*(R*C >= 16384*gpu.multiprocessors),
//   8*(R*C >= 32768*gpu.multiprocessors)))))); if R*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(running_mean,
//   16), aligned(running_var, 16), aligned(mean, 16), aligned(rstd, 16), aligned(new_mean, 16), aligned(new_var, 16), R
//   < 1073741824, aligned(weight, 16), aligned(bias, 16), aligned(y, 16)
// launch: segment 0, single_scalar_int64_rows_vec8_int32 3 of 3 on sm_90: grid argument 9*ceil_div(R, (128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))))*argument 13), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, R, C, ceil_div(ceil_div(C, 8), max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))), 4294967295 //
//   max(ceil_div(ceil_div(C, 8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), 1), max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4),
//   4*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)),
//   6*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C,
//   8))), 7 - max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C,
//   8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C,
//   8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1,
//   ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), max(1, ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2),
//   8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8),
//   32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C,
//   8), 128) <= 9*ceil_div(C, 8)))), max(1, 2*(R*C >= 8192*gpu.multiprocessors), 4*(R*C >= 16384*gpu.multiprocessors),
//   8*(R*C >= 32768*gpu.multiprocessors)))))); if R*C <= 8388608, R*C < 2146435072, (C % 8) == 0, aligned(x, 16),
//   aligned(weight, 16), aligned(bias, 16), aligned(mean, 16), aligned(rstd, 16), aligned(y, 16)
// launch: segment 0, folded_vec8_int32_rows_vec8_int32 3 of 3 on sm_90: grid argument 9*ceil_div(R, (128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))))*argument 13), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, R, C, ceil_div(ceil_div(C, 8), max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))), 4294967295 //
//   max(ceil_div(ceil_div(C, 8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), 1), max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4),
//   4*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)),
//   6*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C,
//   8))), 7 - max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C,
//   8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C,
//   8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1,
//   ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), max(1, ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2),
//   8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8),
//   32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C,
//   8), 128) <= 9*ceil_div(C, 8)))), max(1, 2*(R*C >= 8192*gpu.multiprocessors), 4*(R*C >= 16384*gpu.multiprocessors),
//   8*(R*C >= 32768*gpu.multiprocessors)))))); if R*C < 1073741824, aligned(x, 16), R >= 512, 1 <= C, C < 16, R <
//   1073741824, R*C < 2146435072, (C % 8) == 0, aligned(weight, 16), aligned(bias, 16), aligned(mean, 16),
//   aligned(rstd, 16), aligned(y, 16)
// launch: segment 0, realigned_vec8_int32_rows_vec8_int32 3 of 3 on sm_90: grid argument 9*ceil_div(R, (128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))))*argument 13), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, R, C, ceil_div(ceil_div(C, 8), max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))), 4294967295 //
//   max(ceil_div(ceil_div(C, 8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), 1), max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4),
//   4*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)),
//   6*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C,
//   8))), 7 - max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C,
//   8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C,
//   8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1,
//   ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), max(1, ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2),
//   8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8),
//   32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C,
//   8), 128) <= 9*ceil_div(C, 8)))), max(1, 2*(R*C >= 8192*gpu.multiprocessors), 4*(R*C >= 16384*gpu.multiprocessors),
//   8*(R*C >= 32768*gpu.multiprocessors)))))); if R*C < 2146435072, aligned(x, 16), R < 1073741824, (C % 8) == 0,
//   aligned(weight, 16), aligned(bias, 16), aligned(mean, 16), aligned(rstd, 16), aligned(y, 16)
// launch: segment 0, scalar_int64_rows_vec8_int32 3 of 3 on sm_90: grid argument 9*ceil_div(R, (128 // max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))))*argument 13), 1, 1; block 128,
//   1, 1; overlaps what is before; given x, weight, bias, mean, rstd, y, R, C, ceil_div(ceil_div(C, 8), max(1,
//   2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <=
//   9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64)
//   <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8)))), 4294967295 //
//   max(ceil_div(ceil_div(C, 8), max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), 1), max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4),
//   4*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)),
//   6*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C,
//   8))), 7 - max(0, ceil_div(C, 8) > 1, 2*(ceil_div(C, 8) > 2), 3*(ceil_div(C, 8) > 4), 4*(128*ceil_div(ceil_div(C,
//   8), 16) <= 9*ceil_div(C, 8)), 5*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C, 8)), 6*(512*ceil_div(ceil_div(C,
//   8), 64) <= 9*ceil_div(C, 8)), 7*(1024*ceil_div(ceil_div(C, 8), 128) <= 9*ceil_div(C, 8))), max(1,
//   ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2), 8*(ceil_div(C, 8) > 4),
//   16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8), 32) <= 9*ceil_div(C,
//   8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C, 8), 128) <=
//   9*ceil_div(C, 8)))), max(1, ceil_div(ceil_div(R, 128 // max(1, 2*(ceil_div(C, 8) > 1), 4*(ceil_div(C, 8) > 2),
//   8*(ceil_div(C, 8) > 4), 16*(128*ceil_div(ceil_div(C, 8), 16) <= 9*ceil_div(C, 8)), 32*(256*ceil_div(ceil_div(C, 8),
//   32) <= 9*ceil_div(C, 8)), 64*(512*ceil_div(ceil_div(C, 8), 64) <= 9*ceil_div(C, 8)), 128*(1024*ceil_div(ceil_div(C,
//   8), 128) <= 9*ceil_div(C, 8)))), max(1, 2*(R*C >= 8192*gpu.multiprocessors), 4*(R*C >= 16384*gpu.multiprocessors),
//   8*(R*C >= 32768*gpu.multiprocessors)))))); if R*C < 2146435072, (C % 8) == 0, aligned(x, 16), aligned(weight, 16),
//   aligned(bias, 16), aligned(mean, 16), aligned(rstd, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 8;  // neighbouring columns per access
constexpr int kUnroll = 1;  // rows in flight per thread and tensor

FUSEBUILD_KERNEL(kThreads, 7)
pointwise_rows_152f704f56de3df0(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    const float* T1,  // weight: float[C]
    const float* T2,  // bias: float[C]
    const float* T6,  // mean: float[C]
    const float* T14,  // rstd: float[C]
    __nv_bfloat16* __restrict__ T33,  // y: bfloat16[R, C]
    int64_t n0,  // R
    int64_t n1,  // C
    int64_t column_tiles,  // beside each other
    int64_t column_tiles_reciprocal,  // reciprocal of column_tiles
    int64_t column_shift,  // of the threads along columns
    int64_t row_shift,  // of those along rows
    int64_t each) {  // of the rows of a thread
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index rows = Index(n0), columns = Index(n1);
  const int across = int(column_shift), down = int(row_shift);
  const int lane = fb::thread_x() & ((1 << across) - 1), line = fb::thread_x() >> across;
  const fb::Divided tile = fb::divided(fb::grid_x() - 1 - fb::block_x(), Index(column_tiles), column_tiles_reciprocal);
  const Index row_tile = tile.quotient, i = ((tile.remainder << across) + lane) * kVec;
  const Index step = 1 << down, tile_rows = step * Index(each);
  const Index tile_row = row_tile * tile_rows;
  const Index first_row = tile_row + (line & (step - 1)), next_tile = tile_row + tile_rows;
  const Index end = next_tile < rows ? next_tile : rows;
  if (i >= columns || first_row >= end) return;
  // The first rows are on their way before anything is computed, and the positions of the next ones.
  fb::Packed<__nv_bfloat16, kVec> p0[kUnroll];
  const fb::Packed<float, kVec> p1 = fb::load_packed<kVec>(T1 + i);
  const fb::Packed<float, kVec> p2 = fb::load_packed<kVec>(T2 + i);
  const fb::Packed<float, kVec> p6 = fb::load_packed<kVec>(T6 + i);
  const fb::Packed<float, kVec> p14 = fb::load_packed<kVec>(T14 + i);
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index row = first_row + u * step;
    if (row >= end) break;
    p0[u] = fb::load_packed<kVec>(T0 + (row * Index(n1) + i));
  }

  // What is the same for every row.
  const fb::Vec<float, kVec> v1 = fb::unpack(p1);
  const fb::Vec<float, kVec> v2 = fb::unpack(p2);
  const fb::Vec<float, kVec> v6 = fb::unpack(p6);
  const fb::Vec<float, kVec> v14 = fb::unpack(p14);

  for (Index top = first_row; top < end;) {
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(p0[u]);
      fb::Vec<__nv_bfloat16, kVec> v33;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];
        const float t2 = v2[k];
        const float t6 = v6[k];
        const float t14 = v14[k];
        const __nv_bfloat16 t0 = v0[k];
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        const float t16 = t5 - t6;  // batchnorm_train.yaml:18
        const float t18 = t16 * t14;  // batchnorm_train.yaml:18
        const float t20 = t18 * t1;  // batchnorm_train.yaml:18
        const float t22 = t20 + t2;  // y, batchnorm_train.yaml:18
        const __nv_bfloat16 t33 = fb::cast<__nv_bfloat16>(t22);  // batchnorm_train.yaml:22
        v33[k] = t33;
      }
      fb::store(T33 + (row * Index(n1) + i), v33);
    }
    top += kUnroll * step;
    FUSEBUILD_UNROLL
    for (int u = 0; u < kUnroll; ++u) {
      const Index row = top + u * step;
      if (row >= end) break;
      p0[u] = fb::load_packed<kVec>(T0 + (row * Index(n1) + i));
    }
  }
}

FUSEBUILD_ENTRY(pointwise_rows_152f704f56de3df0)
