#include "dump/host_call.hpp"

#include <fmt/format.h>

#include <cstring>

#include "attnjit/error.hpp"
#include "dump/call_json.hpp"

namespace attnjit::dump {
namespace {

// A NaN of every dtype that has one, and an index that nothing has.
constexpr int kUnset = 0xff;

// The place of a part's memory: `before` bytes of padding, then its extent.
struct Place {
  std::uint64_t before = 0, bytes = 0, data = 0;
};

Place place_of(const Part& part) {
  const std::optional<Extent> extent = extent_of(part.view);
  if (!extent) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("{}: its shape and strides are those of no memory; expected sizes from "
                            "0 within 2^62 bytes",
                            part.name));
  }
  if (part.view.data == nullptr) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(part.view.data);
  const std::uint64_t before = (address - extent->before) % kAddressBytes;
  return {before, before + extent->bytes, before + extent->before};
}

}  // namespace

std::uint64_t host_bytes(const Call& call) {
  std::uint64_t bytes = 0;
  for (const Part& part : call.parts()) {
    if (__builtin_add_overflow(bytes, place_of(part).bytes, &bytes)) bytes = ~std::uint64_t{0};
  }
  return bytes;
}

void HostCall::Block::Release::operator()(std::byte* memory) const {
  ::operator delete[](memory, std::align_val_t{kAddressBytes});
}

HostCall::HostCall(const Call& call, std::uint64_t max_bytes) : call_(call) {
  if (const std::uint64_t bytes = host_bytes(call); bytes > max_bytes) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the tensors of the call span {} bytes, and {} are allowed here; use a "
                            "machine with more memory",
                            bytes, max_bytes));
  }
  std::vector<void*> addresses;
  for (const Part& part : call.parts()) {
    const Place place = place_of(part);
    Block block;
    if (part.view.data != nullptr) {
      block.bytes = place.bytes;
      block.data = place.data;
      block.memory.reset(static_cast<std::byte*>(
          ::operator new[](place.bytes + 1, std::align_val_t{kAddressBytes})));
      std::memset(block.memory.get(), kUnset, place.bytes);
    }
    addresses.push_back(block.memory.get() + block.data);
    blocks_.push_back(std::move(block));
  }
  call_.place(addresses);
  parts_ = call_.parts();
}

void HostCall::fill(std::size_t index, std::span<const std::byte> packed) {
  if (parts_[index].view.data != nullptr) unpack(parts_[index].view, packed);
}

void HostCall::clear_outputs() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].role == Role::kOutput && blocks_[i].memory != nullptr) {
      std::memset(blocks_[i].memory.get(), kUnset, blocks_[i].bytes);
    }
  }
}

}  // namespace attnjit::dump
