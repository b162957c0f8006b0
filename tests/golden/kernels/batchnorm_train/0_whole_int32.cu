// batchnorm_train.yaml, segment 0: outer_persistent, variant whole_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 26: 20, 32: 26, 33: 27}
// schedule: threads=512 elements=32768
// launch: segment 0, whole_int32 on sm_90: grid ceil_div(C, argument 14*max(1, min(max(1, min(max(8*(((min(32768 //
//   max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) // 8), min((min(32768 //
//   max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)), 512)), (24*(1048576 <
//   R*C) + 8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1,
//   min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) //
//   8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)),
//   512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1, C))), 24*(1048576 <
//   R*C) + 8))) + (1 - argument 14)*max(1, min(max(8*((((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1) // 8),
//   min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512, 8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors),
//   min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1, C))), 8)))), 1, 1; block 512, 1, 1; shared
//   16*R*((argument 14*max(1, min(max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8))
//   + 1))) - 14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) +
//   1))) - 14*(0 < (C % 8))) // 1, 8)), 512)), (24*(1048576 < R*C) + 8)*ceil_div(max(ceil_div(C,
//   2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min(max(8*(((min(32768 // max(1, R), 8*(512
//   // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)), 512))))), min(ceil_div(8*(1048576 < R*C) +
//   48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1, C))), 24*(1048576 < R*C) + 8))) + (1 - argument 14)*max(1,
//   min(max(8*((((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1) // 8), min(((32768 // max(1, R)) - 14*(0 < (C % 8))) //
//   1, 8)), 512, 8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16,
//   1), max(1, C))), 8))) + 7*(0 < (((argument 14*max(1, min(max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)), 512)), (24*(1048576 < R*C) +
//   8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1,
//   min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) //
//   8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)),
//   512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1, C))), 24*(1048576 <
//   R*C) + 8))) + (1 - argument 14)*max(1, min(max(8*((((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1) // 8),
//   min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512, 8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors),
//   min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1, C))), 8)))) % 8) + (C % 8))) + 7) // 8) +
//   20480*argument 14 bytes; overlaps what is before; given x, weight, bias, running_mean, running_var, mean, rstd,
//   new_mean, new_var, y, R, R, C, max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 < R*C)*max((0 < (C
//   % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832))), max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024),
//   (2097152 < R*C)*max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832)))*max(1, min(max(1,
//   min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) //
//   8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)),
//   512)), (24*(1048576 < R*C) + 8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C,
//   2*gpu.multiprocessors*max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) -
//   14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0
//   < (C % 8))) // 1, 8)), 512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1,
//   C))), 24*(1048576 < R*C) + 8))) + (1 - max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 <
//   R*C)*max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832))))*max(1, min(max(8*((((32768 // max(1, R)) -
//   14*(0 < (C % 8))) // 1) // 8), min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512,
//   8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1,
//   C))), 8))), (max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 < R*C)*max((0 < (C % 8))*(R >=
//   120)*(R <= 832), (R >= 768)*(R <= 832)))*max(1, min(max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)), 512)), (24*(1048576 < R*C) +
//   8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1,
//   min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) //
//   8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)),
//   512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1, C))), 24*(1048576 <
//   R*C) + 8))) + (1 - max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 < R*C)*max((0 < (C % 8))*(R >=
//   120)*(R <= 832), (R >= 768)*(R <= 832))))*max(1, min(max(8*((((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1) // 8),
//   min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512, 8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors),
//   min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1, C))), 8))) + 7*(0 < (((max((262144 < R*C)*(0 < (C %
//   8))*(R >= 384)*(R <= 1024), (2097152 < R*C)*max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832)))*max(1,
//   min(max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8)))
//   // 1) // 8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1,
//   8)), 512)), (24*(1048576 < R*C) + 8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C,
//   2*gpu.multiprocessors*max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) -
//   14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0
//   < (C % 8))) // 1, 8)), 512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1,
//   C))), 24*(1048576 < R*C) + 8))) + (1 - max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 <
//   R*C)*max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832))))*max(1, min(max(8*((((32768 // max(1, R)) -
//   14*(0 < (C % 8))) // 1) // 8), min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512,
//   8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1,
//   C))), 8)))) % 8) + (C % 8))) + 7) // 8, 4294967295 // max((max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024),
//   (2097152 < R*C)*max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832)))*max(1, min(max(1,
//   min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) //
//   8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)),
//   512)), (24*(1048576 < R*C) + 8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C,
//   2*gpu.multiprocessors*max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) -
//   14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0
//   < (C % 8))) // 1, 8)), 512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1,
//   C))), 24*(1048576 < R*C) + 8))) + (1 - max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 <
//   R*C)*max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832))))*max(1, min(max(8*((((32768 // max(1, R)) -
//   14*(0 < (C % 8))) // 1) // 8), min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512,
//   8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1,
//   C))), 8))) + 7*(0 < (((max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 < R*C)*max((0 < (C %
//   8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832)))*max(1, min(max(1, min(max(8*(((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) // 8), min((min(32768 // max(1, R), 8*(512 //
//   min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)), 512)), (24*(1048576 < R*C) +
//   8)*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1,
//   min(max(8*(((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1) //
//   8), min((min(32768 // max(1, R), 8*(512 // min(max(1, R), 7*(0 < (C % 8)) + 1))) - 14*(0 < (C % 8))) // 1, 8)),
//   512))))), min(ceil_div(8*(1048576 < R*C) + 48*(1048576 < R*C)*(0 < (C % 8)) + 8, 1), max(1, C))), 24*(1048576 <
//   R*C) + 8))) + (1 - max((262144 < R*C)*(0 < (C % 8))*(R >= 384)*(R <= 1024), (2097152 < R*C)*max((0 < (C % 8))*(R >=
//   120)*(R <= 832), (R >= 768)*(R <= 832))))*max(1, min(max(8*((((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1) // 8),
//   min(((32768 // max(1, R)) - 14*(0 < (C % 8))) // 1, 8)), 512, 8*ceil_div(max(ceil_div(C, 2*gpu.multiprocessors),
//   min(ceil_div(48*(1048576 < R*C)*(0 < (C % 8)) + 16, 1), max(1, C))), 8)))) % 8) + (C % 8))) + 7) // 8, 1); if R*C <
//   2146435072, 0 < R, 8*R*((48*(1048576 < R*C)*(0 < (C % 8)) + 7*(0 < (C % 8)) + 23) // 8) <= (24576*(262144 < R*C) +
//   8192), max((2097152 < R*C)*R <= 8, max((0 < (C % 8))*(R >= 120)*(R <= 832), (R >= 768)*(R <= 832))*(1 - (33554432 <
//   R*C))), aligned(x, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 512;
constexpr int kVec = 8;  // neighbouring elements per access

FUSEBUILD_KERNEL(kThreads, 2)
outer_persistent_f1a63f172da2627d(
    const __nv_bfloat16* T0,  // x: bfloat16[R, C]
    const float* T1,  // weight: float[C]
    const float* T2,  // bias: float[C]
    const float* T3,  // running_mean: float[C]
    const float* T4,  // running_var: float[C]
    float* T6,  // mean: float[C]
    float* T14,  // rstd: float[C]
    float* T26,  // new_mean: float[C]
    float* T32,  // new_var: float[C]
    __nv_bfloat16* T33,  // y: bfloat16[R, C]
    int64_t s9,  // R
    int64_t n0,  // R
    int64_t n1,  // C
    int64_t adds_columns,  // 1 where columns are added up first
    int64_t block_channels,  // channels of a block, neighbours in memory
    int64_t run_vectors,  // around its elements of one outer index
    int64_t run_reciprocal) {  // reciprocal of run_vectors
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  constexpr int threads = kThreads;
  const Index outer = n0, channels = n1;
  const Index inner = 1;  // elements of a channel that are neighbours in memory
  const Index first = Index(fb::block_x()) * Index(block_channels);
  const Index own = fb::smaller(int(block_channels), channels - first);  // channels of the block
  const fb::Runs<kVec> runs{first * inner, own * inner, channels * inner, int(run_vectors), run_reciprocal};
  const Index vectors = outer * Index(run_vectors), total = outer * runs.period;
  __nv_bfloat16* tile0 = fb::dynamic_shared<__nv_bfloat16>();
  FUSEBUILD_SHARED(float, of_channel1, fb::place_of_channel<kVec>(kThreads + kVec));
  FUSEBUILD_SHARED(float, of_channel2, fb::place_of_channel<kVec>(kThreads + kVec));
  FUSEBUILD_SHARED(float, of_channel6, fb::place_of_channel<kVec>(kThreads + kVec));
  FUSEBUILD_SHARED(float, of_channel14, fb::place_of_channel<kVec>(kThreads + kVec));

  if (adds_columns) {
    const fb::Columns<kVec, kThreads> columns(runs, outer);
    const Index step = columns.height * Index(run_vectors);
    float* places6 = fb::dynamic_shared<float>();
    float* center6 = places6 + kThreads * kVec;
    __nv_bfloat16* tile0 = reinterpret_cast<__nv_bfloat16*>(center6 + 2 * kThreads);
    for (Index run = columns.row, vector = fb::thread_x(); run < outer; run += columns.height, vector += step) {
      const fb::Runs<kVec>::Place place{columns.at(run), columns.column};
      fb::copy_up_to<kVec>(reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(tile0 + vector * kVec), T0 + place.at,
          total - place.at);
    }
    fb::end_copies();
    const int shift = fb::sharing<kThreads>(own, columns.parts());  // 2 to it threads share a channel
    const int width = 1 << shift;
    const bool active = (fb::thread_x() >> shift) < own;  // spare threads have nothing to combine
    const Index lane = fb::thread_x() & (width - 1);
    const Index slot = active ? fb::thread_x() >> shift : own - 1, channel = first + slot;
    const float t1 = fb::unpack(fb::load_packed_ahead<1>(T1 + channel))[0];  // weight
    const float t2 = fb::unpack(fb::load_packed_ahead<1>(T2 + channel))[0];  // bias
    const float t3 = fb::unpack(fb::load_packed_ahead<1>(T3 + channel))[0];  // running_mean
    const float t4 = fb::unpack(fb::load_packed_ahead<1>(T4 + channel))[0];  // running_var
    fb::wait_copies<0>();  // of what the thread has copied itself
    fb::AroundMean<float> around6;
    fb::ColumnMoments<float, kVec> moments6;
    for (Index run = columns.row, vector = fb::thread_x(); run < outer; run += columns.height, vector += step) {
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      fb::Vec<float, kVec> e6;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        e6[k] = t5;
      }
      moments6.gather(e6);
    }
    columns.meet_sums(places6, moments6, slot, lane, width, around6);
    fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Sum>(around6.sum), fb::accumulator<fb::Sum>(around6.sizes));
    around6.settle(outer * inner);
    if (active && lane == 0) center6[fb::place_of_channel<kVec>(slot)] = around6.mean;
    fb::sync_block();
    moments6.center = columns.of(center6);
    for (Index run = columns.row, vector = fb::thread_x(); run < outer; run += columns.height, vector += step) {
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      fb::Vec<float, kVec> e6;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        e6[k] = t5;
      }
      moments6.add(e6);
    }
    columns.meet_squares(places6, moments6, slot, lane, width, around6);
    fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Sum>(around6.beside),
        fb::accumulator<fb::Sum>(around6.squares));
    const auto a6 = around6.state(outer * inner);
    if (active && lane == 0) {
      const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train.yaml:16
      const float t7 = a6.v1;  // m2, batchnorm_train.yaml:16
      const int64_t t10 = s9;  // count, batchnorm_train.yaml:16
      const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train.yaml:17
      const float t13 = t11 + 1e-05f;  // batchnorm_train.yaml:17
      const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train.yaml:17
      const float t23 = t6 - t3;  // batchnorm_train.yaml:19
      const float t25 = 0.1f * t23;  // batchnorm_train.yaml:19
      const float t26 = t3 + t25;  // new_mean, batchnorm_train.yaml:19
      const int64_t t28 = fb::sub(t10, int64_t(1));  // batchnorm_train.yaml:20
      const float t29 = t7 / fb::cast<float>(t28);  // batchnorm_train.yaml:20
      const float t30 = t29 - t4;  // batchnorm_train.yaml:20
      const float t31 = 0.1f * t30;  // batchnorm_train.yaml:20
      const float t32 = t4 + t31;  // new_var, batchnorm_train.yaml:20
      T6[channel] = t6;
      T14[channel] = t14;
      T26[channel] = t26;
      T32[channel] = t32;
      of_channel1[fb::place_of_channel<kVec>(slot)] = t1;
      of_channel2[fb::place_of_channel<kVec>(slot)] = t2;
      of_channel6[fb::place_of_channel<kVec>(slot)] = t6;
      of_channel14[fb::place_of_channel<kVec>(slot)] = t14;
    }
    fb::sync_block();
    const fb::Vec<float, kVec> v1 = columns.of(of_channel1);
    const fb::Vec<float, kVec> v2 = columns.of(of_channel2);
    const fb::Vec<float, kVec> v6 = columns.of(of_channel6);
    const fb::Vec<float, kVec> v14 = columns.of(of_channel14);
    const unsigned inside = columns.inside;
    for (Index run = columns.row, vector = fb::thread_x(); run < outer; run += columns.height, vector += step) {
      const fb::Runs<kVec>::Place place{columns.at(run), columns.column};
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      fb::Vec<__nv_bfloat16, kVec> o33;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t1 = v1[k];  // weight
        const float t2 = v2[k];  // bias
        const float t6 = v6[k];  // mean
        const float t14 = v14[k];  // rstd
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        const float t16 = t5 - t6;  // batchnorm_train.yaml:18
        const float t18 = t16 * t14;  // batchnorm_train.yaml:18
        const float t20 = t18 * t1;  // batchnorm_train.yaml:18
        const float t22 = t20 + t2;  // y, batchnorm_train.yaml:18
        const __nv_bfloat16 t33 = fb::cast<__nv_bfloat16>(t22);  // batchnorm_train.yaml:22
        o33[k] = t33;
      }
      fb::store_side(T33 + place.at, o33, inside);
    }
    return;
  }

  for (Index vector = fb::thread_x(); vector < vectors; vector += threads) {
    const fb::Runs<kVec>::Place place = runs.place(vector);
    if (place.column >= runs.length) continue;
    fb::copy_up_to<kVec>(reinterpret_cast<fb::Packed<__nv_bfloat16, kVec>*>(tile0 + vector * kVec), T0 + place.at,
        total - place.at);
  }
  fb::end_copies();
  unsigned inside = 0;  // bit k: the thread has element k of the batch at hand
  const Index parts = (outer + kVec - 1) / kVec;
  const int shift = fb::sharing<kThreads>(own, parts);  // 2 to it threads share a channel
  const int width = 1 << shift, lane = fb::thread_x() & (width - 1);
  const bool active = (fb::thread_x() >> shift) < own;  // spare threads have nothing to combine
  const Index slot = active ? fb::thread_x() >> shift : own - 1, channel = first + slot;
  const float t1 = fb::unpack(fb::load_packed_ahead<1>(T1 + channel))[0];  // weight
  const float t2 = fb::unpack(fb::load_packed_ahead<1>(T2 + channel))[0];  // bias
  const float t3 = fb::unpack(fb::load_packed_ahead<1>(T3 + channel))[0];  // running_mean
  const float t4 = fb::unpack(fb::load_packed_ahead<1>(T4 + channel))[0];  // running_var

  fb::wait_copies<0>();
  fb::sync_block();

  fb::AroundMean<float> around6;
  fb::Vec<float, kVec> e6{};
  {
    const Index each = outer * inner;
    for (Index element = active ? lane : each; element < each; element += kVec * width) {
      Index places[kVec];
      inside = 0;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const bool is_there = k == 0 || element + k * width < each;
        places[k] = is_there ? runs.element(element + k * width, slot) : places[0];
        inside |= unsigned(is_there) << k;
      }
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = tile0[places[k]];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        e6[k] = t5;
      }
      around6.gather(e6, inside);
    }
  }
  fb::reduce_row_of<kThreads, 0>(width, fb::accumulator<fb::Sum>(around6.sum), fb::accumulator<fb::Sum>(around6.sizes));
  around6.settle(outer * inner);

  if (parts <= width) {  // the only batch of a thread is still at hand
    around6.add(e6, inside);
  } else
  {
    const Index each = outer * inner;
    for (Index element = active ? lane : each; element < each; element += kVec * width) {
      Index places[kVec];
      inside = 0;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const bool is_there = k == 0 || element + k * width < each;
        places[k] = is_there ? runs.element(element + k * width, slot) : places[0];
        inside |= unsigned(is_there) << k;
      }
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = tile0[places[k]];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
        e6[k] = t5;
      }
      around6.add(e6, inside);
    }
  }
  fb::reduce_row_of<kThreads, 1>(width, fb::accumulator<fb::Sum>(around6.beside),
      fb::accumulator<fb::Sum>(around6.squares));
  const auto a6 = around6.state(outer * inner);
  if (active && lane == 0) {
    const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train.yaml:16
    const float t7 = a6.v1;  // m2, batchnorm_train.yaml:16
    const int64_t t10 = s9;  // count, batchnorm_train.yaml:16
    const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train.yaml:17
    const float t13 = t11 + 1e-05f;  // batchnorm_train.yaml:17
    const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train.yaml:17
    const float t23 = t6 - t3;  // batchnorm_train.yaml:19
    const float t25 = 0.1f * t23;  // batchnorm_train.yaml:19
    const float t26 = t3 + t25;  // new_mean, batchnorm_train.yaml:19
    const int64_t t28 = fb::sub(t10, int64_t(1));  // batchnorm_train.yaml:20
    const float t29 = t7 / fb::cast<float>(t28);  // batchnorm_train.yaml:20
    const float t30 = t29 - t4;  // batchnorm_train.yaml:20
    const float t31 = 0.1f * t30;  // batchnorm_train.yaml:20
    const float t32 = t4 + t31;  // new_var, batchnorm_train.yaml:20
    T6[channel] = t6;
    T14[channel] = t14;
    T26[channel] = t26;
    T32[channel] = t32;
    of_channel1[fb::place_of_channel<kVec>(slot)] = t1;
    of_channel2[fb::place_of_channel<kVec>(slot)] = t2;
    of_channel6[fb::place_of_channel<kVec>(slot)] = t6;
    of_channel14[fb::place_of_channel<kVec>(slot)] = t14;
  }
  fb::sync_block();

  for (Index vector = fb::thread_x(); vector < vectors; vector += threads) {
    const fb::Runs<kVec>::Place place = runs.place(vector);
    if (place.column >= runs.length) continue;
    inside = fb::mostly_inside<kVec>(place.column, runs.length);
    const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
    const fb::Vec<float, kVec> v1 = fb::of_columns<kVec>(of_channel1, place.column);
    const fb::Vec<float, kVec> v2 = fb::of_columns<kVec>(of_channel2, place.column);
    const fb::Vec<float, kVec> v6 = fb::of_columns<kVec>(of_channel6, place.column);
    const fb::Vec<float, kVec> v14 = fb::of_columns<kVec>(of_channel14, place.column);
    fb::Vec<__nv_bfloat16, kVec> o33;
    FUSEBUILD_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float t1 = v1[k];  // weight
      const float t2 = v2[k];  // bias
      const float t6 = v6[k];  // mean
      const float t14 = v14[k];  // rstd
      const __nv_bfloat16 t0 = v0[k];  // x
      const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train.yaml:15
      const float t16 = t5 - t6;  // batchnorm_train.yaml:18
      const float t18 = t16 * t14;  // batchnorm_train.yaml:18
      const float t20 = t18 * t1;  // batchnorm_train.yaml:18
      const float t22 = t20 + t2;  // y, batchnorm_train.yaml:18
      const __nv_bfloat16 t33 = fb::cast<__nv_bfloat16>(t22);  // batchnorm_train.yaml:22
      o33[k] = t33;
    }
    fb::store_inside(T33 + place.at, o33, inside);
  }
}

FUSEBUILD_ENTRY(outer_persistent_f1a63f172da2627d)
