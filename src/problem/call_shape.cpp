#include "problem/call_shape.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>

#include "problem/call_members.hpp"

namespace attnjit::problem {
namespace {

bool same_name(const char* a, const char* b) {
  return a == b || (a != nullptr && b != nullptr && std::strcmp(a, b) == 0);
}

// What differs, or'ed into one number: a branch for each member would cost a processor more that
// comes from other code.
class Difference {
 public:
  bool none() const { return bits_ == 0; }

  template <class T>
  requires std::integral<T> || std::is_enum_v<T>
  void add(T a, T b) { add_bits(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)); }
  void add(float a, float b) {
    add_bits(std::bit_cast<std::uint32_t>(a), std::bit_cast<std::uint32_t>(b));
  }
  void add(const void* a, const void* b) {
    add_bits(reinterpret_cast<std::uintptr_t>(a) % kAddressBytes,
             reinterpret_cast<std::uintptr_t>(b) % kAddressBytes);
    add(a == nullptr, b == nullptr);
  }
  void add(const std::array<std::int64_t, 4>& a, const std::array<std::int64_t, 4>& b) {
    for (int i = 0; i < 4; ++i) add(a[i], b[i]);
  }
  // Several times in a call: not inlined, so that the processor has the code from the second on.
  [[gnu::noinline]] void add(const Tensor& a, const Tensor& b) {
    const auto& [data, dtype, shape, strides] = a;  // every member
    add(data, b.data);
    add(dtype, b.dtype);
    add(shape, b.shape);
    add(strides, b.strides);
  }
  void add(const PreparedMask& a, const PreparedMask& b) {
    const auto& [data, shape, for_backward] = a;
    add(data, b.data);
    add(shape, b.shape);
    add(for_backward, b.for_backward);
  }
  void add(const PlaneOrder& a, const PlaneOrder& b) {
    const auto& [inner, cycle] = a;
    add(inner, b.inner);
    add(cycle, b.cycle);
  }
  void add(const Expression& a, const Expression& b) { add_bits(a == b ? 0 : 1, 0); }
  [[gnu::noinline]] void add(std::span<const attnjit::Operand> a,
                             std::span<const attnjit::Operand> b) {
    add(a.size(), b.size());
    for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n) {
      const auto& [name, rank, tensor] = a[n];
      add(same_name(name, b[n].name), true);
      add(rank, b[n].rank);
      add(tensor, b[n].tensor);
    }
  }
  void add(std::span<const Tensor> a, std::span<const Tensor> b) {
    add(a.size(), b.size());
    for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n) add(a[n], b[n]);
  }
  void add(const Window& a, const Window& b) {
    const auto& [left, right] = a;
    add(left, b.left);
    add(right, b.right);
  }
  template <class T>
  void add(const std::optional<T>& a, const std::optional<T>& b) {
    add(a.has_value(), b.has_value());
    if (a && b) add(*a, *b);
  }
  template <base::HasFields Args>
  void add(const Args& a, const Args& b) {
    if constexpr (std::derived_from<Args, ScoreOptions> && !std::same_as<Args, ScoreOptions>) {
      add(static_cast<const ScoreOptions&>(a), static_cast<const ScoreOptions&>(b));
    }
    base::kFields<Args>.apply(
        [&](const auto&... field) { (add(a.*(field.member), b.*(field.member)), ...); });
  }

 private:
  void add_bits(std::uint64_t a, std::uint64_t b) { bits_ |= a ^ b; }

  std::uint64_t bits_ = 0;
};

template <class Args>
bool same(const Args& a, const Args& b) {
  Difference difference;
  difference.add(a, b);
  return difference.none();
}

}  // namespace

bool same_shape(const ForwardArgs& a, const ForwardArgs& b) { return same(a, b); }
bool same_shape(const BackwardArgs& a, const BackwardArgs& b) { return same(a, b); }

// Of what tells most calls from one another, for equal numbers cost a comparison: how q and k lie,
// and which of the usual options there are. Products by constants do not wait for each other.
std::uint64_t shape_hash(const ForwardArgs& args) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  std::uint64_t sum = args.causal + 2 * args.mask.has_value() + 4 * args.bias.has_value() +
                      8 * (args.lse != nullptr);
  std::uint64_t factor = kOdd;
  const auto add = [&](std::uint64_t number) {
    sum += number * factor;
    factor *= kOdd;
  };
  const auto add_axes = [&](const Tensor& tensor) {
    for (int axis = 0; axis < 3; ++axis) {
      add(static_cast<std::uint64_t>(tensor.shape[axis]) +
          (static_cast<std::uint64_t>(tensor.strides[axis]) << 24));
    }
  };
  add_axes(args.q);
  add_axes(args.k);
  add(static_cast<std::uint64_t>(args.q.shape[3]));
  add(static_cast<std::uint64_t>(args.num_sequences));
  add(static_cast<std::uint64_t>(args.max_pages));
  return sum ^ (sum >> 32);
}
std::uint64_t shape_hash(const BackwardArgs& args) { return shape_hash(args.forward); }

}  // namespace attnjit::problem
