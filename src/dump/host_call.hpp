#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "dump/call.hpp"
#include "dump/elements.hpp"

namespace attnjit::dump {

/// A call whose parts lie in host memory of its own, modulo kAddressBytes where they lay. What is
/// not written yet, and the bytes between elements, are NaN.
class HostCall {
 public:
  /// The memory of a part, as much before its lowest element as its address asks for.
  struct Block {
    struct Release {
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte[], Release> memory;  ///< null for a part without data
    std::size_t bytes = 0;
    std::size_t data = 0;  ///< offset of the element that the part's address names

    std::span<std::byte> span() const { return {memory.get(), bytes}; }
  };

  /// Throws Error(kUnsupported) where the memory of all parts is more than `max_bytes`, and
  /// Error(kInvalidProblem) for a part of no size.
  HostCall(const Call& call, std::uint64_t max_bytes);

  const Call& call() const { return call_; }
  const std::vector<Part>& parts() const { return parts_; }
  std::span<const Block> blocks() const { return blocks_; }

  /// Puts packed elements into part `index`.
  void fill(std::size_t index, std::span<const std::byte> packed);

  /// Makes the outputs NaN again.
  void clear_outputs();

 private:
  Call call_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;  // in that memory
};

/// Bytes that a HostCall of `call` takes. Throws Error(kInvalidProblem) for a part of no size.
std::uint64_t host_bytes(const Call& call);

}  // namespace attnjit::dump
