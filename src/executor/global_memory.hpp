#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attnjit/executor/services.h"
#include "attnjit/tensor.hpp"

namespace attnjit::executor {

/// The use that kernels may make of a tensor: inputs are only read, and a kernel writes each
/// element of an output once, unless it may reuse it. What it replaces is an input, too.
enum class TensorRole { kInput, kOutput, kReused, kReplaced };

/// The tensors that the kernels of a plan may touch, byte by byte: what is an element, and who may
/// read it yet. Scratch memory is an output that later kernels read.
class GlobalMemory {
 public:
  /// Adds the elements of `view` under `name`; `element_bytes` takes the place of the dtype's size.
  /// Gaps between rows are not elements. Does nothing for a tensor without elements.
  void add(const std::string& name, const Tensor& view, std::size_t element_bytes, TensorRole role);

  /// The next kernel begins. If it `overlaps` the one before, it must wait before it reads what
  /// that wrote, and those that it overlaps in turn; otherwise all of them have ended.
  void begin_kernel(bool overlaps);

  /// Throws Violation for an access that leaves the elements of one tensor, that is not aligned to
  /// its size, that reads what was never written, that reads through the read-only cache what this
  /// kernel writes, that writes an input, or that writes what this kernel has written already and
  /// may not reuse. `waited`: the thread has waited for earlier kernels. May be called by several
  /// threads.
  void access(const void* address, unsigned bytes, GlobalAccess access, bool waited);

 private:
  // Bytes of kernels that have ended are kWritten, those of one that may still run beside this one
  // kWrittenAhead.
  enum Byte : std::uint8_t { kGap, kInput, kUnwritten, kWritten, kWrittenAhead, kWrittenNow };

  struct Region {
    std::string name;
    const std::byte* begin;
    bool reused;
    std::vector<std::uint8_t> bytes;  // a Byte each

    const std::byte* end() const { return begin + bytes.size(); }
  };

  Region& find(const std::byte* address, unsigned bytes, const char* verb);
  std::string describe_miss(const std::byte* address, unsigned bytes, const char* verb) const;
  void read_byte(const Region& region, std::size_t index, bool read_only, bool waited) const;
  void write_byte(Region& region, std::size_t index, bool waited) const;
  void add_to_byte(Region& region, std::size_t index, bool waited) const;
  void check_order(const Region& region, std::size_t index, std::uint8_t state, const char* verb,
                   bool waited) const;

  std::vector<Region> regions_;
};

}  // namespace attnjit::executor
