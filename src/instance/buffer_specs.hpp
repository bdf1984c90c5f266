#pragma once
#include <string_view>
#include <vector>

#include "instance/host_buffer.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::instance {

/// The description that a HostBuffer is made from.
struct BufferSpec {
  std::string_view name;
  BufferRole role;
  bool is_output;
  Tensor view;  ///< data is null
};

/// The tensors of a valid `spec`: of the forward, and of the backward if it is one. A bias comes
/// before the mask, which may follow from it. Throws Error(kUnsupported) for a tensor of more than
/// 2^60 elements.
std::vector<BufferSpec> buffer_specs(const ProblemSpec& spec);

}  // namespace attnjit::instance
