// resident_rows.yaml, segment 0: inner_persistent, variant resident8_vec8_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 11: 10, 16: 9, 24: 16, 26: 18}
// schedule: counters=32
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kCounters = 32;  // each is a thread's

FUSEBUILD_KERNEL(kCounters, 1)
ticket_counters_4a6f761ca6abf9f6(
    int32_t* __restrict__ counters) {  // of tickets
  fb::let_next_kernel_start();  // it waits for the end of this one
  counters[fb::thread_x()] = 0;
}

FUSEBUILD_ENTRY(ticket_counters_4a6f761ca6abf9f6)
