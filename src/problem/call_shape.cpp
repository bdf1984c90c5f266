#include "problem/call_shape.hpp"

#include <bit>
#include <optional>

namespace attnjit::problem {
namespace {

// What differs, or'ed into one number: a branch for each member would cost a processor more that
// comes from other code. Bindings name every member, so that a new one does not compile.
class Difference {
 public:
  bool none() const { return bits_ == 0; }

  void add(std::uint64_t a, std::uint64_t b) { bits_ |= a ^ b; }
  void add(const void* a, const void* b) {
    add(reinterpret_cast<std::uintptr_t>(a) % kAddressBytes,
        reinterpret_cast<std::uintptr_t>(b) % kAddressBytes);
    add(std::uint64_t{a == nullptr}, std::uint64_t{b == nullptr});
  }
  void add(const std::array<std::int64_t, 4>& a, const std::array<std::int64_t, 4>& b) {
    for (int i = 0; i < 4; ++i) {
      add(static_cast<std::uint64_t>(a[i]), static_cast<std::uint64_t>(b[i]));
    }
  }
  // Several times in a call: not inlined, so that the processor has the code from the second on.
  [[gnu::noinline]] void add(const Tensor& a, const Tensor& b) {
    const auto& [data, dtype, shape, strides] = a;
    add(data, b.data);
    add(static_cast<std::uint64_t>(dtype), static_cast<std::uint64_t>(b.dtype));
    add(shape, b.shape);
    add(strides, b.strides);
  }
  void add(const PreparedMask& a, const PreparedMask& b) {
    const auto& [data, shape, for_backward] = a;
    add(data, b.data);
    add(shape, b.shape);
    add(std::uint64_t{for_backward}, std::uint64_t{b.for_backward});
  }
  void add(const PlaneOrder& a, const PlaneOrder& b) {
    const auto& [inner, cycle] = a;
    add_number(inner, b.inner);
    add_number(cycle, b.cycle);
  }
  void add(float a, float b) {
    add(std::uint64_t{std::bit_cast<std::uint32_t>(a)},
        std::uint64_t{std::bit_cast<std::uint32_t>(b)});
  }
  template <class T>
  void add(const std::optional<T>& a, const std::optional<T>& b) {
    add(std::uint64_t{a.has_value()}, std::uint64_t{b.has_value()});
    if (a && b) add(*a, *b);
  }
  void add(const ScoreOptions& a, const ScoreOptions& b) {
    const auto& [scale, softcap, causal, window, diagonal, diagonal_offset] = a;
    add(scale, b.scale);
    add(softcap, b.softcap);
    add(std::uint64_t{causal}, std::uint64_t{b.causal});
    add_number(window.left, b.window.left);
    add_number(window.right, b.window.right);
    add_number(static_cast<std::int64_t>(diagonal), static_cast<std::int64_t>(b.diagonal));
    add_number(diagonal_offset, b.diagonal_offset);
  }
  void add(const ForwardArgs& a, const ForwardArgs& b);

 private:
  void add_number(std::int64_t a, std::int64_t b) {
    add(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
  }

  std::uint64_t bits_ = 0;
};

void Difference::add(const ForwardArgs& a, const ForwardArgs& b) {
  using A = ForwardArgs;
  // No bindings reach into a base.
  static_assert(sizeof(A) == sizeof(ScoreOptions) + 4 * sizeof(Tensor) +
                                 5 * sizeof(std::optional<Tensor>) +
                                 sizeof(std::optional<PreparedMask>) + 8 * sizeof(void*) +
                                 3 * sizeof(std::int64_t) + 2 * sizeof(PlaneOrder),
                "a member that these lists lack");
  add(static_cast<const ScoreOptions&>(a), static_cast<const ScoreOptions&>(b));
  add(a.q, b.q);
  add(a.k, b.k);
  add(a.v, b.v);
  add(a.out, b.out);
  for (const auto tensor : {&A::mask, &A::bias, &A::sink, &A::alibi_slopes, &A::tail_mask}) {
    add(a.*tensor, b.*tensor);
  }
  add(a.prepared_mask, b.prepared_mask);
  for (const auto address : {&A::lse, &A::row_max, &A::max_logits}) add(a.*address, b.*address);
  for (const auto address :
       {&A::seqlens_q, &A::seqlens_kv, &A::cu_seqlens_q, &A::cu_seqlens_kv, &A::block_table}) {
    add(a.*address, b.*address);
  }
  for (const auto number : {&A::num_sequences, &A::block_table_stride, &A::max_pages}) {
    add_number(a.*number, b.*number);
  }
  for (const auto order : {&A::mask_order, &A::bias_order}) add(a.*order, b.*order);
}

}  // namespace

bool same_shape(const ForwardArgs& a, const ForwardArgs& b) {
  Difference difference;
  difference.add(a, b);
  return difference.none();
}

bool same_shape(const BackwardArgs& a, const BackwardArgs& b) {
  const auto& [forward, dout, dlse, dq, dk, dv, dbias, dsink, deterministic] = a;
  Difference difference;
  difference.add(forward, b.forward);
  difference.add(dout, b.dout);
  difference.add(dlse, b.dlse);
  difference.add(dq, b.dq);
  difference.add(dk, b.dk);
  difference.add(dv, b.dv);
  difference.add(dbias, b.dbias);
  difference.add(dsink, b.dsink);
  difference.add(std::uint64_t{deterministic}, std::uint64_t{b.deterministic});
  return difference.none();
}

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
