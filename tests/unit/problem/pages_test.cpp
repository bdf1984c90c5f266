#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "problem/plan_key.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::fake_address;
using attnjit::test::forward_args;
using attnjit::test::pack_queries;
using attnjit::test::page_keys;
using attnjit::test::refusal;
using attnjit::test::tail_mask;
using problem::make_problem;
using problem::Problem;

namespace {

ForwardArgs paged_args(std::int64_t page_size = 16) {
  ForwardArgs args = forward_args();
  page_keys(args, page_size);
  return args;
}

bool says(const std::string& message, const std::vector<std::string>& parts) {
  return std::ranges::all_of(
      parts, [&](const std::string& part) { return message.find(part) != std::string::npos; });
}

struct Refused {
  void (*change)(ForwardArgs&);
  std::vector<std::string> parts;  // of the message
};

}  // namespace

TEST_CASE(
    "paged keys: the table says how many keys there are, pages how many a kernel divides by") {
  const ForwardArgs args = paged_args();
  const Problem p = make_problem(args);
  CHECK(p.seqlen_kv == 192);
  CHECK(p.page_size == 16);
  CHECK(p.num_pages == 4 * 12 + 1);
  CHECK(p.table_stride == 15);
  CHECK(p.key_planes() == 49);
  CHECK(p.key_rows() == 16);
  CHECK(p.aligned);
  CHECK(problem::family(p).page_size == 16);
  CHECK(problem::family(p).seqlens);
  CHECK(problem::describe(p).find(" page_size=16 pages=49 seqlens_kv") != std::string::npos);
  CHECK(problem::describe(problem::family(p)).find(" page_size=16") != std::string::npos);
  CHECK(problem::family(make_problem(paged_args(64))) != problem::family(p));

  ForwardArgs longer = args;
  longer.max_pages = 10;
  longer.k.shape[0] = longer.v.shape[0] = 7;
  CHECK(make_problem(longer).seqlen_kv == 160);
  CHECK(problem::family(make_problem(longer)) == problem::family(p));
}

TEST_CASE(
    "paged keys: both memory orders are strides, and one page or one row of the table has none") {
  ForwardArgs args = paged_args();
  for (Tensor* t : {&args.k, &args.v}) {  // [pages, page size, Hkv, D]
    t->strides = {16 * 8 * t->shape[3], t->shape[3], 8 * t->shape[3], 1};
  }
  const Problem p = make_problem(args);
  CHECK(p.aligned);
  CHECK(p.k.row == 8 * 64);
  args.k.strides[0] += 1;
  CHECK_FALSE(make_problem(args).aligned);
  ForwardArgs one = forward_args({.batch = 1});
  page_keys(one, 192);
  CHECK(make_problem(one).table_stride == 0);
  one.k.shape[0] = one.v.shape[0] = 1;
  CHECK(make_problem(one).k.batch == 0);
}

TEST_CASE("paged keys: pools of more than 2^31 elements") {
  ForwardArgs args = paged_args(256);
  args.max_pages = 100;
  args.block_table_stride = 1 << 20;
  for (Tensor* t : {&args.k, &args.v}) {
    t->shape = {1 << 20, 8, 256, t->shape[3]};
    t->strides = {8 * 256 * t->shape[3], 256 * t->shape[3], t->shape[3], 1};
  }
  CHECK(make_problem(args).num_pages == 1 << 20);
}

TEST_CASE("paged keys: what is refused") {
  const Refused cases[] = {
      {[](auto& a) { a.seqlens_kv = nullptr; },
       {"seqlens_kv: null with block_table;", "keys in use"}},
      {[](auto& a) { a.block_table = nullptr; },
       {"max_pages, block_table_stride: 12 and 15", "expected 0"}},
      {[](auto& a) { a.block_table = reinterpret_cast<const std::int32_t*>(6); },
       {"block_table: address 0x6", "4 bytes"}},
      {[](auto& a) { a.max_pages = -1; }, {"max_pages: -1;", "expected 0 to"}},
      {[](auto& a) { a.max_pages = a.block_table_stride = 1 << 26; },
       {"max_pages: 67108864;", "0 to 33554432 pages of 16 keys"}},
      {[](auto& a) { a.block_table_stride = 11; },
       {"block_table_stride: 11;", "at least max_pages, 12"}},
      {[](auto& a) { a.k.shape[0] = 0; }, {"k: batch axis is 0;", "expected 1 to"}},
      {[](auto& a) { a.v.shape[0] = 3; }, {"v: batch axis is 3;", "expected 49 (k's pages)"}},
      {[](auto& a) { a.k.shape[2] = 0; }, {"k: sequence axis is 0;", "expected 1 to"}},
      {[](auto& a) { a.v.shape[2] = 8; }, {"v: sequence axis is 8;", "expected 16"}},
      {[](auto& a) { a.cu_seqlens_kv = a.seqlens_kv; },
       {"cu_seqlens_kv: given together with block_table;", "give seqlens_kv"}},
      {[](auto& a) { a.num_sequences = 4; }, {"num_sequences: 4 without cu_seqlens_q"}},
      {[](auto& a) { a.causal = true; }, {"diagonal: unspecified with causal"}}};
  for (const Refused& refused : cases) {
    ForwardArgs args = paged_args();
    REQUIRE(refusal(args) == "");
    refused.change(args);
    CAPTURE(refusal(args));
    CHECK(says(refusal(args), refused.parts));
  }
}

TEST_CASE("paged keys: the table of no batch element may have no address") {
  ForwardArgs args = paged_args();
  args.q.shape[0] = args.out.shape[0] = 0;
  args.q.data = args.out.data = nullptr;
  args.block_table = args.seqlens_kv = nullptr;
  const Problem p = make_problem(args);
  CHECK(p.empty());
  CHECK(p.page_size == 16);
  CHECK(p.has_seqlens_kv);
}

TEST_CASE("packed pages: sequences take the place of batch elements in the table") {
  const ForwardArgs batch = paged_args();
  ForwardArgs args = batch;
  pack_queries(args);
  const Problem p = make_problem(args);
  CHECK(p.packed);
  CHECK(p.batch == 4);
  CHECK(p.tensor_batch() == 1);
  CHECK(p.seqlen_q == 4 * 128);
  CHECK(p.seqlen_kv == 192);
  CHECK(p.num_pages == 4 * 12 + 1);
  CHECK(p.table_stride == 15);
  const problem::Family family = problem::family(p);
  CHECK(family.packed);
  CHECK(family.page_size == 16);
  CHECK_FALSE(family.seqlens);  // packed sequences have them in any case
  CHECK(problem::describe(p).find(" packed page_size=16 pages=49 seqlens_kv") != std::string::npos);
  args.seqlens_q = args.seqlens_kv;
  CHECK(problem::family(make_problem(args)) == family);

  const Refused cases[] = {
      {[](auto& a) { a.seqlens_kv = nullptr; }, {"seqlens_kv: null with block_table;"}},
      {[](auto& a) { a.cu_seqlens_kv = a.cu_seqlens_q; },
       {"cu_seqlens_kv: given together with block_table;"}},
      {[](auto& a) { a.num_sequences = 0; }, {"num_sequences: 0;", "expected 1 to"}},
      {[](auto& a) { a.q.shape[0] = 2; }, {"q: batch axis is 2;", "expected 1"}},
      {[](auto& a) { a.block_table_stride = 11; }, {"block_table_stride: 11;"}},
      {[](auto& a) { a.tail_mask = tail_mask(a); }, {"tail_mask: given together with cu_seqlens_q"}},
      {[](auto& a) { a.causal = true; }, {"diagonal: unspecified with causal"}},
      {[](auto& a) {
         a.block_table = nullptr;
         a.max_pages = a.block_table_stride = 0;
       },
       {"cu_seqlens_kv: null with cu_seqlens_q;"}}};
  for (const Refused& refused : cases) {
    ForwardArgs changed = args;
    refused.change(changed);
    CAPTURE(refusal(changed));
    CHECK(says(refusal(changed), refused.parts));
  }
}

TEST_CASE("packed pages: a row of as many keys as a table names is one for all sequences") {
  ForwardArgs args = paged_args();
  pack_queries(args);
  args.mask = Tensor::contiguous(fake_address(4), DType::kBool, {1, 1, 1, 192});
  args.bias = Tensor::contiguous(fake_address(5), args.q.dtype, {4, 32, 100, 64});
  const Problem p = make_problem(args);
  CHECK_FALSE(p.mask.packs_keys);
  CHECK(p.mask.vectorized);
  CHECK(p.operand_queries == 100);
  CHECK(p.operand_keys == 64);
  args.mask->shape[0] = 3;
  CHECK(says(refusal(args), {"mask: batch axis is 3;", "divisor of 4 (sequences)"}));
}

TEST_CASE("tail mask: a column for each query, of each batch element or of all") {
  ForwardArgs args = forward_args();
  args.tail_mask = tail_mask(args);
  const Problem each = make_problem(args);
  CHECK(problem::tail_mask_pattern(each) == std::string("b"));
  CHECK(problem::family(each).tail_mask);
  CHECK(each.tail_mask.query_stride == 128);
  args.tail_mask->shape[0] = 1;
  const Problem one = make_problem(args);
  CHECK(problem::tail_mask_pattern(one) == std::string("1"));
  CHECK(problem::family(one) == problem::family(each));
  CHECK(problem::describe(one).find(" tail_mask=1") != std::string::npos);

  const Refused cases[] = {
      {[](auto& a) { a.tail_mask->shape[0] = 2; }, {"tail_mask: batch axis is 2;", "1 or 4"}},
      {[](auto& a) { a.tail_mask->shape[1] = 8; }, {"tail_mask: head axis is 8;", "expected 1"}},
      {[](auto& a) { a.tail_mask->shape[2] = 127; },
       {"tail_mask: sequence axis is 127;", "expected 128"}},
      {[](auto& a) { a.tail_mask->shape[3] = 192; },
       {"tail_mask: key axis is 192;", "expected 128"}},
      {[](auto& a) { a.tail_mask->dtype = a.q.dtype; }, {"tail_mask: dtype is bf16;", "bool"}},
      {[](auto& a) { a.tail_mask->data = nullptr; }, {"tail_mask: data is null"}}};
  for (const Refused& refused : cases) {
    ForwardArgs changed = args;
    refused.change(changed);
    CAPTURE(refusal(changed));
    CHECK(says(refusal(changed), refused.parts));
  }
}

TEST_CASE("paged keys and tail masks are forward only") {
  BackwardArgs args = test::backward_args();
  REQUIRE(refusal(args) == "");
  BackwardArgs drafts = args;
  drafts.forward.tail_mask = tail_mask(args.forward);
  CHECK(says(refusal(drafts), {"tail_mask: it is forward only;"}));
  page_keys(args.forward, 16);
  CHECK(says(refusal(args), {"block_table: paged keys are forward only;"}));
}
