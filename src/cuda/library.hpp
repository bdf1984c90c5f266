#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// A cubin loaded into the driver, for every context of the process. It owns the bytes, which the
/// driver may read for as long as the library is loaded. Loading is legal during stream capture.
///
/// The destructor unloads. The driver may be gone when static objects are destroyed, and captured
/// graphs may still hold the kernels: keep a Library in an object that is released on purpose or
/// not at all, never in static storage.
class Library {
 public:
  /// Takes over `handle`, which `cubin` was loaded into.
  Library(const Driver& driver, std::vector<std::byte> cubin, CUlibrary handle);
  ~Library();
  Library(Library&& other) noexcept;
  Library& operator=(Library&&) = delete;

  const Driver& driver() const { return *driver_; }
  CUlibrary handle() const { return handle_; }

 private:
  const Driver* driver_;
  std::vector<std::byte> cubin_;
  CUlibrary handle_ = nullptr;
};

/// The outcome of loading a cubin.
struct LoadResult {
  std::unique_ptr<Library> library;  ///< null where the driver refuses the cubin
  std::string refusal;               ///< then why, in the driver's words
};

/// Loads `cubin` and its kernel `entry` into the current context. What the driver holds against the
/// cubin itself (its form, its architecture, its version, no such kernel) is a refusal; all else
/// throws Error(kCuda).
LoadResult load_library(const Driver& driver, std::vector<std::byte> cubin,
                        const std::string& entry);

/// Properties of a loaded kernel, as the driver reports them.
struct KernelAttributes {
  int registers = 0;  ///< per thread
  int local_bytes = 0;
  int static_shared_bytes = 0;
  int max_threads_per_block = 0;
};

/// One entry of a Library, ready to launch in the context that was current when it was made.
/// It is a plain value: the library and the context must outlive it.
class Kernel {
 public:
  /// Throws Error(kInternal) when the cubin has no entry `name`, Error(kUnsupported) when the
  /// device refuses `dynamic_shared_bytes`.
  Kernel(const Library& library, const std::string& name, unsigned dynamic_shared_bytes = 0);

  CUfunction function() const { return function_; }
  const KernelAttributes& attributes() const { return attributes_; }

 private:
  CUfunction function_ = nullptr;
  KernelAttributes attributes_;
};

}  // namespace attnjit::cuda
