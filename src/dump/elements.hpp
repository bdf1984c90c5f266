#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "attnjit/tensor.hpp"

/// The elements of a strided tensor as bytes without gaps. They lie in the order of memory: axes of
/// larger strides first. An axis of stride 0 counts once, for its elements are one.
namespace attnjit::dump {

/// Copies bytes from where a call has its tensors, such as a device. Throws what keeps it from it.
using Fetch = std::function<void(void* to, const void* from, std::size_t bytes)>;
/// Fetches from host memory.
void fetch_from_host(void* to, const void* from, std::size_t bytes);

/// Takes the next bytes.
using Sink = std::function<void(std::span<const std::byte>)>;

/// Bytes without gaps; nullopt where the sizes are no sizes, or more than a number holds.
std::optional<std::uint64_t> packed_bytes(const Tensor& view);

/// The memory from the lowest to past the highest element.
struct Extent {
  std::uint64_t bytes = 0;
  std::uint64_t before =
      0;  ///< bytes before the element that `data` points to: of negative strides
};
/// nullopt as above.
std::optional<Extent> extent_of(const Tensor& view);

/// Passes the elements on, in chunks. Fetches what lies between them too where that is little: in
/// fewer copies. The view has an extent.
void pack(const Tensor& view, const Fetch& fetch, const Sink& sink);

/// All of them at once.
std::vector<std::byte> packed(const Tensor& view, const Fetch& fetch);

/// The opposite in host memory: packed_bytes() of `packed` into the elements of `view`.
void unpack(const Tensor& view, std::span<const std::byte> packed);

}  // namespace attnjit::dump
