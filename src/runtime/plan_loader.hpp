#pragma once
#include <memory>

#include "cuda/device.hpp"
#include "launch/plan.hpp"
#include "runtime/engine.hpp"
#include "tuner/record.hpp"

namespace attnjit::runtime {

/// The architecture that kernels for `device` are generated for, with its own SMs. Throws
/// Error(kUnsupported).
codegen::Arch arch_of(const cuda::DeviceInfo& device);

/// The class that tuning records name `device` by.
tuner::DeviceClass device_class(const cuda::DeviceInfo& device);

/// Gets the kernels of `spec` from the engine and loads them into the current context.
template <class Pass>
std::unique_ptr<launch::Plan<Pass>> load_plan(Engine& engine, const cuda::Driver& driver,
                                              typename Pass::Spec spec, const codegen::Arch& arch,
                                              const typename Pass::Problem& problem);

}  // namespace attnjit::runtime
