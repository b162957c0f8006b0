// inner_outer_finishes.yaml, segment 0: inner_outer_persistent, variant registers128_vec4_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 6: 5, 10: 9, 13: 11, 18: 15}
// schedule: threads=256 parts=[(block_x=16 ahead=17 group=(reductions=[3] kept=[2] partials=264 results=8192 across=[]
//   scaled=[] outer=[] depth=[] is_last=False) suffix=), (block_x=16 ahead=6 group=(reductions=[5, 10, 13] kept=[0, 2]
//   partials=90 results=24576 across=[] scaled=[] outer=[0] depth=[1] is_last=False) suffix=)]
// launch: segment 0, registers128_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(5*gpu.multiprocessors, max(1, (B*S) // 16, min(ceil_div(B*S, 4), gpu.multiprocessors))); if D < 2146435072,
//   B*max(1, S) < 2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y,
//   16), D <= 128
// launch: segment 0, registers256_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(8*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16), D <= 256
// launch: segment 0, registers512_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(5*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16), D <= 512
// launch: segment 0, registers1024_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16), D <= 1024
// launch: segment 0, registers2048_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16), D <= 2048
// launch: segment 0, registers4096_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16), B*S > 66,
//   D <= 4096
// launch: segment 0, registers6144_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16), B*S > 66,
//   D <= 6144
// launch: segment 0, staged2_8192_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, gpu.multiprocessors // 2), max(1, (B*S) // 4, min(B*S, max(1, gpu.multiprocessors // 2)))); if D <
//   2146435072, B*max(1, S) < 2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v, 16), aligned(w, 16),
//   aligned(y, 16), D <= 8192
// launch: segment 0, staged4_16384_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, ((10*gpu.multiprocessors) // 11) // 4), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) //
//   11) // 4)))); if D < 2146435072, B*max(1, S) < 2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v,
//   16), aligned(w, 16), aligned(y, 16), D <= 16384
// launch: segment 0, staged8_32768_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) //
//   11) // 8)))); if D < 2146435072, B*max(1, S) < 2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v,
//   16), aligned(w, 16), aligned(y, 16), D <= 32768
// launch: segment 0, staged8_65536_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) //
//   11) // 8)))); if D < 2146435072, B*max(1, S) < 2146435072, (D % 4) == 0, aligned(x, 16), aligned(u, 16), aligned(v,
//   16), aligned(w, 16), aligned(y, 16), D <= 65536
// launch: segment 0, scratch_vec4_int64 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block 256, 1,
//   1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if (D % 4) == 0, aligned(x, 16),
//   aligned(u, 16), aligned(v, 16), aligned(w, 16), aligned(y, 16)
// launch: segment 0, striped512_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block 256,
//   1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(4*gpu.multiprocessors, max(1, (B*S) // 16, min(ceil_div(B*S, 4), gpu.multiprocessors))); if D < 2146435072,
//   B*max(1, S) < 2146435072, aligned(x, 16), aligned(y, 16), D <= 512
// launch: segment 0, striped1280_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block 256,
//   1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(4*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, aligned(x, 16), aligned(y, 16), D <= 1536
// launch: segment 0, striped2560_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block 256,
//   1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))); if D < 2146435072, B*max(1, S) <
//   2146435072, aligned(x, 16), aligned(y, 16), B*S > 66, D <= 3072
// launch: segment 0, striped5120_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block 256,
//   1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, (2*gpu.multiprocessors) // 2), max(1, (B*S) // 4, min(B*S, max(1, gpu.multiprocessors // 2)))); if D <
//   2146435072, B*max(1, S) < 2146435072, aligned(x, 16), aligned(y, 16), D <= 6144
// launch: segment 0, striped10240_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, (2*((10*gpu.multiprocessors) // 11)) // 4), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors)
//   // 11) // 4)))); if D < 2146435072, B*max(1, S) < 2146435072, aligned(x, 16), aligned(y, 16), D <= 12288
// launch: segment 0, striped20480_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, (2*((10*gpu.multiprocessors) // 11)) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors)
//   // 11) // 8)))); if D < 2146435072, B*max(1, S) < 2146435072, aligned(x, 16), aligned(y, 16), D <= 24576
// launch: segment 0, striped40960_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) //
//   11) // 8)))); if D < 2146435072, B*max(1, S) < 2146435072, aligned(x, 16), aligned(y, 16), D <= 49152
// launch: segment 0, striped65536_vec4_int32 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block
//   256, 1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(max(1, ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) //
//   11) // 8)))); if D < 2146435072, B*max(1, S) < 2146435072, aligned(x, 16), aligned(y, 16), D <= 65536
// launch: segment 0, scratch_scalar_int64 2 of 2 on sm_90: grid ceil_div(D, 16) + ceil_div(B*D, 16), 1, 1; block 256,
//   1, 1; overlaps what is before; given u, v, w, moved, weighted, both, slot 0 of 4*min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 8192))) bytes, slot 1 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D,
//   min(8*D, 8192))) + 2*B*D) bytes, slot 2 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) +
//   2*B*D) bytes, slot 3 of 4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 8192))) + 2*B*D) bytes, B, S, D,
//   min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors)))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 256;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_KERNEL(kThreads, 1)
reduction_finish_bf5251747cafeba5(
    const float* T1,  // u: float[D]
    const float* T2,  // v: float[D]
    const float* T3,  // w: float[D]
    float* T10,  // moved: float[D]
    float* T13,  // weighted: float[B, D]
    float* T18,  // both: float[B, D]
    const float* P7,  // partial results of columns
    const float* P9,  // partial results of squares
    const float* P14,  // partial results of plain
    const float* P17,  // partial results of times
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // D
    int64_t parts) {  // blocks that left partial results
  int64_t block = fb::block_x();
  {  // moved
    constexpr int kBlockX = 16;  // results per block
    constexpr int kBlockY = kThreads / kBlockX;  // threads per result
    constexpr int kAhead = 17;  // partial results that a thread loads before it combines the first
    const int64_t results = n2;
    const int64_t splits = parts;  // partial results of each, combined in a fixed order
    const int64_t blocks = (results + kBlockX - 1) / kBlockX;
    if (block < blocks) {
      const int x = fb::thread_x() % kBlockX, y = fb::thread_x() / kBlockX;
      const Index kept = Index(block) * kBlockX + x;
      const int64_t stride = kBlockY * results;  // from one partial result of a thread to its next
      const bool writes = y == 0 && kept < results;
      fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results
      const float t1 = writes ? T1[kept] : float{};  // u

      float a7 = fb::Sum::identity<float>();
      if (kept < results) {
        const int apart = kBlockY;
        int64_t first = y;
        const auto* q7 = P7 + (first * results + kept);
        for (; first < splits; first += kAhead * apart) {
          const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
          float p7[kAhead];
          FUSEBUILD_UNROLL
          for (int u = 0; u < kAhead; ++u) {
            const bool is_there = u * apart < left;
            if (u % kTogether == 0 && !is_there) break;
            fb::forget_origin(q7);  // or compilers find each address from the first one
            if (is_there) {
              p7[u] = *q7;
            }
            q7 += stride;
          }
          FUSEBUILD_UNROLL
          for (int u = 0; u < kAhead; ++u) {
            const bool is_there = u * apart < left;
            if (u % kTogether == 0 && !is_there) break;
            a7 = fb::Sum::combine(a7, is_there ? p7[u] : fb::Sum::identity<float>());
          }
        }
      }
      fb::reduce_columns_at<kBlockX, kBlockY>(x, y, fb::accumulator<fb::Sum>(a7));
      if (y != 0 || kept >= results) return;
      const float t7 = a7;  // columns, inner_outer_finishes.yaml:10
      const float t10 = t1 - t7;  // moved, inner_outer_finishes.yaml:12
      T10[kept] = t10;
      return;
    }
    block -= blocks;
  }
  {  // weighted, both
    constexpr int kBlockX = 16;  // results per block
    constexpr int kBlockY = kThreads / kBlockX;  // threads per result
    constexpr int kAhead = 6;  // partial results that a thread loads before it combines the first
    const int64_t results = n0 * n2;
    const int64_t splits = fb::partition(n0, n1, parts).most_parts;
    const int x = fb::thread_x() % kBlockX, y = fb::thread_x() / kBlockX;
    const Index kept = Index(block) * kBlockX + x;
    const int64_t stride = kBlockY * results;  // from one partial result of a thread to its next
    const bool writes = y == 0 && kept < results;
    const Index i2 = kept % Index(n2);
    fb::wait_for_previous_kernel((y * results + kept) | stride);  // it may still be writing partial results
    const float t2 = writes ? T2[i2] : float{};  // v
    const float t3 = writes ? T3[i2] : float{};  // w

    float a9 = fb::Sum::identity<float>();
    float a14 = fb::Sum::identity<float>();
    float a17 = fb::Sum::identity<float>();
    if (kept < results) {
      const int apart = kBlockY;
      int64_t first = y;
      const auto* q9 = P9 + (first * results + kept);
      const auto* q14 = P14 + (first * results + kept);
      const auto* q17 = P17 + (first * results + kept);
      for (; first < splits; first += kAhead * apart) {
        const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
        float p9[kAhead];
        float p14[kAhead];
        float p17[kAhead];
        FUSEBUILD_UNROLL
        for (int u = 0; u < kAhead; ++u) {
          const bool is_there = u * apart < left;
          if (u % kTogether == 0 && !is_there) break;
          fb::forget_origin(q9);  // or compilers find each address from the first one
          fb::forget_origin(q14);
          fb::forget_origin(q17);
          if (is_there) {
            p9[u] = *q9;
            p14[u] = *q14;
            p17[u] = *q17;
          }
          q9 += stride;
          q14 += stride;
          q17 += stride;
        }
        FUSEBUILD_UNROLL
        for (int u = 0; u < kAhead; ++u) {
          const bool is_there = u * apart < left;
          if (u % kTogether == 0 && !is_there) break;
          a9 = fb::Sum::combine(a9, is_there ? p9[u] : fb::Sum::identity<float>());
          a14 = fb::Sum::combine(a14, is_there ? p14[u] : fb::Sum::identity<float>());
          a17 = fb::Sum::combine(a17, is_there ? p17[u] : fb::Sum::identity<float>());
        }
      }
    }
    fb::reduce_columns_at<kBlockX, kBlockY>(x, y, fb::accumulator<fb::Sum>(a9), fb::accumulator<fb::Sum>(a14),
        fb::accumulator<fb::Sum>(a17));
    if (y != 0 || kept >= results) return;
    const float t9 = a9;  // squares, inner_outer_finishes.yaml:11
    const float t14 = a14;  // plain, inner_outer_finishes.yaml:14
    const float t17 = a17;  // times, inner_outer_finishes.yaml:15
    const float t11 = t3 + t2;  // inner_outer_finishes.yaml:13
    const float t13 = t9 * t11;  // weighted, inner_outer_finishes.yaml:13
    const float t18 = t14 + t17;  // both, inner_outer_finishes.yaml:16
    T13[kept] = t13;
    T18[kept] = t18;
  }
}

FUSEBUILD_ENTRY(reduction_finish_bf5251747cafeba5)
