#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "base/file.hpp"

namespace attnjit::executor {

/// A kernel that a host compiler built, loaded into this process.
class HostKernel {
 public:
  /// `object` is a shared object as HostCompiler makes it. Throws Error(kCompile) where it cannot
  /// be loaded.
  explicit HostKernel(std::span<const std::byte> object);

  /// Runs the part of the calling thread. `parameters` points at one pointer per kernel parameter.
  using Function = void (*)(void* const* parameters);
  Function function() const { return function_; }

 private:
  struct Close {
    void operator()(void* library) const;
  };
  void* symbol(const char* name) const;

  base::UniqueFd file_;  // kept open: its number is part of the name that the loader knows it by
  std::unique_ptr<void, Close> library_;
  Function function_ = nullptr;
};

}  // namespace attnjit::executor
