// adaln_backward.yaml, segment 0: inner_outer_persistent, variant registers256_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 20: 20, 28: 26, 52: 49, 53: 50, 54: 51}
// schedule: threads=512 parts=[(block_x=0 ahead=8 group=(reductions=[22, 24] kept=[2] partials=336 results=8192
//   across=[0] scaled=[[22, 18, 15], [24, 19, 15]] outer=[0] depth=[1] is_last=False) source=(reductions=[10, 11]
//   kept=[0, 2] partials=6 results=458752 across=[] scaled=[] outer=[0] depth=[1] is_last=False) suffix=)]
// launch: segment 0, registers256_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(4*gpu.multiprocessors, max(1,
//   (B*S) // 16, min(ceil_div(B*S, 4), gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 16,
//   min(ceil_div(B*S, 4), gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D,
//   8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 16, min(ceil_div(B*S, 4), gpu.multiprocessors))) // max(B,
//   1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16),
//   aligned(bias, 16), aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 256
// launch: segment 0, registers512_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(8*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(8*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(8*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16),
//   aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 512
// launch: segment 0, registers1024_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(4*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16),
//   aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 1024
// launch: segment 0, registers2048_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(2*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16),
//   aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 2048
// launch: segment 0, registers4096_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(2*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16),
//   aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 4096
// launch: segment 0, registers6144_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16),
//   aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), B*S > 33, D <= 6144
// launch: segment 0, registers8192_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16),
//   aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), B*S > 66, D <= 8192
// launch: segment 0, staged2_16384_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1, gpu.multiprocessors //
//   2), max(1, (B*S) // 4, min(B*S, max(1, gpu.multiprocessors // 2)))), max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   gpu.multiprocessors // 2), max(1, (B*S) // 4, min(B*S, max(1, gpu.multiprocessors // 2)))) // max(B, 1)) + 2,
//   8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D //
//   (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1, gpu.multiprocessors // 2), max(1, (B*S) // 4,
//   min(B*S, max(1, gpu.multiprocessors // 2)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) <
//   2146435072, (D % 8) == 0, aligned(weight, 16), aligned(bias, 16), aligned(scale, 16), aligned(grad_y, 16),
//   aligned(x, 16), aligned(grad_x, 16), D <= 16384
// launch: segment 0, staged4_32768_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1, ((10*gpu.multiprocessors)
//   // 11) // 4), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) // 4)))), max(1, min(D,
//   8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(max(1, ((10*gpu.multiprocessors) // 11) // 4), max(1, (B*S) // 4, min(B*S, max(1,
//   ((10*gpu.multiprocessors) // 11) // 4)))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   ((10*gpu.multiprocessors) // 11) // 4), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   4)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight,
//   16), aligned(bias, 16), aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 32768
// launch: segment 0, staged8_65536_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1, ((10*gpu.multiprocessors)
//   // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) // 8)))), max(1, min(D,
//   8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(max(1, ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1,
//   ((10*gpu.multiprocessors) // 11) // 8)))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   8)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, (D % 8) == 0, aligned(weight,
//   16), aligned(bias, 16), aligned(scale, 16), aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 65536
// launch: segment 0, striped512_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1, S)*argument
//   13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D //
//   (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1, 1; block 512,
//   1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias, grad_weight, slot 0 of
//   max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(4*gpu.multiprocessors, max(1,
//   (B*S) // 16, min(ceil_div(B*S, 4), gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 16,
//   min(ceil_div(B*S, 4), gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D,
//   8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 16, min(ceil_div(B*S, 4), gpu.multiprocessors))) // max(B,
//   1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x, 16),
//   aligned(grad_x, 16), D <= 512
// launch: segment 0, striped1280_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(8*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(8*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(8*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <=
//   1280
// launch: segment 0, striped2560_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(4*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(4*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <=
//   2560
// launch: segment 0, striped5120_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(2*gpu.multiprocessors, max(1,
//   (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D
//   // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S,
//   gpu.multiprocessors))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(2*gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), B*S >
//   66, D <= 5120
// launch: segment 0, striped10240_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1, (2*gpu.multiprocessors)
//   // 2), max(1, (B*S) // 4, min(B*S, max(1, gpu.multiprocessors // 2)))), max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   (2*gpu.multiprocessors) // 2), max(1, (B*S) // 4, min(B*S, max(1, gpu.multiprocessors // 2)))) // max(B, 1)) + 2,
//   8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D //
//   (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1, (2*gpu.multiprocessors) // 2), max(1, (B*S) // 4,
//   min(B*S, max(1, gpu.multiprocessors // 2)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) <
//   2146435072, aligned(grad_y, 16), aligned(x, 16), aligned(grad_x, 16), D <= 10240
// launch: segment 0, striped20480_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1,
//   (2*((10*gpu.multiprocessors) // 11)) // 4), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   4)))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 //
//   max(1, B*ceil_div((min(max(1, (2*((10*gpu.multiprocessors) // 11)) // 4), max(1, (B*S) // 4, min(B*S, max(1,
//   ((10*gpu.multiprocessors) // 11) // 4)))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   (2*((10*gpu.multiprocessors) // 11)) // 4), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   4)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x,
//   16), aligned(grad_x, 16), D <= 20480
// launch: segment 0, striped40960_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1,
//   (2*((10*gpu.multiprocessors) // 11)) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   8)))), max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 //
//   max(1, B*ceil_div((min(max(1, (2*((10*gpu.multiprocessors) // 11)) // 8), max(1, (B*S) // 4, min(B*S, max(1,
//   ((10*gpu.multiprocessors) // 11) // 8)))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   (2*((10*gpu.multiprocessors) // 11)) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   8)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x,
//   16), aligned(grad_x, 16), D <= 40960
// launch: segment 0, striped131072_vec8_int32 3 of 3 on sm_90: grid (-(B > 0)*(ceil_div(B, argument 13)*max(1,
//   S)*argument 13 <= B*(max(1, S) + 8)) + 1)*ceil_div(D, max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors),
//   min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B, 1)) + 2, 8)))), 128))), 1,
//   1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift, grad_scale, grad_bias,
//   grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B),
//   (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D, 16384))) +
//   2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D, min(max(1, ((10*gpu.multiprocessors)
//   // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) // 8)))), max(1, min(D,
//   8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(max(1, ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1,
//   ((10*gpu.multiprocessors) // 11) // 8)))) // max(B, 1)) + 2, 8)))), 128)), 512 // max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((min(max(1,
//   ((10*gpu.multiprocessors) // 11) // 8), max(1, (B*S) // 4, min(B*S, max(1, ((10*gpu.multiprocessors) // 11) //
//   8)))) // max(B, 1)) + 2, 8)))), 128)); if D < 2146435072, B*max(1, S) < 2146435072, aligned(grad_y, 16), aligned(x,
//   16), aligned(grad_x, 16), D <= 131072
// launch: segment 0, scratch_scalar_int64 2 of 2 on sm_90: grid ceil_div(D, max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1, B*ceil_div((argument 13 // max(B,
//   1)) + 2, 8)))), 128))), 1, 1; block 512, 1, 1; overlaps what is before; given weight, bias, scale, grad_shift,
//   grad_scale, grad_bias, grad_weight, slot 0 of max(4*(min(max(1, B*S)*D, gpu.multiprocessors*max(D, min(8*D,
//   16384))) + 2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512)) > 1)*max(1,
//   min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, slot 1 of max(4*(min(max(1, B*S)*D,
//   gpu.multiprocessors*max(D, min(8*D, 16384))) + 2*B*D), 4*(max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D)
//   // 512)) > 1)*max(1, min((16*gpu.multiprocessors) // max(1, B), (S*D) // 512))*B*D) bytes, B, S, D,
//   min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))), max(1, min(D, 8*max(ceil_div(D,
//   16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64 // max(1,
//   B*ceil_div((min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) + 2, 8)))),
//   128)), 512 // max(1, min(D, 8*max(ceil_div(D, 16*gpu.multiprocessors), min(max(1, D // (8*gpu.multiprocessors)), 64
//   // max(1, B*ceil_div((min(gpu.multiprocessors, max(1, (B*S) // 4, min(B*S, gpu.multiprocessors))) // max(B, 1)) +
//   2, 8)))), 128))
#include <fusebuild/kernel.cuh>

using Index = int64_t;
constexpr int kThreads = 512;
constexpr int kTogether = 4;  // partial results that a thread loads or leaves out without a branch

FUSEBUILD_KERNEL(kThreads, 2)
reduction_finish_a794d917c1a1cb31(
    const __nv_bfloat16* T0,  // weight: bfloat16[D]
    const __nv_bfloat16* T1,  // bias: bfloat16[D]
    const __nv_bfloat16* T2,  // scale: bfloat16[B, 1, D]
    __nv_bfloat16* __restrict__ T20,  // grad_shift: bfloat16[B, D]
    __nv_bfloat16* __restrict__ T28,  // grad_scale: bfloat16[B, D]
    __nv_bfloat16* __restrict__ T52,  // grad_bias: bfloat16[D]
    __nv_bfloat16* __restrict__ T53,  // grad_weight: bfloat16[D]
    const float* P18,  // partial results of grad_sum
    const float* P19,  // partial results of normed_sum
    int64_t n0,  // B
    int64_t n1,  // S
    int64_t n2,  // D
    int64_t parts,  // blocks that left partial results
    int64_t block_width,  // results per block
    int64_t block_height) {  // threads of each, at most
  constexpr int kAhead = 8;  // partial results that a thread loads before it combines the first
  const int64_t results = n2;
  const int64_t splits = fb::partition(n0, n1, parts).most_parts;
  const int width = block_width;
  const int most = block_height;  // threads of a column
  const int indices = n0 >= most ? most : fb::largest(1, int(n0));  // outer indices at a time
  int height = 1;  // threads that share one
  if (splits > kAhead) {
    const int each = most / indices;
    height = splits >= each * kAhead ? each : (int(splits) + kAhead - 1) / kAhead;
  }
  const fb::Place place = fb::place_of<kThreads>(width);
  const int x = place.x, y = place.y;
  const Index kept = Index(fb::block_x()) * width + x;
  const int number = y % indices, part = y / indices;  // of its outer index, and of its partial results
  fb::wait_for_previous_kernel(kept | splits | height | number | part);  // it may still be writing partial results

  float a30 = fb::Sum::identity<float>();
  float a32 = fb::Sum::identity<float>();
  if (height == 1) {  // none waits for others
    constexpr int height = 1, part = 0;
    constexpr bool is_first = true;
    const int64_t stride = height * n0 * results;  // from one partial result of a thread to its next
    for (int64_t outer = y; y < indices && outer < n0 && kept < results; outer += indices) {
      const __nv_bfloat16 t0 = is_first ? T0[kept] : __nv_bfloat16{};  // weight
      const __nv_bfloat16 t1 = is_first ? T1[kept] : __nv_bfloat16{};  // bias
      const __nv_bfloat16 t2 = is_first ? T2[outer * n2 + kept] : __nv_bfloat16{};  // scale
      float a18 = fb::Sum::identity<float>();
      float a19 = fb::Sum::identity<float>();
      {
        const int apart = height;
        int64_t first = part;
        const auto* q18 = P18 + ((first * n0 + outer) * results + kept);
        const auto* q19 = P19 + ((first * n0 + outer) * results + kept);
        for (; first < splits; first += kAhead * apart) {
          const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
          float p18[kAhead];
          float p19[kAhead];
          FUSEBUILD_UNROLL
          for (int u = 0; u < kAhead; ++u) {
            const bool is_there = u * apart < left;
            if (u % kTogether == 0 && !is_there) break;
            fb::forget_origin(q18);  // or compilers find each address from the first one
            fb::forget_origin(q19);
            if (is_there) {
              p18[u] = *q18;
              p19[u] = *q19;
            }
            q18 += stride;
            q19 += stride;
          }
          FUSEBUILD_UNROLL
          for (int u = 0; u < kAhead; ++u) {
            const bool is_there = u * apart < left;
            if (u % kTogether == 0 && !is_there) break;
            a18 = fb::Sum::combine(a18, is_there ? p18[u] : fb::Sum::identity<float>());
            a19 = fb::Sum::combine(a19, is_there ? p19[u] : fb::Sum::identity<float>());
          }
        }
      }
      if (is_first) {
        const float t18 = a18;  // grad_sum, adaln_backward.yaml:24
        const float t19 = a19;  // normed_sum, adaln_backward.yaml:25
        const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
        const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
        const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
        const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
        const __nv_bfloat16 t20 = fb::cast<__nv_bfloat16>(t18);  // grad_shift, adaln_backward.yaml:26
        const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
        const float t23 = t21 * t19;  // adaln_backward.yaml:27
        const float t24 = fb::cast<float>(t1);  // adaln_backward.yaml:27
        const float t26 = t24 * t18;  // adaln_backward.yaml:27
        const float t27 = t23 + t26;  // adaln_backward.yaml:27
        const __nv_bfloat16 t28 = fb::cast<__nv_bfloat16>(t27);  // grad_scale, adaln_backward.yaml:27
        T20[outer * n2 + kept] = t20;
        T28[outer * n2 + kept] = t28;
        a30 = fb::Sum::combine(a30, t15 * a18);
        a32 = fb::Sum::combine(a32, t15 * a19);
      }
    }
  } else {
    const int64_t stride = height * n0 * results;
    for (int64_t begin = 0; begin < n0; begin += indices) {
      const int64_t outer = begin + number;
      const bool is_own = outer < n0 && kept < results, is_first = is_own && part == 0;
      const __nv_bfloat16 t0 = is_first ? T0[kept] : __nv_bfloat16{};  // weight
      const __nv_bfloat16 t1 = is_first ? T1[kept] : __nv_bfloat16{};  // bias
      const __nv_bfloat16 t2 = is_first ? T2[outer * n2 + kept] : __nv_bfloat16{};  // scale
      float a18 = fb::Sum::identity<float>();
      float a19 = fb::Sum::identity<float>();
      if (is_own && part < height) {
        const int apart = height;
        int64_t first = part;
        const auto* q18 = P18 + ((first * n0 + outer) * results + kept);
        const auto* q19 = P19 + ((first * n0 + outer) * results + kept);
        for (; first < splits; first += kAhead * apart) {
          const int left = splits - first < kAhead * apart ? int(splits - first) : kAhead * apart;
          float p18[kAhead];
          float p19[kAhead];
          FUSEBUILD_UNROLL
          for (int u = 0; u < kAhead; ++u) {
            const bool is_there = u * apart < left;
            if (u % kTogether == 0 && !is_there) break;
            fb::forget_origin(q18);  // or compilers find each address from the first one
            fb::forget_origin(q19);
            if (is_there) {
              p18[u] = *q18;
              p19[u] = *q19;
            }
            q18 += stride;
            q19 += stride;
          }
          FUSEBUILD_UNROLL
          for (int u = 0; u < kAhead; ++u) {
            const bool is_there = u * apart < left;
            if (u % kTogether == 0 && !is_there) break;
            a18 = fb::Sum::combine(a18, is_there ? p18[u] : fb::Sum::identity<float>());
            a19 = fb::Sum::combine(a19, is_there ? p19[u] : fb::Sum::identity<float>());
          }
        }
      }
      fb::reduce_columns_of<kThreads>(number * width + x, part, indices * width, height, fb::accumulator<fb::Sum>(a18),
          fb::accumulator<fb::Sum>(a19));
      if (is_first) {
        const float t18 = a18;  // grad_sum, adaln_backward.yaml:24
        const float t19 = a19;  // normed_sum, adaln_backward.yaml:25
        const float t11 = fb::cast<float>(t2);  // adaln_backward.yaml:19
        const float t13 = 1.0f + t11;  // adaln_backward.yaml:19
        const __nv_bfloat16 t14 = fb::cast<__nv_bfloat16>(t13);  // adaln_backward.yaml:19
        const float t15 = fb::cast<float>(t14);  // one_plus_scale, adaln_backward.yaml:19
        const __nv_bfloat16 t20 = fb::cast<__nv_bfloat16>(t18);  // grad_shift, adaln_backward.yaml:26
        const float t21 = fb::cast<float>(t0);  // adaln_backward.yaml:27
        const float t23 = t21 * t19;  // adaln_backward.yaml:27
        const float t24 = fb::cast<float>(t1);  // adaln_backward.yaml:27
        const float t26 = t24 * t18;  // adaln_backward.yaml:27
        const float t27 = t23 + t26;  // adaln_backward.yaml:27
        const __nv_bfloat16 t28 = fb::cast<__nv_bfloat16>(t27);  // grad_scale, adaln_backward.yaml:27
        T20[outer * n2 + kept] = t20;
        T28[outer * n2 + kept] = t28;
        a30 = fb::Sum::combine(a30, t15 * a18);
        a32 = fb::Sum::combine(a32, t15 * a19);
      }
    }
  }
  fb::reduce_columns_of<kThreads>(x, y, width, indices, fb::accumulator<fb::Sum>(a30), fb::accumulator<fb::Sum>(a32));
  if (y != 0 || kept >= results) return;
  const float t30 = a30;  // grad_bias, adaln_backward.yaml:30
  const float t32 = a32;  // grad_weight, adaln_backward.yaml:31
  const __nv_bfloat16 t52 = fb::cast<__nv_bfloat16>(t30);  // adaln_backward.yaml:43
  const __nv_bfloat16 t53 = fb::cast<__nv_bfloat16>(t32);  // adaln_backward.yaml:44
  T52[kept] = t52;
  T53[kept] = t53;
}

FUSEBUILD_ENTRY(reduction_finish_a794d917c1a1cb31)
