// resident_rows.yaml, segment 0: inner_persistent, variant resident8_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 11: 10, 16: 9, 24: 16, 26: 18}
// schedule: counters=32
// launch: segment 0, resident8_vec8_int32 1 of 2 on sm_90: grid 1, 1, 1; block 32, 1, 1; overlaps what is before; given
//   slot 0 of max(128, 4*max(1, min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1,
//   M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192))*M) bytes; if N < 2146435072, (N % 8) ==
//   0, aligned(x, 16), aligned(residual, 16), aligned(z, 16), aligned(weight, 16), aligned(bias, 16), aligned(normed,
//   16), aligned(gated, 16), 262144 <= 6*N, N <= 65536
// launch: segment 0, edged8192_vec8_int32 1 of 2 on sm_90: grid 1, 1, 1; block 32, 1, 1; overlaps what is before; given
//   slot 0 of max(128, 4*max(1, min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1,
//   M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192))*M) bytes; if N < 2146435072, aligned(x,
//   16), aligned(residual, 16), aligned(z, 16), aligned(normed, 16), aligned(gated, 16), 512 < (N + 384*(M <= 16384)),
//   aligned(weight, 16), aligned(bias, 16), ((M <= 24) + 2*(M <= 12) + 1)*N <= 8207
// launch: segment 0, edged32768_vec8_int32 1 of 2 on sm_90: grid 1, 1, 1; block 32, 1, 1; overlaps what is before;
//   given slot 0 of max(128, 4*max(1, min(max((3*gpu.multiprocessors) // max(1, M), ((8*gpu.multiprocessors) // max(1,
//   M))*(((8*gpu.multiprocessors) // max(1, M)) <= (N // 32768))), N // 8192))*M) bytes; if N < 2146435072, aligned(x,
//   16), aligned(residual, 16), aligned(z, 16), aligned(normed, 16), aligned(gated, 16), 512 < (N + 384*(M <= 16384)),
//   aligned(weight, 16), aligned(bias, 16), N <= 32783
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kCounters = 32;  // each is a thread's

FUSEBUILD_KERNEL(kCounters, 1)
ticket_counters_c42aa1488a55255e(
    int32_t* __restrict__ counters) {  // which begin with 0
  fb::let_next_kernel_start();  // it waits for the end of this one
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  counters[fb::block_x() * kCounters + fb::thread_x()] = 0;
}

FUSEBUILD_ENTRY(ticket_counters_c42aa1488a55255e)
