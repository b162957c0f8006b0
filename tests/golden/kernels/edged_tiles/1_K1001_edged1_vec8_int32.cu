// edged_tiles.yaml, segment 1: inner_persistent, variant K1001_edged1_vec8_int32
// segment fids to original fids: {0: 6, 1: 7, 2: 8, 22: 33, 28: 40, 33: 48, 34: 50}
// schedule: threads.per_row=32 threads.rows=1 cluster=1 chunks=4 walkers=0 multiprocessors=132 places=1 cached=[0]
//   resident=[] ahead=False has_edges=True room=2 most_threads=0
// launch: segment 1, K1001_edged1_vec8_int32 on sm_90: grid B*R, 1, 1; block 32, 1, 1; overlaps what is before; given
//   z, group, labels, best, chosen, far, soft, R; if K == 1001, K < 2146435072, aligned(z, 16), aligned(far, 16),
//   aligned(soft, 16), 512 < (K + 384*(B*R <= 16384)), aligned(group, 16), K <= 1047
#include <fusebuild/kernel.cuh>

using Index = int32_t;

namespace lambdas {

struct builtin_argmax_float {
  struct State {
    float v0;  // value
    int64_t v1;  // index
  };
  static FUSEBUILD_DEVICE State combine(const State& a, const State& b) {
    const bool s4 = a.v0 > b.v0;
    const bool s5 = a.v0 == b.v0;
    const bool s6 = fb::isnan(a.v0);
    const bool s7 = fb::isnan(b.v0);
    const bool s8 = !s7;
    const bool s9 = s6 && s8;
    const bool s10 = s4 || s9;
    const bool s11 = s6 && s7;
    const bool s12 = s5 || s11;
    const bool s13 = a.v1 < b.v1;
    const bool s14 = s12 && s13;
    const bool s15 = s10 || s14;  // keep
    const float s16 = fb::where(s15, a.v0, b.v0);  // value
    const int64_t s17 = fb::where(s15, a.v1, b.v1);  // index
    return {s16, s17};
  }
};

}  // namespace lambdas

constexpr int kThreadsPerRow = 32;
constexpr int kVec = 8;  // neighbouring elements per access
constexpr int kChunks = 4;  // vectors of a row that a thread holds
constexpr int kStep = kThreadsPerRow * kVec;  // columns from one of them to the next

FUSEBUILD_KERNEL(kThreadsPerRow, 20)
inner_resident_5339bac8dbc04727(
    const __nv_bfloat16* T0,  // z: bfloat16[B, R, K]
    const float* T1,  // group: float[B, 1, K]
    const int64_t* T2,  // labels: int64[B, R, 1]
    int64_t* __restrict__ T22,  // best: int64[B, R, 1]
    float* __restrict__ T28,  // chosen: float[B, R, 1]
    float* __restrict__ T33,  // far: float[B, R, K]
    __nv_bfloat16* __restrict__ T34,  // soft: bfloat16[B, R, K]
    int64_t n1) {  // R
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  constexpr int64_t n2 = 1001;  // K
  fb::ReducePhase phase;
  const Index columns = n2;
  const int thread = fb::thread_x();
  const int64_t row = fb::block_x();
  const fb::RoomyEdges<kVec, Index, 2> edges(row * columns, columns);
  const Index start = edges.before + thread * kVec;  // of the thread's first vector
  const bool has_edge = thread < edges.count;  // an element beside the row's vectors is the thread's
  const Index edge = edges.column(thread);
  fb::Packed<__nv_bfloat16, kVec> c0[kChunks];
  __nv_bfloat16 e0{};

  const __nv_bfloat16* row0 = T0 + row * n2;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    c0[c] = fb::load_packed<kVec>(row0 + start + c * kStep);
  }
  if (has_edge) {
    e0 = row0[edge];
  }
  // All else is found while the row is on its way.
  const int64_t i0 = row / n1;
  const int64_t t2 = T2[row];  // labels
  const __nv_bfloat16* r0 = T0 + row * n2;
  const float* r1 = T1 + i0 * n2;
  float* r33 = T33 + row * n2;
  __nv_bfloat16* r34 = T34 + row * n2;

  float e1{};
  if (has_edge) {
    e1 = r1[edge];
  }
  constexpr int kAhead = 2;  // vectors that the thread has before the last sweep
  fb::AlignedWords<float, kVec> w1[kAhead];
  fb::Packed<float, kVec> p1[kAhead];
  FUSEBUILD_UNROLL
  for (int c = 0; c < kAhead; ++c) {
    if (start + c * kStep >= edges.end()) break;
    w1[c] = fb::load_aligned_words<kVec>(r1 + start + c * kStep, fb::beyond_word<kVec>(r1 + start));
  }
  FUSEBUILD_UNROLL
  for (int c = 0; c < kAhead; ++c) {
    if (start + c * kStep >= edges.end()) break;
    p1[c] = fb::pack(fb::cut(w1[c], fb::beyond_word<kVec>(r1 + start)));
  }

  fb::ExpSum<float>::State a7 = {float(-INFINITY), 0.0f};
  float a27 = fb::Sum::identity<float>();
  fb::FirstBest<fb::Max, float, 1, Index> w20;
  const bool has27 = thread == 0 && t2 >= 0 && t2 < columns;
  const Index at27 = has27 ? t2 : 0;
  const __nv_bfloat16 q27_0 = has27 ? r0[at27] : fb::cast<__nv_bfloat16>(0.0f);
  const float q27_1 = has27 ? r1[at27] : 0.0f;
  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = fb::load_cut<kVec>(r1 + start + c * kStep, fb::beyond_word<kVec>(r1 + start));
    fb::Vec<float, kVec> e7;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t1 = v1[k];
      const float t3 = fb::cast<float>(t0) + t1;  // wide, edged_tiles.yaml:22
      w20.add(fb::Vec<float, 1>{t3}, col + k);
      e7[k] = t3;
    }
    fb::add_exponentials(a7, e7);
  }
  auto a20 = w20.state<lambdas::builtin_argmax_float::State>({float(-INFINITY), int64_t(9223372036854775807LL)});
  if (has27) {
    const __nv_bfloat16 t0 = q27_0;  // z
    const float t1 = q27_1;  // group
    const float t3 = fb::cast<float>(t0) + t1;  // wide, edged_tiles.yaml:22
    a27 = fb::Sum::combine(a27, t3);
  }
  if (has_edge) {
    const __nv_bfloat16 t0 = e0;
    const float t1 = e1;
    const float t3 = fb::cast<float>(t0) + t1;  // wide, edged_tiles.yaml:22
    const int64_t t17 = int64_t(edge);  // best_indices, edged_tiles.yaml:24
    a7 = fb::ExpSum<float>::combine(a7, {t3, 1.0f});
    a20 = lambdas::builtin_argmax_float::combine(a20, {t3, t17});
  }
  fb::reduce_row<kThreadsPerRow, 1>(phase, fb::accumulator<fb::ExpSum<float>>(a7),
      fb::accumulator<lambdas::builtin_argmax_float>(a20), fb::accumulator<fb::Sum>(a27));
  const float t7 = a7.v0;  // total_max_reduced, edged_tiles.yaml:23
  const float t8 = a7.v1;  // total_sum_reduced, edged_tiles.yaml:23
  const int64_t t21 = a20.v1;  // best_reduced, edged_tiles.yaml:24
  const float t27 = a27;  // chosen_sum, edged_tiles.yaml:25
  const bool t11 = fb::isinf(t7);  // edged_tiles.yaml:23
  const float t12 = fb::where(t11, 0.0f, t7);  // edged_tiles.yaml:23
  const float t13 = fb::log(t8);  // edged_tiles.yaml:23
  const float t14 = t13 + t12;  // total, edged_tiles.yaml:23

  FUSEBUILD_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const Index col = start + c * kStep;
    if (col >= edges.end()) break;
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(c0[c]);
    const fb::Vec<float, kVec> v1 = c < kAhead
        ? fb::unpack(p1[c % kAhead])
        : fb::load_cut<kVec>(r1 + start + c * kStep, fb::beyond_word<kVec>(r1 + start));
    fb::Vec<float, kVec> o33;
    fb::Vec<__nv_bfloat16, kVec> o34;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const __nv_bfloat16 t0 = v0[k];
      const float t1 = v1[k];
      const float t3 = fb::cast<float>(t0) + t1;  // wide, edged_tiles.yaml:22
      const int64_t t23 = int64_t(col + k);  // edged_tiles.yaml:25
      const float t29 = t3 - t14;  // edged_tiles.yaml:26
      const float t30 = fb::exp_of_negative(t29);  // soft, edged_tiles.yaml:26
      const bool t31 = t23 != t21;  // edged_tiles.yaml:27
      const float t32 = fb::cast<float>(t31);  // edged_tiles.yaml:27
      const float t33 = t30 * t32;  // far, edged_tiles.yaml:27
      const __nv_bfloat16 t34 = fb::cast<__nv_bfloat16>(t30);  // edged_tiles.yaml:31
      o33[k] = t33;
      o34[k] = t34;
    }
    fb::store(r33 + start + c * kStep, o33);
    fb::store(r34 + start + c * kStep, o34);
  }
  if (has_edge) {
    const __nv_bfloat16 t0 = e0;
    const float t1 = e1;
    const float t3 = fb::cast<float>(t0) + t1;  // wide, edged_tiles.yaml:22
    const int64_t t23 = int64_t(edge);  // edged_tiles.yaml:25
    const float t29 = t3 - t14;  // edged_tiles.yaml:26
    const float t30 = fb::exp_of_negative(t29);  // soft, edged_tiles.yaml:26
    const bool t31 = t23 != t21;  // edged_tiles.yaml:27
    const float t32 = fb::cast<float>(t31);  // edged_tiles.yaml:27
    const float t33 = t30 * t32;  // far, edged_tiles.yaml:27
    const __nv_bfloat16 t34 = fb::cast<__nv_bfloat16>(t30);  // edged_tiles.yaml:31
    r33[edge] = t33;
    r34[edge] = t34;
  }

  if (thread == 0) {
    T22[row] = t21;
    T28[row] = t27;
  }
}

FUSEBUILD_ENTRY(inner_resident_5339bac8dbc04727)
