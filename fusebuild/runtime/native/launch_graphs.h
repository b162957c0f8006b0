// Launches that come again, as CUDA graphs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backend.h"
#include "cuda_driver.h"

namespace fusebuild {

/// Launches a sequence of kernels that was launched before as one graph whose arguments it sets: on an H200's
/// host (driver 580) that takes 2.0 us and another 0.35 for each kernel whose arguments changed, where
/// launching kernels takes 3.9 us each.
///
/// There is a graph for each stream, since the runs of one graph wait for each other wherever they are
/// launched. It is made when the sequence comes for the kPlainCalls-th time there, when it has cost as much
/// as making it does. Streams that are being captured, those beyond kMaxStreams and calls that meet another
/// thread's get plain launches.
class LaunchGraphs : public Repeated {
 public:
  static constexpr int kPlainCalls = 16;
  static constexpr size_t kMaxStreams = 8;
  static constexpr int kMaxGraphs = 256;

  /// Launches one kernel on a stream.
  using LaunchOne = std::function<cuda::CUresult(const LaunchRequest&, cuda::CUstream)>;

  /// `graphs` counts those of the whole backend, of which there are never more than kMaxGraphs.
  explicit LaunchGraphs(std::atomic<int>* graphs);
  ~LaunchGraphs() override;

  /// Launches all of `requests`, or nothing and returns false: they must then be launched one by one.
  /// `functions` are the backend's kernels on `device`, which the thread has entered; `launch_one` launches
  /// one of them.
  bool Launch(int device, const std::vector<cuda::CUfunction>& functions, const LaunchRequest* requests,
              size_t count, cuda::CUstream stream, const LaunchOne& launch_one);

 private:
  struct Graph;
  struct Lane;

  Lane* Find(int device, cuda::CUstream stream);

  std::atomic<int>* graphs_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace fusebuild
