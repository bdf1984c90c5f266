#pragma once
#include <span>
#include <string_view>

namespace attnjit::codegen {

/// A GPU architecture as far as the choice of a configuration depends on it. Source: CUDA C++
/// Programming Guide, "Technical Specifications per Compute Capability".
struct Arch {
  std::string_view name;       ///< as NVRTC spells it, e.g. "sm_90a"
  int shared_bytes_per_block;  ///< largest dynamic shared memory of a thread block
  int shared_bytes_per_sm;     ///< shared by the thread blocks on an SM, 1 KiB each reserved
  bool wgmma;                  ///< has it, and its registers to move between warpgroups
  bool dependent_launch;       ///< a kernel may begin before the one ahead of it has ended
  int sm_count;                ///< of the device at hand; in archs() of a common one
};

/// `arch` as if no kernel used its wgmma.
constexpr Arch without_wgmma(Arch arch) {
  arch.wgmma = false;
  return arch;
}

/// Every architecture that kernels are generated for, in ascending order.
std::span<const Arch> archs();

/// The architecture called `name`; throws Error(kUnsupported) that lists the known ones.
const Arch& find_arch(std::string_view name);

}  // namespace attnjit::codegen
