// Paged keys are the same keys in a row, and a mask over the last keys is one over all of them.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "attnjit/error.hpp"
#include "instance/host_problem.hpp"
#include "reference/forward.hpp"
#include "reference/paged.hpp"

using namespace attnjit;
using instance::HostProblem;
using instance::ProblemSpec;
using reference::Arithmetic;
using reference::Rows;

namespace {

ProblemSpec paged_spec() {
  ProblemSpec spec{
      .batch = 3, .heads_q = 4, .heads_kv = 2, .seqlen_q = 6, .seqlen_kv = 28, .head_dim = 8};
  spec.page_size = 7;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {28, 10, 3};
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  return spec;
}

}  // namespace

TEST_CASE("paged keys: what pages hold is found by the table, and nothing past the lengths") {
  ProblemSpec spec = paged_spec();
  spec.shared_pages = 1;
  const HostProblem paged(spec, 1);
  const ForwardArgs args = paged.args();
  CHECK(args.k.shape == std::array<std::int64_t, 4>{13, 2, 7, 8});
  CHECK(args.block_table[0] == args.block_table[args.block_table_stride]);
  const reference::UnpagedCall call(args);
  const Tensor& k = call.args().k;
  CHECK(k.shape == std::array<std::int64_t, 4>{3, 2, 28, 8});
  const auto* const pool = static_cast<const std::uint16_t*>(args.k.data);
  const auto* const keys = static_cast<const std::uint16_t*>(k.data);
  // Key 9 of element 1, head 1.
  const std::int64_t page = args.block_table[args.block_table_stride + 1];
  CHECK(keys[k.strides[0] + k.strides[1] + 9 * k.strides[2] + 5] ==
        pool[page * args.k.strides[0] + args.k.strides[1] + 2 * args.k.strides[2] + 5]);
  CHECK(keys[k.strides[0] + 10 * k.strides[2]] == 0);

  const auto ours = reference::forward(args, Arithmetic::kExact, Rows::every(), 1);
  const auto theirs = reference::forward(call.args(), Arithmetic::kExact, Rows::every(), 1);
  CHECK(ours.out == theirs.out);
  CHECK(ours.lse == theirs.lse);
}

TEST_CASE("paged keys: an entry in use without a page is an error, one past the keys is not") {
  const HostProblem problem(paged_spec(), 1);
  const ForwardArgs args = problem.args();
  auto* const table = const_cast<std::int32_t*>(args.block_table);
  CHECK(table[args.block_table_stride + 2] == 13);  // past its 10 keys
  table[args.block_table_stride + 1] = 13;
  CHECK_THROWS_WITH_AS(reference::forward(args, Arithmetic::kExact, Rows::every(), 1),
                       "block_table: entry 1 of batch element 1 is 13; expected 0 to 12", Error);
}

TEST_CASE("packed pages: each sequence is a call of its own") {
  ProblemSpec spec = paged_spec();
  spec.packed = true;
  spec.seqlen_q = 20;
  spec.cu_seqlens_q = {0, 9, 9, 18};  // and two rows of none
  spec.mask = "b1qk";
  spec.bias = "1h1k";
  const HostProblem packed(spec, 1);
  const ForwardArgs args = packed.args();
  CHECK(args.cu_seqlens_kv == nullptr);
  const auto all = reference::forward(args, Arithmetic::kExact, Rows::every(), 1);
  for (const std::int64_t b : {0, 2}) {
    ForwardArgs own = args;
    own.cu_seqlens_q = nullptr;
    own.num_sequences = 0;
    const std::int64_t begin = spec.cu_seqlens_q[b];
    for (Tensor* t : {&own.q, &own.out}) {
      t->data = static_cast<std::uint16_t*>(t->data) + begin * t->strides[2];
      t->shape[2] = 9;
    }
    own.seqlens_kv += b;
    own.block_table += b * own.block_table_stride;
    own.mask->data = static_cast<std::uint8_t*>(own.mask->data) + b * own.mask->strides[0];
    own.mask->shape[0] = 1;
    own.max_pages = 4;
    const auto one = reference::forward(own, Arithmetic::kExact, Rows::every(), 1);
    for (std::int64_t i = 0; i < 4 * 9; ++i) {
      const std::int64_t row = i / 9 * 20 + begin + i % 9;
      CHECK(all.lse[row] == one.lse[i]);
      CHECK(all.out[row * 8 + 3] == one.out[i * 8 + 3]);
    }
  }
  CHECK(all.dead[19] == 1);
  const_cast<std::int32_t*>(args.block_table)[2 * args.block_table_stride] = -1;
  CHECK_THROWS_WITH_AS(reference::forward(args, Arithmetic::kExact, Rows::every(), 1),
                       "block_table: entry 0 of batch element 2 is -1; expected 0 to 12", Error);
}

TEST_CASE("tail mask: a mask over the last keys in use, whose first columns may be no keys") {
  for (const char* pattern : {"b", "1"}) {
    ProblemSpec spec = paged_spec();
    spec.page_size = 0;
    spec.tail_mask = pattern;
    const HostProblem problem(spec, 1);
    ForwardArgs args = problem.args();
    const Tensor tail = *args.tail_mask;
    std::vector<std::uint8_t> all(3 * 6 * 28, 1);
    for (std::int64_t b = 0; b < 3; ++b) {
      for (std::int64_t row = 0; row < 6; ++row) {
        for (std::int64_t t = 0; t < 6; ++t) {
          const std::int64_t key = spec.seqlens_kv[b] - 6 + t;
          const std::int64_t plane = tail.shape[0] == 1 ? 0 : b;
          if (key < 0) continue;
          all[(b * 6 + row) * 28 + key] = static_cast<const std::uint8_t*>(
              tail.data)[plane * tail.strides[0] + row * tail.strides[2] + t];
        }
      }
    }
    const auto ours = reference::forward(args, Arithmetic::kExact, Rows::every(), 1);
    args.tail_mask.reset();
    args.mask = Tensor::contiguous(all.data(), DType::kBool, {3, 1, 6, 28});
    const auto theirs = reference::forward(args, Arithmetic::kExact, Rows::every(), 1);
    CHECK(ours.out == theirs.out);
    CHECK(ours.lse == theirs.lse);
  }
}
