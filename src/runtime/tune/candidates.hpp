#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.hpp"
#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::runtime {

/// Configurations of one problem, ready to run, and what became of the others.
template <class Pass>
struct Candidates {
  std::vector<std::unique_ptr<launch::Plan<Pass>>> plans;  ///< configuration 0 first
  std::size_t rejected = 0;   ///< by what the compiler says of them, or by the device
  std::size_t skipped = 0;    ///< not begun before the time was up, or without a compiler
  std::size_t faulty = 0;     ///< known to hang or crash devices of this kind
  std::string nvrtc_version;  ///< that compiled configuration 0

  /// Bytes of workspace that suffice for each of them.
  std::size_t workspace_bytes(const typename Pass::Problem& problem) const;
};

/// Compiles `configs` in parallel and loads them into the current context. Those that spill, or
/// whose wgmma is serialised, are rejected: they compute the right thing slowly. What is faulty on
/// `device` is left out. No compile but that of configuration 0, the first, begins after `expired`
/// says so. Throws what keeps configuration 0 from running.
template <class Pass>
Candidates<Pass> prepare_candidates(Engine& engine, const cuda::Driver& driver,
                                    const typename Pass::Problem& problem,
                                    const decltype(Pass::Key::family)& family,
                                    const codegen::Arch& arch, const tuner::DeviceClass& device,
                                    const std::vector<typename Pass::Tunables>& configs,
                                    const std::function<bool()>& expired);

}  // namespace attnjit::runtime
