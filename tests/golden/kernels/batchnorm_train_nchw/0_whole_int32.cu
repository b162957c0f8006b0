// batchnorm_train_nchw.yaml, segment 0: outer_persistent, variant whole_int32
// segment fids to original fids: {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 6: 8, 14: 13, 25: 23, 31: 29, 32: 30}
// schedule: threads=512 elements=32768
// launch: segment 0, whole_int32 on sm_90: grid ceil_div(C, argument 15*max(1, min(max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)), max(ceil_div(C,
//   2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N), 8*(512 //
//   min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 < N*C*HW) +
//   48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - argument 15)*max(1, min(((32768 //
//   max(1, N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < N*C*HW)*(0
//   < (HW % 8)) + 16, max(1, HW)), max(1, C)))))), 1, 1; block 512, 1, 1; shared 16*N*(((argument 15*max(1, min(max(1,
//   min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)),
//   max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 <
//   N*C*HW) + 48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - argument 15)*max(1,
//   min(((32768 // max(1, N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors),
//   min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 16, max(1, HW)), max(1, C))))))*HW + 7*(0 < ((((argument
//   15*max(1, min(max(1, min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) //
//   max(1, HW), 512)), max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1,
//   min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))),
//   min(ceil_div(8*(1048576 < N*C*HW) + 48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 -
//   argument 15)*max(1, min(((32768 // max(1, N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors),
//   min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 16, max(1, HW)), max(1, C))))))*HW) % 8) + ((C*HW) % 8))) + 7)
//   // 8) + 20480*argument 15 bytes; overlaps what is before; given x, weight, bias, running_mean, running_var, mean,
//   rstd, new_mean, new_var, y, N*HW, N, C, HW, max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <=
//   1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 < N*C*HW)*(0 <
//   (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)), max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >=
//   384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 <
//   N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)), max(ceil_div(C,
//   2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N), 8*(512 //
//   min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 < N*C*HW) +
//   48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 < N*C*HW)*(0
//   < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <=
//   832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768 // max(1,
//   N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW %
//   8)) + 16, max(1, HW)), max(1, C))))), ((max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024),
//   (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW %
//   8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1, min((min(32768 // max(1, N), 8*(512 // min(max(1,
//   N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)), max(ceil_div(C, 2*gpu.multiprocessors*max(1,
//   ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8))
//   + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 < N*C*HW) + 48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8,
//   max(1, HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024),
//   (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW %
//   8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768 // max(1, N)) - 14) // max(1, HW), 512,
//   max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 16, max(1, HW)), max(1,
//   C))))))*HW + 7*(0 < ((((max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024), (2097152 <
//   N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >=
//   8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1, min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 <
//   ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)), max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C,
//   2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) -
//   14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 < N*C*HW) + 48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1,
//   HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024), (2097152 <
//   N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >=
//   8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768 // max(1, N)) - 14) // max(1, HW), 512, max(ceil_div(C,
//   2*gpu.multiprocessors), min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 16, max(1, HW)), max(1, C))))))*HW) %
//   8) + ((C*HW) % 8))) + 7) // 8, 4294967295 // max(((max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >= 384)*(N
//   <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 <
//   N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)), max(ceil_div(C,
//   2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N), 8*(512 //
//   min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 < N*C*HW) +
//   48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 < N*C*HW)*(0
//   < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <=
//   832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768 // max(1,
//   N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW %
//   8)) + 16, max(1, HW)), max(1, C))))))*HW + 7*(0 < ((((max((HW == 1)*max((262144 < N*C*HW)*(0 < (C % 8))*(N >=
//   384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <= 832))), (4194304 <
//   N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)), max(ceil_div(C,
//   2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N), 8*(512 //
//   min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 < N*C*HW) +
//   48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 < N*C*HW)*(0
//   < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >= 768)*(N <=
//   832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768 // max(1,
//   N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 < N*C*HW)*(0 < (HW %
//   8)) + 16, max(1, HW)), max(1, C))))))*HW) % 8) + ((C*HW) % 8))) + 7) // 8, 1), (HW + 7*(0 < (HW % 8)) + 7) // 8,
//   4294967295 // max((HW + 7*(0 < (HW % 8)) + 7) // 8, 1), 4294967295 // max(HW, 1), (max((HW == 1)*max((262144 <
//   N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >=
//   768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1,
//   min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)),
//   max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 <
//   N*C*HW) + 48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 <
//   N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >=
//   768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768
//   // max(1, N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 <
//   N*C*HW)*(0 < (HW % 8)) + 16, max(1, HW)), max(1, C)))))) - 1, 4294967295 // max((max((HW == 1)*max((262144 <
//   N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >=
//   768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128))*max(1, min(max(1,
//   min((min(32768 // max(1, N), 8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512)),
//   max(ceil_div(C, 2*gpu.multiprocessors*max(1, ceil_div(C, 2*gpu.multiprocessors*max(1, min((min(32768 // max(1, N),
//   8*(512 // min(max(1, N), 7*(0 < ((C*HW) % 8)) + 1))) - 14) // max(1, HW), 512))))), min(ceil_div(8*(1048576 <
//   N*C*HW) + 48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 8, max(1, HW)), max(1, C))))) + (1 - max((HW == 1)*max((262144 <
//   N*C*HW)*(0 < (C % 8))*(N >= 384)*(N <= 1024), (2097152 < N*C*HW)*max((0 < (C % 8))*(N >= 120)*(N <= 832), (N >=
//   768)*(N <= 832))), (4194304 < N*C*HW)*(0 < (HW % 8))*(HW >= 8)*(HW <= 32)*(N >= 32)*(N <= 128)))*max(1, min(((32768
//   // max(1, N)) - 14) // max(1, HW), 512, max(ceil_div(C, 2*gpu.multiprocessors), min(ceil_div(48*(1048576 <
//   N*C*HW)*(0 < (HW % 8)) + 16, max(1, HW)), max(1, C)))))) - 1, 1); if N*C*HW < 2146435072, 0 < N*HW,
//   8*N*((max(48*(1048576 < N*C*HW)*(0 < (HW % 8)) + 16, HW) + 7*(0 < (HW % 8)) + 7) // 8) <= (24576*(262144 < N*C*HW)
//   + 8192), aligned(x, 16), aligned(y, 16)
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kThreads = 512;
constexpr int kVec = 8;  // neighbouring elements per access

FUSEBUILD_KERNEL(kThreads, 2)
outer_persistent_289b60cd4be0d675(
    const __nv_bfloat16* T0,  // x: bfloat16[N, C, HW]
    const float* T1,  // weight: float[C]
    const float* T2,  // bias: float[C]
    const float* T3,  // running_mean: float[C]
    const float* T4,  // running_var: float[C]
    float* T6,  // mean: float[C]
    float* T14,  // rstd: float[C]
    float* T25,  // new_mean: float[C]
    float* T31,  // new_var: float[C]
    __nv_bfloat16* T32,  // y: bfloat16[N, C, HW]
    int64_t s9,  // N*HW
    int64_t n0,  // N
    int64_t n1,  // C
    int64_t n2,  // HW
    int64_t adds_columns,  // 1 where columns are added up first
    int64_t block_channels,  // channels of a block, neighbours in memory
    int64_t run_vectors,  // around its elements of one outer index
    int64_t run_reciprocal,  // reciprocal of run_vectors
    int64_t piece_vectors,  // around those of one channel
    int64_t piece_reciprocal,  // reciprocal of piece_vectors
    int64_t inner_reciprocal,  // reciprocal of inner
    int64_t run_ends,  // channels that end within a run, at most
    int64_t ends_reciprocal) {  // reciprocal of run_ends
  fb::wait_for_previous_kernel();  // it may still be writing what this one reads, or reading what it writes
  constexpr int threads = kThreads;
  const Index outer = n0, channels = n1;
  const Index inner = n2;  // elements of a channel that are neighbours in memory
  const Index first = Index(fb::block_x()) * Index(block_channels);
  const Index own = fb::smaller(int(block_channels), channels - first);  // channels of the block
  const fb::Runs<kVec> runs{first * inner, own * inner, channels * inner, int(run_vectors), run_reciprocal};
  const Index vectors = outer * Index(run_vectors), total = outer * runs.period;
  __nv_bfloat16* tile0 = fb::dynamic_shared<__nv_bfloat16>();
  FUSEBUILD_SHARED(float, of_channel2, fb::place_of_channel<kVec>(kThreads + kVec));
  FUSEBUILD_SHARED(float, of_channel6, fb::place_of_channel<kVec>(kThreads + kVec));
  FUSEBUILD_SHARED(float, of_channel15, fb::place_of_channel<kVec>(kThreads + kVec));

  if (adds_columns) {
    const fb::Columns<kVec, kThreads> columns(
        runs, outer, inner, int(piece_vectors), piece_reciprocal, inner_reciprocal);
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
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
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
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        e6[k] = t5;
      }
      moments6.add(e6);
    }
    columns.meet_squares(places6, moments6, slot, lane, width, around6);
    fb::reduce_row_of<kThreads>(width, fb::accumulator<fb::Sum>(around6.beside),
        fb::accumulator<fb::Sum>(around6.squares));
    const auto a6 = around6.state(outer * inner);
    if (active && lane == 0) {
      const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train_nchw.yaml:16
      const float t7 = a6.v1;  // m2, batchnorm_train_nchw.yaml:16
      const int64_t t10 = s9;  // count, batchnorm_train_nchw.yaml:16
      const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train_nchw.yaml:17
      const float t13 = t11 + 1e-05f;  // batchnorm_train_nchw.yaml:17
      const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train_nchw.yaml:17
      const float t15 = t14 * t1;  // batchnorm_train_nchw.yaml:19
      const float t22 = t6 - t3;  // batchnorm_train_nchw.yaml:22
      const float t24 = 0.1f * t22;  // batchnorm_train_nchw.yaml:22
      const float t25 = t3 + t24;  // new_mean, batchnorm_train_nchw.yaml:22
      const int64_t t27 = fb::sub(t10, int64_t(1));  // batchnorm_train_nchw.yaml:23
      const float t28 = t7 / fb::cast<float>(t27);  // batchnorm_train_nchw.yaml:23
      const float t29 = t28 - t4;  // batchnorm_train_nchw.yaml:23
      const float t30 = 0.1f * t29;  // batchnorm_train_nchw.yaml:23
      const float t31 = t4 + t30;  // new_var, batchnorm_train_nchw.yaml:23
      T6[channel] = t6;
      T14[channel] = t14;
      T25[channel] = t25;
      T31[channel] = t31;
      of_channel2[fb::place_of_channel<kVec>(slot)] = t2;
      of_channel6[fb::place_of_channel<kVec>(slot)] = t6;
      of_channel15[fb::place_of_channel<kVec>(slot)] = t15;
    }
    fb::sync_block();
    const fb::Vec<float, kVec> v2 = columns.of(of_channel2);
    const fb::Vec<float, kVec> v6 = columns.of(of_channel6);
    const fb::Vec<float, kVec> v15 = columns.of(of_channel15);
    const unsigned inside = columns.inside;
    for (Index run = columns.row, vector = fb::thread_x(); run < outer; run += columns.height, vector += step) {
      const fb::Runs<kVec>::Place place{columns.at(run), columns.column};
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      fb::Vec<__nv_bfloat16, kVec> o32;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t2 = v2[k];  // bias
        const float t6 = v6[k];  // mean
        const float t15 = v15[k];  // t15
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        const float t17 = t5 - t6;  // batchnorm_train_nchw.yaml:21
        const float t19 = t17 * t15;  // batchnorm_train_nchw.yaml:21
        const float t21 = t19 + t2;  // y, batchnorm_train_nchw.yaml:21
        const __nv_bfloat16 t32 = fb::cast<__nv_bfloat16>(t21);  // batchnorm_train_nchw.yaml:25
        o32[k] = t32;
      }
      fb::store_side(T32 + place.at, o32, inside);
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
  const bool by_vectors = inner >= kVec;
  const Index parts = by_vectors ? outer * Index(piece_vectors) : (outer * inner + kVec - 1) / kVec;
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
  if (by_vectors) {
    for (Index part = active ? lane : parts; part < parts; part += width) {
      const fb::Divided piece = fb::divided(part, int(piece_vectors), piece_reciprocal);
      const Index begin = runs.element(piece.quotient, slot * inner);
      const Index column = piece.remainder * kVec - fb::shift_of<kVec>(begin);
      if (column >= inner) continue;
      inside = fb::mostly_inside<kVec>(column, inner);
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + begin + column));
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        e6[k] = t5;
      }
      around6.gather(e6, inside);
    }
  } else {
    const Index each = outer * inner;
    for (Index element = active ? lane : each; element < each; element += kVec * width) {
      Index places[kVec];
      inside = 0;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const bool is_there = k == 0 || element + k * width < each;
        const fb::Divided piece = fb::divided(is_there ? element + k * width : element, inner, inner_reciprocal);
        places[k] = runs.element(piece.quotient, slot * inner + piece.remainder);
        inside |= unsigned(is_there) << k;
      }
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = tile0[places[k]];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
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
  if (by_vectors) {
    for (Index part = active ? lane : parts; part < parts; part += width) {
      const fb::Divided piece = fb::divided(part, int(piece_vectors), piece_reciprocal);
      const Index begin = runs.element(piece.quotient, slot * inner);
      const Index column = piece.remainder * kVec - fb::shift_of<kVec>(begin);
      if (column >= inner) continue;
      inside = fb::mostly_inside<kVec>(column, inner);
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + begin + column));
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        e6[k] = t5;
      }
      around6.add(e6, inside);
    }
  } else {
    const Index each = outer * inner;
    for (Index element = active ? lane : each; element < each; element += kVec * width) {
      Index places[kVec];
      inside = 0;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const bool is_there = k == 0 || element + k * width < each;
        const fb::Divided piece = fb::divided(is_there ? element + k * width : element, inner, inner_reciprocal);
        places[k] = runs.element(piece.quotient, slot * inner + piece.remainder);
        inside |= unsigned(is_there) << k;
      }
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = tile0[places[k]];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        e6[k] = t5;
      }
      around6.add(e6, inside);
    }
  }
  fb::reduce_row_of<kThreads, 1>(width, fb::accumulator<fb::Sum>(around6.beside),
      fb::accumulator<fb::Sum>(around6.squares));
  const auto a6 = around6.state(outer * inner);
  if (active && lane == 0) {
    const float t6 = fb::Welford<float>::mean(a6);  // mean, batchnorm_train_nchw.yaml:16
    const float t7 = a6.v1;  // m2, batchnorm_train_nchw.yaml:16
    const int64_t t10 = s9;  // count, batchnorm_train_nchw.yaml:16
    const float t11 = t7 / fb::cast<float>(t10);  // batchnorm_train_nchw.yaml:17
    const float t13 = t11 + 1e-05f;  // batchnorm_train_nchw.yaml:17
    const float t14 = fb::rsqrt(t13);  // rstd, batchnorm_train_nchw.yaml:17
    const float t15 = t14 * t1;  // batchnorm_train_nchw.yaml:19
    const float t22 = t6 - t3;  // batchnorm_train_nchw.yaml:22
    const float t24 = 0.1f * t22;  // batchnorm_train_nchw.yaml:22
    const float t25 = t3 + t24;  // new_mean, batchnorm_train_nchw.yaml:22
    const int64_t t27 = fb::sub(t10, int64_t(1));  // batchnorm_train_nchw.yaml:23
    const float t28 = t7 / fb::cast<float>(t27);  // batchnorm_train_nchw.yaml:23
    const float t29 = t28 - t4;  // batchnorm_train_nchw.yaml:23
    const float t30 = 0.1f * t29;  // batchnorm_train_nchw.yaml:23
    const float t31 = t4 + t30;  // new_var, batchnorm_train_nchw.yaml:23
    T6[channel] = t6;
    T14[channel] = t14;
    T25[channel] = t25;
    T31[channel] = t31;
    of_channel2[fb::place_of_channel<kVec>(slot)] = t2;
    of_channel6[fb::place_of_channel<kVec>(slot)] = t6;
    of_channel15[fb::place_of_channel<kVec>(slot)] = t15;
  }
  fb::sync_block();

  if (by_vectors) {
    for (Index vector = fb::thread_x(); vector < vectors; vector += threads) {
      const fb::Runs<kVec>::Place place = runs.place(vector);
      if (place.column >= runs.length) continue;
      inside = fb::mostly_inside<kVec>(place.column, runs.length);
      const fb::OfChannels<kVec> beside(place.column, inner, inner_reciprocal);
      if (!beside.is_one(own)) continue;
      const float t2 = beside.of_one(of_channel2);  // bias
      const float t6 = beside.of_one(of_channel6);  // mean
      const float t15 = beside.of_one(of_channel15);  // t15
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      fb::Vec<__nv_bfloat16, kVec> o32;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        const float t17 = t5 - t6;  // batchnorm_train_nchw.yaml:21
        const float t19 = t17 * t15;  // batchnorm_train_nchw.yaml:21
        const float t21 = t19 + t2;  // y, batchnorm_train_nchw.yaml:21
        const __nv_bfloat16 t32 = fb::cast<__nv_bfloat16>(t21);  // batchnorm_train_nchw.yaml:25
        o32[k] = t32;
      }
      fb::store_inside(T32 + place.at, o32, inside);
    }
    // The vectors in which a channel ends and the next one begins.
    const Index ends = outer * Index(run_ends);
    for (Index end = fb::thread_x(); end < ends; end += kThreads) {
      const fb::Divided which = fb::divided(end, int(run_ends), ends_reciprocal);
      if (which.remainder >= own - 1) continue;
      const Index run = which.quotient, column = (which.remainder + 1) * inner;
      const Index at = runs.begin + run * runs.period + column, beyond = fb::shift_of<kVec>(at);
      if (beyond == 0) continue;
      const fb::Runs<kVec>::Place place{at - beyond, column - beyond};
      const Index vector = runs.vector(run, column);
      inside = fb::mostly_inside<kVec>(place.column, runs.length);
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      const fb::OfChannels<kVec> beside(place.column, inner, inner_reciprocal);
      const fb::Vec<float, kVec> v2 = beside.of(of_channel2);
      const fb::Vec<float, kVec> v6 = beside.of(of_channel6);
      const fb::Vec<float, kVec> v15 = beside.of(of_channel15);
      fb::Vec<__nv_bfloat16, kVec> o32;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t2 = v2[k];  // bias
        const float t6 = v6[k];  // mean
        const float t15 = v15[k];  // t15
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        const float t17 = t5 - t6;  // batchnorm_train_nchw.yaml:21
        const float t19 = t17 * t15;  // batchnorm_train_nchw.yaml:21
        const float t21 = t19 + t2;  // y, batchnorm_train_nchw.yaml:21
        const __nv_bfloat16 t32 = fb::cast<__nv_bfloat16>(t21);  // batchnorm_train_nchw.yaml:25
        o32[k] = t32;
      }
      fb::store_inside(T32 + place.at, o32, inside);
    }
  } else {
    for (Index vector = fb::thread_x(); vector < vectors; vector += threads) {
      const fb::Runs<kVec>::Place place = runs.place(vector);
      if (place.column >= runs.length) continue;
      inside = fb::mostly_inside<kVec>(place.column, runs.length);
      const fb::Vec<__nv_bfloat16, kVec> v0 = fb::unpack(fb::load_shared_packed<kVec>(tile0 + vector * kVec));
      const fb::OfChannels<kVec> beside(place.column, inner, inner_reciprocal);
      const fb::Vec<float, kVec> v2 = beside.of(of_channel2);
      const fb::Vec<float, kVec> v6 = beside.of(of_channel6);
      const fb::Vec<float, kVec> v15 = beside.of(of_channel15);
      fb::Vec<__nv_bfloat16, kVec> o32;
      FUSEBUILD_UNROLL
      for (int k = 0; k < kVec; ++k) {
        const float t2 = v2[k];  // bias
        const float t6 = v6[k];  // mean
        const float t15 = v15[k];  // t15
        const __nv_bfloat16 t0 = v0[k];  // x
        const float t5 = fb::cast<float>(t0);  // xf, batchnorm_train_nchw.yaml:15
        const float t17 = t5 - t6;  // batchnorm_train_nchw.yaml:21
        const float t19 = t17 * t15;  // batchnorm_train_nchw.yaml:21
        const float t21 = t19 + t2;  // y, batchnorm_train_nchw.yaml:21
        const __nv_bfloat16 t32 = fb::cast<__nv_bfloat16>(t21);  // batchnorm_train_nchw.yaml:25
        o32[k] = t32;
      }
      fb::store_inside(T32 + place.at, o32, inside);
    }
  }
}

FUSEBUILD_ENTRY(outer_persistent_289b60cd4be0d675)
