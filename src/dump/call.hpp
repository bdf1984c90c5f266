#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attnjit/backward.hpp"

namespace attnjit::dump {

/// The use that kernels make of a part of a call.
enum class Role { kInput, kOutput };

/// A tensor, an array or a prepared mask of a call, as a tensor: arrays are contiguous, a prepared
/// mask is the bytes of its memory.
struct Part {
  std::string name;  ///< of the member: "q", "lse", "operands.x"
  Tensor view;       ///< without data where a pointer of the call is null
  Role role = Role::kInput;
};

/// A forward or a backward, and the lists and names that it points to.
class Call {
 public:
  explicit Call(const ForwardArgs& args);
  /// Drops the row_max and max_logits of its forward, which a backward neither reads nor writes.
  explicit Call(const BackwardArgs& args);
  Call(const Call& other);
  Call(Call&&) = default;
  Call& operator=(Call&&) = default;

  bool backward() const { return backward_; }
  const ForwardArgs& forward_args() const { return args_.forward; }
  const BackwardArgs& backward_args() const { return args_; }  ///< of a backward

  /// All parts, in the order of the lists of members (problem/call_members.hpp).
  std::vector<Part> parts() const;

  /// Gives part i the address addresses[i], and keeps those that are null where it has none.
  void place(std::span<void* const> addresses);

  /// The members, to be changed; lists are changed by set_operands() and set_gradients().
  BackwardArgs& members() { return args_; }
  void set_operands(std::span<const Operand> operands);
  void set_gradients(std::span<const Tensor> gradients);

 private:
  using Visit = std::function<void(const std::string& name, Tensor& view, Role role)>;
  void for_each_part(const Visit& visit);

  bool backward_;
  BackwardArgs args_;
  std::vector<std::string> names_;  // of operands
  std::vector<Operand> operands_;
  std::vector<Tensor> gradients_;
};

/// Batch elements or packed sequences.
std::int64_t num_elements(const ForwardArgs& args);

}  // namespace attnjit::dump
