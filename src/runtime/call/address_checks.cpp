#include "runtime/call/address_checks.hpp"

#include <fmt/format.h>

#include <concepts>
#include <optional>
#include <span>

#include "attnjit/error.hpp"
#include "cuda/memory.hpp"
#include "problem/call_members.hpp"

namespace attnjit::runtime {
namespace {

void check_address(const cuda::Driver& driver, const char* what, const void* address) {
  if (address == nullptr || cuda::is_device_pointer(driver, address)) return;
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("{}: address {} is not device memory of the current context; copy the "
                          "tensor to the device first",
                          what, address));
}

void check_member(const cuda::Driver& driver, const char* what, const Tensor& tensor) {
  check_address(driver, what, tensor.data);
}
void check_member(const cuda::Driver& driver, const char* what, const PreparedMask& mask) {
  check_address(driver, what, mask.data);
}
void check_member(const cuda::Driver& driver, const char* what, const void* address) {
  check_address(driver, what, address);
}
void check_member(const cuda::Driver& driver, const char*, const ForwardArgs& args) {
  check_addresses(driver, args);
}
void check_member(const cuda::Driver& driver, const char*, std::span<const Operand> operands) {
  for (const Operand& operand : operands) check_member(driver, operand.name, operand.tensor);
}
void check_member(const cuda::Driver& driver, const char* what, std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) check_member(driver, what, tensor);
}
// Members without an address.
void check_member(const cuda::Driver&, const char*, const Expression&) {}
void check_member(const cuda::Driver&, const char*, const PlaneOrder&) {}
template <std::integral T>
void check_member(const cuda::Driver&, const char*, T) {}

template <class Args>
void check_members(const cuda::Driver& driver, const Args& args);
void check_member(const cuda::Driver& driver, const char*, const BlockLists& lists) {
  check_members(driver, lists);
}
template <class T>
void check_member(const cuda::Driver& driver, const char* what, const std::optional<T>& member) {
  if (member) check_member(driver, what, *member);
}

template <class Args>
void check_members(const cuda::Driver& driver, const Args& args) {
  base::for_each_field(
      args, [&](const char* name, const auto& member) { check_member(driver, name, member); });
}

}  // namespace

void check_addresses(const cuda::Driver& driver, const ForwardArgs& args) {
  check_members(driver, args);
}
void check_addresses(const cuda::Driver& driver, const BackwardArgs& args) {
  check_members(driver, args);
}
void check_addresses(const cuda::Driver& driver, const MergeLseArgs& args) {
  check_members(driver, args);
}
void check_addresses(const cuda::Driver& driver, const PrepareMaskArgs& args) {
  check_members(driver, args);
}

}  // namespace attnjit::runtime
