#pragma once
#include <vector>

#include "cuda/memory.hpp"
#include "dump/host_call.hpp"

namespace attnjit::check {

/// The parts of a HostCall on the current device, at the same addresses modulo 256.
class CallMirror {
 public:
  /// Allocates them and copies everything there. Both must outlive it.
  CallMirror(const cuda::Driver& driver, const dump::HostCall& host);

  /// The call on the device.
  const dump::Call& call() const { return call_; }

  /// Copies the outputs back to the HostCall.
  void download_outputs() const;

 private:
  const cuda::Driver& driver_;
  const dump::HostCall& host_;
  dump::Call call_;
  std::vector<cuda::DeviceBuffer> buffers_;
};

}  // namespace attnjit::check
