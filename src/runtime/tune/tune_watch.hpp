#pragma once
#include <functional>
#include <string>

namespace attnjit::runtime {

/// Reports of a tuning while it goes on, for a process that outlives a candidate which ends this
/// one.
template <class Tunables>
struct TuneWatch {
  /// The kernels of a configuration are about to run.
  std::function<void(const Tunables&)> begins = [](const Tunables&) {};
  /// They took the device's context along, so that nothing else runs in this process.
  std::function<void(const std::string& why)> context_lost = [](const std::string&) {};
};

}  // namespace attnjit::runtime
