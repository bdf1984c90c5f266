#pragma once
#include <initializer_list>  // which loops over {a, b} need

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
// <atomic>, <thread> and <utility>, which took half of the time that a kernel takes to compile.
extern "C" {
float fabsf(float) noexcept;
float fmaf(float, float, float) noexcept;
float fmaxf(float, float) noexcept;
}

namespace attnjit::kernel::ptx {

inline const executor::Services* services = nullptr;  // of the process that loads this kernel

template <class... Parameters>
struct Call {
  Call(void (*kernel)(Parameters...), const Parameters&... values) { kernel(values...); }
};
// Calls `kernel` with its parameters, which `values` points at one by one. Those in braces are
// evaluated from left to right.
template <class... Parameters>
inline void call(void (*kernel)(Parameters...), void* const* values) {
  Call<Parameters...>{kernel, *static_cast<const Parameters*>(*values++)...};
}

}  // namespace attnjit::kernel::ptx

// Called before any kernel.
ATTNJIT_EXPORT void attnjit_bind(const attnjit::executor::Services* services) {
  attnjit::kernel::ptx::services = services;
}
