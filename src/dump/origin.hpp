#pragma once
#include <cstdint>
#include <string>

#include "base/fields.hpp"

namespace attnjit::dump {

/// The circumstances in which a call was made.
struct Origin {
  std::string library;        ///< its version
  std::string problem;        ///< described
  std::string manifest_line;  ///< the problem as attnjit run reads it
  std::string config;         ///< of its kernels, as --config reads it
  std::string device;         ///< its name
  std::string arch;           ///< that kernels were generated for, "sm_90a"
  std::int64_t driver = 0;    ///< 1000 * major + 10 * minor of CUDA
  std::string compiler;       ///< its id
  std::int64_t number = 0;    ///< of the call in its context, from 1
};

constexpr auto fields(const Origin*) {
  using O = Origin;
  return base::fields_of<O>(
      base::Field{"library", &O::library}, base::Field{"problem", &O::problem},
      base::Field{"manifest_line", &O::manifest_line}, base::Field{"config", &O::config},
      base::Field{"device", &O::device}, base::Field{"arch", &O::arch},
      base::Field{"driver", &O::driver}, base::Field{"compiler", &O::compiler},
      base::Field{"number", &O::number});
}

}  // namespace attnjit::dump
