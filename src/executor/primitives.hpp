#pragma once
#include <span>

#include "codegen/templates.hpp"

namespace attnjit::executor {

/// The headers that take the place of attnjit/ptx/ when a kernel is compiled for the CPU.
std::span<const codegen::TemplateFile> primitives();

}  // namespace attnjit::executor
