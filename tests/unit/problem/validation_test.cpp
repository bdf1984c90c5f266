#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::bias;
using attnjit::test::fake_address;
using attnjit::test::forward_args;
using attnjit::test::mask;
using attnjit::test::refusal;

namespace {

struct Case {
  void (*change)(ForwardArgs&);
  std::string start;  ///< of the message: the argument's name, and what it has
  std::string part;   ///< what is allowed
};

// The base has B 4, Hq 32, Hkv 8, Lq 128, Lk 192, D 64, Dv 128, bf16.
void check_refused(const std::vector<Case>& cases, const ForwardArgs& base) {
  REQUIRE(refusal(base) == "");
  for (const Case& c : cases) {
    ForwardArgs args = base;
    c.change(args);
    const std::string message = refusal(args);
    CAPTURE(message);
    CHECK_MESSAGE(message.starts_with(c.start), "expected to start with: ", c.start);
    CHECK_MESSAGE(message.find(c.part) != std::string::npos, "expected: ", c.part);
  }
}

ForwardArgs with_operands() {
  ForwardArgs args = forward_args();
  args.mask = mask(args, "bhqk");
  args.bias = bias(args, "bhqk");
  return args;
}

void* odd_address(std::uintptr_t bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(fake_address(0)) + bytes);
}

constexpr std::int64_t kPastInt32 = std::int64_t{1} << 31;

}  // namespace

TEST_CASE("sizes that do not belong together are refused") {
  check_refused(
      {{[](auto& a) { a.q.shape[0] = -1; }, "q: batch axis is -1;", "expected 0 to 2147483647"},
       {[](auto& a) { a.q.shape[0] = kPastInt32; }, "q: batch axis is 2147483648;",
        "expected 0 to 2147483647"},
       {[](auto& a) { a.q.shape[1] = 0; }, "q: head axis is 0;", "expected 1 to 2147483647"},
       {[](auto& a) { a.q.shape[1] = kPastInt32; }, "q: head axis is 2147483648;",
        "expected 1 to 2147483647"},
       {[](auto& a) { a.q.shape[2] = -5; }, "q: sequence axis is -5;", "expected 0 to 536870912"},
       {[](auto& a) { a.q.shape[2] = problem::kMaxSeqlen + 1; }, "q: sequence axis is 536870913;",
        "expected 0 to 536870912"},
       {[](auto& a) { a.q.shape[3] = 0; }, "q: feature axis is 0;", "expected 1 to 256"},
       {[](auto& a) { a.q.shape[3] = 257; }, "q: feature axis is 257;", "expected 1 to 256"},
       {[](auto& a) { a.k.shape[0] = 3; }, "k: batch axis is 3;", "expected 4"},
       {[](auto& a) { a.k.shape[1] = 0; }, "k: head axis is 0;", "expected 1 to 2147483647"},
       {[](auto& a) { a.k.shape[1] = a.v.shape[1] = 5; }, "k: head axis is 5;", "32"},
       {[](auto& a) { a.k.shape[1] = a.v.shape[1] = 64; }, "k: head axis is 64;", "32"},
       {[](auto& a) { a.k.shape[2] = problem::kMaxSeqlen + 1; }, "k: sequence axis is 536870913;",
        "expected 0 to 536870912"},
       {[](auto& a) { a.k.shape[2] = -1; }, "k: sequence axis is -1;", "expected 0 to 536870912"},
       {[](auto& a) { a.k.shape[3] = 63; }, "k: feature axis is 63;", "expected 64"},
       {[](auto& a) { a.v.shape[0] = 1; }, "v: batch axis is 1;", "expected 4"},
       {[](auto& a) { a.v.shape[1] = 32; }, "v: head axis is 32;", "expected 8"},
       {[](auto& a) { a.v.shape[2] = 191; }, "v: sequence axis is 191;", "expected 192"},
       {[](auto& a) { a.v.shape[3] = 0; }, "v: feature axis is 0;", "expected 1 to 256"},
       {[](auto& a) { a.v.shape[3] = 257; }, "v: feature axis is 257;", "expected 1 to 256"},
       {[](auto& a) { a.out.shape[0] = 2; }, "out: batch axis is 2;", "expected 4"},
       {[](auto& a) { a.out.shape[1] = 8; }, "out: head axis is 8;", "expected 32"},
       {[](auto& a) { a.out.shape[2] = 127; }, "out: sequence axis is 127;", "expected 128"},
       {[](auto& a) { a.out.shape[3] = 64; }, "out: feature axis is 64;", "expected 128"}},
      forward_args());
}

TEST_CASE("element types, addresses and strides of q, k, v and out") {
  check_refused(
      {{[](auto& a) { a.q.dtype = DType::kFloat32; }, "q: dtype is fp32;", "fp16 or bf16"},
       {[](auto& a) { a.q.dtype = DType::kBool; }, "q: dtype is bool;", "fp16 or bf16"},
       {[](auto& a) { a.k.dtype = DType::kFloat16; }, "k: dtype is fp16;", "expected bf16"},
       {[](auto& a) { a.v.dtype = DType::kFloat32; }, "v: dtype is fp32;", "expected bf16"},
       {[](auto& a) { a.out.dtype = DType::kFloat32; }, "out: dtype is fp32;", "expected bf16"},
       {[](auto& a) { a.q.data = nullptr; }, "q: data is null", "device address"},
       {[](auto& a) { a.k.data = nullptr; }, "k: data is null", "device address"},
       {[](auto& a) { a.v.data = nullptr; }, "v: data is null", "device address"},
       {[](auto& a) { a.out.data = nullptr; }, "out: data is null", "device address"},
       {[](auto& a) { a.q.data = odd_address(1); }, "q: address 0x10000000001", "2 bytes"},
       {[](auto& a) { a.k.data = odd_address(3); }, "k: address 0x10000000003", "2 bytes"},
       {[](auto& a) { a.v.data = odd_address(5); }, "v: address 0x10000000005", "2 bytes"},
       {[](auto& a) { a.out.data = odd_address(1); }, "out: address 0x10000000001", "2 bytes"},
       {[](auto& a) { a.q.strides[3] = 2; }, "q: feature axis has stride 2;", "expected 1"},
       {[](auto& a) { a.k.strides[3] = 0; }, "k: feature axis has stride 0;", "expected 1"},
       {[](auto& a) { a.v.strides[3] = -1; }, "v: feature axis has stride -1;", "expected 1"},
       {[](auto& a) { a.out.strides[3] = 3; }, "out: feature axis has stride 3;", "expected 1"}},
      forward_args());
}

TEST_CASE("an output whose elements share memory is refused") {
  check_refused(
      {{[](auto& a) { a.out.strides[0] = 0; }, "out: strides (0, 16384, 128, 1)", "overlap"},
       {[](auto& a) { a.out.strides[1] = 0; }, "out: strides (524288, 0, 128, 1)", "overlap"},
       {[](auto& a) { a.out.strides[2] = 127; }, "out: strides (524288, 16384, 127, 1)", "overlap"},
       {[](auto& a) { a.out.strides[1] = 16383; }, "out: strides (524288, 16383", "overlap"},
       {[](auto& a) { a.out.strides[0] = -16384; }, "out: strides (-16384, 16384", "overlap"},
       // The sum of what the axes span does not fit 64 bits: it must not come out small.
       {[](auto& a) {
          a.out.strides[1] = std::int64_t{1} << 61;
          a.out.strides[0] = std::int64_t{1} << 62;
        },
        "out: strides (4611686018427387904, 2305843009213693952", "overlap"}},
      forward_args());
}

TEST_CASE("a mask or bias of the wrong shape is refused by the name of its axis") {
  check_refused(
      {{[](auto& a) { a.mask->shape[0] = 3; }, "mask: batch axis is 3;", "expected a divisor of 4"},
       {[](auto& a) { a.mask->shape[1] = 3; },
        "mask: head axis is 3; expected 1, 8 (kv heads) or "
        "32 (query heads)",
        ""},
       {[](auto& a) { a.mask->shape[1] = 0; }, "mask: head axis is 0;", "expected 1, 8"},
       {[](auto& a) { a.mask->shape[2] = 64; }, "mask: query axis is 64;", "expected 1 or 128"},
       {[](auto& a) { a.mask->shape[3] = 128; }, "mask: key axis is 128;", "expected 1 or 192"},
       {[](auto& a) { a.mask->shape[3] = 0; }, "mask: key axis is 0;", "expected 1 or 192"},
       {[](auto& a) { a.bias->shape[0] = 8; }, "bias: batch axis is 8;", "expected a divisor of 4"},
       {[](auto& a) { a.bias->shape[0] = 0; }, "bias: batch axis is 0;", "expected a divisor of 4"},
       {[](auto& a) { a.bias->shape[0] = -2; }, "bias: batch axis is -2;", "expected a divisor"},
       {[](auto& a) { a.bias->shape[1] = 4; },
        "bias: head axis is 4; expected 1, 8 (kv heads) or "
        "32 (query heads)",
        ""},
       {[](auto& a) { a.bias->shape[2] = 64; }, "bias: query axis is 64;", "expected 1 or 128"},
       {[](auto& a) { a.bias->shape[3] = 191; }, "bias: key axis is 191;", "expected 1 or 192"},
       {[](auto& a) { a.bias->shape[3] = -1; }, "bias: key axis is -1;", "expected 1 or 192"}},
      with_operands());

  ForwardArgs args = forward_args({.heads_q = 8, .heads_kv = 8});
  args.mask = mask(args, "bhqk");
  args.mask->shape[1] = 3;
  CHECK(refusal(args) == "mask: head axis is 3; expected 1 or 8 (heads)");
}

TEST_CASE("an order of planes that the operand or the batch does not have is refused") {
  ForwardArgs args = forward_args();
  args.mask = mask(args, "s1qk");  // two planes of four batch elements
  args.bias = bias(args, "bhqk");
  check_refused(
      {{[](auto& a) { a.mask_order.inner = 3; }, "mask_inner: 3;",
        "a divisor of 2, which is the batch of q by the 2 planes of the mask, or 0"},
       {[](auto& a) { a.mask_order.inner = -1; }, "mask_inner: -1;", "a divisor of 2"},
       {[](auto& a) { a.mask_order.inner = kPastInt32 << 31; }, "mask_inner: ", "a divisor of 2"},
       {[](auto& a) { a.bias_order.inner = 2; }, "bias_inner: 2;", "a divisor of 1"},
       {[](auto& a) {
          a.mask_order = {1, 3};
        },
        "mask_cycle: 3;", "a divisor of the 2 planes"},
       {[](auto& a) {
          a.mask_order = {1, -2};
        },
        "mask_cycle: -2;", "a divisor of the 2 planes"},
       {[](auto& a) { a.mask_order.cycle = 2; }, "mask_cycle: 2 without mask_inner", "expected 0"},
       {[](auto& a) {
          a.mask_order.inner = 1;
          a.mask->shape[0] = 1;
        },
        "mask_inner: 1 without a mask of several planes", "expected 0"},
       {[](auto& a) {
          a.bias_order.cycle = 1;
          a.bias.reset();
        },
        "bias_cycle: 1 without a bias of several planes", "expected 0"}},
      args);
}

TEST_CASE("element types and addresses of mask and bias") {
  check_refused(
      {{[](auto& a) { a.mask->dtype = DType::kFloat32; }, "mask: dtype is fp32;", "bool"},
       {[](auto& a) { a.mask->dtype = DType::kBFloat16; }, "mask: dtype is bf16;", "bool"},
       {[](auto& a) { a.mask->data = nullptr; }, "mask: data is null", "device address"},
       {[](auto& a) { a.bias->dtype = DType::kBool; }, "bias: dtype is bool;", "bf16 or fp32"},
       {[](auto& a) { a.bias->dtype = DType::kFloat16; }, "bias: dtype is fp16;", "bf16 (as q) or"},
       {[](auto& a) { a.bias->data = nullptr; }, "bias: data is null", "device address"},
       {[](auto& a) { a.bias->data = odd_address(1); }, "bias: address 0x10000000001", "2 bytes"},
       {[](auto& a) {
          a.bias->dtype = DType::kFloat32;
          a.bias->data = odd_address(2);
        },
        "bias: address 0x10000000002", "4 bytes"}},
      with_operands());
}

TEST_CASE("packed sequences come with their number, and lie in one batch element") {
  ForwardArgs base = forward_args();
  for (Tensor* tensor : {&base.q, &base.k, &base.v, &base.out}) tensor->shape[0] = 1;
  base.cu_seqlens_q = base.cu_seqlens_kv = fake_address<std::int32_t>(7);
  base.num_sequences = 6;
  base.bias = bias(base, "1hqk");
  check_refused(
      {{[](auto& a) { a.cu_seqlens_q = nullptr; }, "cu_seqlens_q: null", "both or none"},
       {[](auto& a) { a.cu_seqlens_kv = nullptr; }, "cu_seqlens_kv: null", "both or none"},
       {[](auto& a) { a.cu_seqlens_q = a.cu_seqlens_kv = nullptr; }, "num_sequences: 6 without",
        "expected 0"},
       {[](auto& a) { a.num_sequences = 0; }, "num_sequences: 0;", "expected 1 to 8388608"},
       {[](auto& a) { a.num_sequences = kPastInt32; }, "num_sequences: 2147483648;", "8388608"},
       {[](auto& a) { a.q.shape[0] = 2; }, "q: batch axis is 2;", "expected 1"},
       {[](auto& a) { a.k.shape[0] = 6; }, "k: batch axis is 6;", "expected 1"},
       {[](auto& a) { a.bias->shape[0] = 4; }, "bias: batch axis is 4;", "6 (sequences)"},
       {[](auto& a) { a.bias->shape[3] = -1; }, "bias: key axis is -1;", "expected 0 to"},
       {[](auto& a) { a.cu_seqlens_q = static_cast<const std::int32_t*>(odd_address(2)); },
        "cu_seqlens_q: address", "4 bytes"}},
      base);
}

TEST_CASE("slopes are a number per query head, or per batch element and query head") {
  ForwardArgs base = forward_args();
  base.diagonal = Diagonal::kTopLeft;
  base.alibi_slopes = Tensor::contiguous(base.q.data, DType::kFloat32, {base.q.shape[0], 32, 1, 1});
  problem::make_problem(base);
  check_refused({{[](auto& a) { a.alibi_slopes->shape[0] = 7; }, "alibi_slopes: batch axis is 7;",
                  "expected 1 or"},
                 {[](auto& a) { a.alibi_slopes->shape[1] = 8; }, "alibi_slopes: head axis is 8;",
                  "32 (q's heads)"},
                 {[](auto& a) { a.alibi_slopes->shape[3] = 2; }, "alibi_slopes: feature axis is 2;",
                  "expected 1"},
                 {[](auto& a) { a.alibi_slopes->dtype = a.q.dtype; },
                  "alibi_slopes: dtype is bf16;", "expected fp32"},
                 {[](auto& a) { a.alibi_slopes->data = nullptr; }, "alibi_slopes: data is null",
                  "device address"},
                 {[](auto& a) {
                    a.diagonal = Diagonal::kUnspecified;
                    a.seqlens_q = static_cast<const std::int32_t*>(a.q.data);
                  },
                  "diagonal: unspecified with alibi_slopes;", "top_left or bottom_right"}},
                base);
}

TEST_CASE("a sink is a number per query head") {
  ForwardArgs base = forward_args();
  base.sink = Tensor::contiguous(base.q.data, base.q.dtype, {1, 32, 1, 1});
  check_refused(
      {{[](auto& a) { a.sink->shape[0] = 4; }, "sink: batch axis is 4;", "expected 1"},
       {[](auto& a) { a.sink->shape[1] = 8; }, "sink: head axis is 8;", "32 (q's heads)"},
       {[](auto& a) { a.sink->dtype = DType::kFloat16; }, "sink: dtype is fp16;", "bf16 (as q)"},
       {[](auto& a) { a.sink->data = nullptr; }, "sink: data is null", "device address"}},
      base);
}

TEST_CASE("options that mean nothing are refused") {
  check_refused({{[](auto& a) { a.scale = std::numeric_limits<float>::quiet_NaN(); }, "scale: nan;",
                  "finite"},
                 {[](auto& a) { a.scale = INFINITY; }, "scale: inf;", "finite"},
                 {[](auto& a) { a.scale = -INFINITY; }, "scale: -inf;", "finite"},
                 {[](auto& a) { a.diagonal_offset = problem::kMaxSeqlen + 1; },
                  "diagonal_offset: 536870913;", "-536870912 to 536870912"},
                 {[](auto& a) { a.diagonal_offset = INT64_MIN; },
                  "diagonal_offset: -9223372036854775808;", "536870912"},
                 {[](auto& a) { a.softcap = -1.0f; }, "softcap: -1;", "from 0 on"},
                 {[](auto& a) { a.softcap = INFINITY; }, "softcap: inf;", "finite"},
                 {[](auto& a) { a.window.left = -2; }, "window: left is -2;", "expected -1 (open)"},
                 {[](auto& a) { a.window.right = INT64_MIN; },
                  "window: right is -9223372036854775808;", "-1"},
                 {[](auto& a) {
                    a.causal = true;
                    a.window.right = -2;
                  },
                  "window: right is -2;", "-1"},
                 {[](auto& a) { a.causal = true; }, "diagonal: unspecified with causal;",
                  "top_left or bottom_right"},
                 {[](auto& a) { a.window.left = 0; }, "diagonal: unspecified with a window;",
                  "top_left or bottom_right"},
                 {[](auto& a) { a.window.right = 7; }, "diagonal: unspecified with a window;",
                  "top_left or bottom_right"},
                 {[](auto& a) { a.diagonal = static_cast<Diagonal>(3); }, "diagonal: value 3;",
                  "top_left or bottom_right"},
                 {[](auto& a) { a.diagonal = static_cast<Diagonal>(-1); }, "diagonal: value -1;",
                  "top_left or bottom_right"},
                 {[](auto& a) { a.lse = static_cast<float*>(odd_address(2)); },
                  "lse: address 0x10000000002", "4 bytes"},
                 {[](auto& a) { a.row_max = static_cast<float*>(odd_address(1)); },
                  "row_max: address 0x10000000001", "4 bytes"},
                 {[](auto& a) { a.max_logits = static_cast<float*>(odd_address(3)); },
                  "max_logits: address 0x10000000003", "4 bytes"},
                 {[](auto& a) { a.seqlens_q = static_cast<std::int32_t*>(odd_address(1)); },
                  "seqlens_q: address 0x10000000001", "4 bytes"},
                 {[](auto& a) { a.seqlens_kv = static_cast<std::int32_t*>(odd_address(3)); },
                  "seqlens_kv: address 0x10000000003", "4 bytes"}},
                forward_args());
}
