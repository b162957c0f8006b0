// batchnorm_train.yaml, segment 0: reduction, variant vec8_int32_split132
// segment fids to original fids: {0: 0, 1: 3, 2: 4, 5: 9, 11: 11, 15: 18, 23: 22}
// schedule: block_x=32 block_y=8 splits=132 reductions=[2] kept=[1] across=[] scaled=[]
#include <fusebuild/kernel.cuh>

using Index = int32_t;
constexpr int kBlockX = 32;  // results per block
constexpr int kBlockY = 8;  // threads per result
constexpr int kSplits = 132;  // partial results of each, combined in a fixed order

FUSEBUILD_KERNEL(kBlockX * kBlockY, 2)
reduction_finish_0b6a8e045f8d565e(
    const float* T1,  // running_mean: float[C]
    const float* T2,  // running_var: float[C]
    float* T5,  // mean: float[C]
    float* T11,  // rstd: float[C]
    float* T15,  // new_mean: float[C]
    float* T23,  // new_var: float[C]
    const double* __restrict__ P5,  // partial results of mean
    const float* __restrict__ P6,  // partial results of biased_m2
    const float* __restrict__ P7,  // partial results of biased_n
    int64_t s4,  // R
    int64_t n1) {  // C
  const int64_t results = n1;
  const Index kept = Index(fb::block_x()) * kBlockX + fb::thread_x();
  const int64_t s17 = fb::sub(s4, int64_t(1));  // batchnorm_train.yaml:20
  const int64_t s19 = fb::maximum(s17, int64_t(0));  // batchnorm_train.yaml:20

  fb::Welford<float>::State a5 = fb::Welford<float>::identity();
  if (kept < results) {
    for (int split = fb::thread_y(); split < kSplits; split += kBlockY) {
      a5 = fb::Welford<float>::combine(a5, {P5[split * n1 + kept], P6[split * n1 + kept], P7[split * n1 + kept]});
    }
  }
  fb::reduce_columns<kBlockX, kBlockY>(fb::accumulator<fb::Welford<float>>(a5));
  if (fb::thread_y() != 0 || kept >= results) return;

  const float t5 = fb::Welford<float>::mean(a5);  // mean, batchnorm_train.yaml:16
  const float t6 = a5.v1;  // biased_m2, batchnorm_train.yaml:16
  const float t1 = T1[kept];  // running_mean
  const float t2 = T2[kept];  // running_var
  const float t8 = t6 / fb::cast<float>(s4);  // biased, batchnorm_train.yaml:16
  const float t10 = t8 + 1e-05f;  // batchnorm_train.yaml:17
  const float t11 = fb::rsqrt(t10);  // rstd, batchnorm_train.yaml:17
  const float t12 = t5 - t1;  // batchnorm_train.yaml:19
  const float t14 = 0.1f * t12;  // batchnorm_train.yaml:19
  const float t15 = t1 + t14;  // new_mean, batchnorm_train.yaml:19
  const float t20 = t6 / fb::cast<float>(s19);  // batchnorm_train.yaml:20
  const float t21 = t20 - t2;  // batchnorm_train.yaml:20
  const float t22 = 0.1f * t21;  // batchnorm_train.yaml:20
  const float t23 = t2 + t22;  // new_var, batchnorm_train.yaml:20
  T5[kept] = t5;
  T11[kept] = t11;
  T15[kept] = t15;
  T23[kept] = t23;
}

FUSEBUILD_ENTRY(reduction_finish_0b6a8e045f8d565e)
