#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "explain/profile.hpp"

namespace attnjit::explain {

/// Work that a device does in a second, at the clock that attention kernels run at.
struct Rates {
  std::string_view device;        ///< as the driver has it, "NVIDIA H200"
  double tensor_flop = 0;         ///< of dense 16-bit matrix products, at
  double tensor_mhz = 0;          ///< this clock of the SMs
  double copied_bytes = 0;        ///< read and written by a copy
  double reduced_bytes = 0;       ///< added up in fp32 in L2
  double score_instructions = 0;  ///< of all lanes, one each
};

/// Those of the device called `name`, or nullptr. Sources: NVIDIA's data sheets for dense bf16
/// (989 TFLOP/s at 1.83 GHz) and HBM (4.8 and 3.35 TB/s, of which a copy reaches seven eighths);
/// 128 lanes of an SM at 1.75 GHz; fp32 reductions as measured on an H200, 2026-11-25.
const Rates* find_rates(std::string_view name);

/// A part of the device that can bind a call.
enum class Resource { kTensor, kScores, kReductions, kMemory, kLaunches };
inline constexpr std::size_t kNumResources = 5;

/// "tensor cores", "arithmetic of scores", ...
const char* name(Resource resource);

/// Seconds that each resource is busy, by Resource.
using Busy = std::array<double, kNumResources>;
Busy busy(const Profile& profile, const Rates& rates);

/// Seconds of a call whose resources overlap as those of measured ones do on the whole; of kernels
/// alone, without launches.
double combined(const Busy& busy);

/// The resource that is busy longest.
Resource binding(const Busy& busy);

}  // namespace attnjit::explain
