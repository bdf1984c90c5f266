#pragma once
#include <string>

namespace attnjit::cuda {

/// Whether a profiler listens to ranges of NVTX, which looks for one on first use in a process (by
/// NVTX_INJECTION64_PATH, as Nsight Systems sets it). Never in a program with other rights than its
/// user's, and not in a build without NVTX's headers.
bool profiler_listens();

/// Names what its thread enqueues while it lives, for a profiler that listens.
class ProfilerRange {
 public:
  explicit ProfilerRange(const std::string& name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace attnjit::cuda
