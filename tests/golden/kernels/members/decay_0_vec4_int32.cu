// test.yaml, segment 0: pointwise, variant vec4_int32
// segment fids to original fids: {0: 0, 1: 3, 3: 5}
// schedule: threads=128 unroll=1 min_blocks=16
// launch: segment 0, vec4_int32 on sm_90: grid ceil_div((M // 4) + (M % 4), 128), 1, 1; block 128, 1, 1; one of 3 side
//   by side; overlaps what is before; given x0, y0, rate, M; if M < 2146435072, aligned(x0, 16), aligned(y0, 16)
// launch: segment 1, vec4_int32 on sm_90: grid ceil_div(((N*K) // 4) + ((N*K) % 4), 128), 1, 1; block 128, 1, 1; one of
//   3 side by side; overlaps what is before; given x1, y1, rate, N*K; if N*K < 2146435072, aligned(x1, 16), aligned(y1,
//   16)
// launch: segment 2, vec4_int32 on sm_90: grid 1, 1, 1; block 128, 1, 1; one of 3 side by side; overlaps what is
//   before; given x2, y2, rate, 7; if aligned(x2, 16), aligned(y2, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 128;
constexpr int kVec = 4;  // neighbouring elements per access
constexpr int kUnroll = 1;  // accesses in flight per thread and tensor

FUSEBUILD_MEMBER(kThreads, 16)
pointwise_f0ee19271b11b0db_member(fb::Member member,
    const float* T0,  // x0: float[elements]
    float* T3,  // y0: float[elements]
    float s1,  // rate
    int64_t n0) {  // elements
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  const Index total = n0;
  const Index vectors = total / kVec;  // and one for each element beside them
  const Index first = Index(member.block) * (kUnroll * kThreads) + fb::thread_x();

  fb::AllOrOne<float, kVec> p0[kUnroll];
  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index own = first + u * kThreads;
    if (own >= vectors + total % kVec) break;
    const Index i = (own < vectors ? own : vectors) * kVec;
    const int alone = own < vectors ? -1 : static_cast<int>(own - vectors);
    p0[u] = fb::load_all_or_one<kVec>(T0 + i, alone);
  }

  FUSEBUILD_UNROLL
  for (int u = 0; u < kUnroll; ++u) {
    const Index own = first + u * kThreads;
    if (own >= vectors + total % kVec) break;
    const Index i = (own < vectors ? own : vectors) * kVec;
    const int alone = own < vectors ? -1 : static_cast<int>(own - vectors);
    const fb::Vec<float, kVec> v0 = fb::unpack(p0[u], alone);
    fb::Vec<float, kVec> v3;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t0 = v0[k];
      const float t2 = t0 * s1;  // test.yaml:9
      const float t3 = t0 - t2;  // y0, test.yaml:9
      v3[k] = t3;
    }
    fb::store_all_or_one(T3 + i, v3, alone);
  }
}

FUSEBUILD_MEMBERS_ENTRY(pointwise_f0ee19271b11b0db, 3)
