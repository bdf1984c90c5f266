#pragma once
#include <memory>
#include <vector>

#include "cuda/device.hpp"
#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// The architecture that kernels for `device` are generated for, with its own SMs. Throws
/// Error(kUnsupported).
codegen::Arch arch_of(const cuda::DeviceInfo& device);

/// The class that tuning records name `device` by.
tuner::DeviceClass device_class(const cuda::DeviceInfo& device);

/// The compiled kernels of `spec`, in the order of its steps. Those that are not cached are
/// compiled on several threads. `problem` is for messages.
template <class Spec>
std::vector<std::shared_ptr<const cache::Entry>> get_kernels(Engine& engine, const Spec& spec,
                                                             const codegen::Arch& arch,
                                                             const problem::ProblemText& problem);

/// Gets the kernels of `spec` from the engine and loads them into the current context.
template <class Pass>
std::unique_ptr<launch::Plan<Pass>> load_plan(Engine& engine, const cuda::Driver& driver,
                                              typename Pass::Spec spec, const codegen::Arch& arch,
                                              const typename Pass::Problem& problem);

}  // namespace attnjit::runtime
