#pragma once
#include <string>

#include "runtime/load/engine.hpp"
#include "tuner/fault_store.hpp"

namespace attnjit::runtime {

/// The id of the fault that the configuration of `spec` may have on devices of `device`.
template <class Spec>
std::string fault_id(const Engine& engine, const Spec& spec, const codegen::Arch& arch,
                     const tuner::DeviceClass& device);

}  // namespace attnjit::runtime
