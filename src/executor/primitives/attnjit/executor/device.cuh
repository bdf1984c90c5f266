#pragma once
#include <utility>

#include "attnjit/executor/services.h"

// CUDA's keywords, defined for a host compiler. A kernel is a function here, called once by every
// thread.
#define ATTNJIT_DEVICE inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)

// Marks the functions that the executor looks up by name. All other symbols are hidden: a kernel
// that shared its inline variables with the next one could not be unloaded.
#define ATTNJIT_EXPORT extern "C" __attribute__((visibility("default")))

// Functions of CUDA that kernels call. They and the compiler's builtins stand in for <cmath>,
// <atomic> and <thread>, which took half of the time that a kernel takes to compile.
extern "C" {
float fabsf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
}

namespace attnjit::kernel::ptx {

inline const executor::Services* services = nullptr;  // of the process that loads this kernel

// Calls `kernel` with its parameters, which `values` points at one by one.
template <class... Parameters, std::size_t... kIndex>
inline void call(void (*kernel)(Parameters...), void* const* values,
                 std::index_sequence<kIndex...>) {
  kernel(*static_cast<const Parameters*>(values[kIndex])...);
}
template <class... Parameters>
inline void call(void (*kernel)(Parameters...), void* const* values) {
  call(kernel, values, std::index_sequence_for<Parameters...>());
}

}  // namespace attnjit::kernel::ptx

// Called before any kernel.
ATTNJIT_EXPORT void attnjit_bind(const attnjit::executor::Services* services) {
  attnjit::kernel::ptx::services = services;
}
