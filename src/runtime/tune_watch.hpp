#pragma once
#include <functional>
#include <string>

namespace attnjit::runtime {

/// What is told of a tuning while it goes on, for whoever is left should a candidate end it all.
template <class Tunables>
struct TuneWatch {
  /// The kernels of a configuration are about to run.
  std::function<void(const Tunables&)> begins = [](const Tunables&) {};
  /// They took the device's context along, so that nothing else runs in this process.
  std::function<void(const std::string& why)> context_lost = [](const std::string&) {};
};

}  // namespace attnjit::runtime
