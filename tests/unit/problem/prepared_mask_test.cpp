// Prepared masks: what is accepted to prepare and to attend with, and what messages say of the
// rest.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>

#include "problem/mask_problem.hpp"
#include "problem/plan_key.hpp"
#include "unit/backward_fixtures.hpp"

using namespace attnjit;
using problem::Extent;
using test::fake_address;

namespace {

PrepareMaskArgs to_prepare(const char* pattern, bool for_backward = true) {
  return {.mask = test::mask(test::forward_args(), pattern),
          .for_backward = for_backward,
          .memory = fake_address(9)};
}

// A call with the prepared form of a mask of this pattern.
ForwardArgs prepared(const char* pattern, bool for_backward = true) {
  ForwardArgs args = test::forward_args();
  const PrepareMaskArgs mask = to_prepare(pattern, for_backward);
  args.prepared_mask = problem::result_of(problem::make_problem(mask), mask);
  return args;
}

using Change = std::pair<std::function<void(ForwardArgs&)>, std::string>;

void check_refused(const char* pattern, const std::vector<Change>& cases) {
  CHECK(test::refusal(prepared(pattern)) == "");
  for (const auto& [change, message] : cases) {
    ForwardArgs args = prepared(pattern);
    change(args);
    CHECK(test::refusal(args).find(message) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a prepared mask has the sizes of the axes along which the mask differs") {
  PrepareMaskArgs args = to_prepare("bhqk");
  args.mask.strides[1] = 0;
  const problem::MaskProblem problem = problem::make_problem(args);
  CHECK(problem.key == problem::MaskKey{true, true, true});
  const PreparedMask result = problem::result_of(problem, args);
  CHECK(result.data == args.memory);
  CHECK(result.shape == std::array<std::int64_t, 4>{4, 1, 128, 192});
  CHECK(result.for_backward);
  CHECK(problem::describe(problem) == "prepared mask [4, 1, 128, 192] backward");
  args.mask.strides[3] = 2;
  CHECK_FALSE(problem::make_problem(args).key.vectorized);
}

TEST_CASE("bits by keys are made for a backward of a mask over pairs alone") {
  CHECK(problem::make_problem(to_prepare("b11k")).key == problem::MaskKey{false, true, false});
  CHECK(problem::make_problem(to_prepare("b1qk", false)).key ==
        problem::MaskKey{true, true, false});
}

TEST_CASE("messages name what a mask to prepare has and what is allowed") {
  const std::pair<std::function<void(PrepareMaskArgs&)>, std::string> cases[] = {
      {[](auto& a) { a.mask.dtype = DType::kFloat32; }, "mask: dtype is fp32; expected bool"},
      {[](auto& a) { a.mask.shape[2] = -1; }, "mask: query axis is -1; expected 0 to 536870912"},
      {[](auto& a) { a.mask.strides[3] = 0; },
       "mask: the key axis has size 192 and stride 0; a mask that is the same for all keys has no "
       "prepared form"},
      {[](auto& a) { a.memory = nullptr; }, "memory: null; expected prepared_mask_size() bytes"},
      {[](auto& a) { a.memory = static_cast<char*>(a.memory) + 8; },
       "is not a multiple of 16 bytes"},
      {[](auto& a) { a.mask.data = nullptr; }, "mask: data is null"}};
  for (const auto& [change, message] : cases) {
    PrepareMaskArgs args = to_prepare("b1qk");
    change(args);
    try {
      problem::result_of(problem::make_problem(args), args);
      FAIL("accepted: ", message);
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(message) != std::string::npos);
    }
  }
}

TEST_CASE("a mask without elements is prepared by doing nothing, in no memory") {
  PrepareMaskArgs args = to_prepare("b1qk");
  args.mask.shape[3] = 0;
  args.memory = nullptr;
  const problem::MaskProblem problem = problem::make_problem(args);
  CHECK(problem.empty());
  ForwardArgs call = test::forward_args({.seqlen_kv = 0});
  call.prepared_mask = problem::result_of(problem, args);
  CHECK(problem::make_problem(call).mask.extent == Extent::kAbsent);
}

TEST_CASE("a problem with a prepared mask is that of the mask, but for its strides") {
  for (const char* pattern : {"bhqk", "1gqk", "b11k", "s1qk"}) {
    CAPTURE(pattern);
    const problem::Problem p = problem::make_problem(prepared(pattern));
    ForwardArgs args = test::forward_args();
    args.mask = test::mask(args, pattern);
    const problem::Problem q = problem::make_problem(args);
    CHECK(p.mask_prepared);
    CHECK_FALSE(q.mask_prepared);
    CHECK(p.mask.extent == q.mask.extent);
    CHECK(p.mask.num_batches == q.mask.num_batches);
    CHECK(p.mask.num_heads == q.mask.num_heads);
    CHECK(p.mask.queries == q.mask.queries);
    CHECK(p.mask.keys == q.mask.keys);
    CHECK(problem::pattern(p, p.mask) == problem::pattern(q, q.mask));
    CHECK(problem::family(p).mask_prepared);
    CHECK(problem::plan_key(p) != problem::plan_key(q));
  }
  const problem::Problem p = problem::make_problem(prepared("1gqk"));
  CHECK(problem::describe(p).find(" mask=1gqk,prepared") != std::string::npos);
  CHECK(problem::describe(problem::family(p)).find(" mask=qk,prepared") != std::string::npos);
  CHECK(problem::manifest_line(p).find(R"("prepared_mask":true)") != std::string::npos);
}

TEST_CASE("a prepared mask that does not fit says which size is what") {
  check_refused("bhqk",
                {{[](auto& a) { a.prepared_mask->shape[0] = 3; },
                  "prepared_mask: batch axis is 3; expected a divisor of 4 (batch of q)"},
                 {[](auto& a) { a.prepared_mask->shape[1] = 5; },
                  "prepared_mask: head axis is 5; expected 1, 8 (kv heads) or 32 (query heads)"},
                 {[](auto& a) { a.prepared_mask->shape[2] = 64; },
                  "prepared_mask: query axis is 64; expected 1 or 128 (sequence of q)"},
                 {[](auto& a) { a.prepared_mask->shape[3] = 200; },
                  "prepared_mask: key axis is 200; expected 1 or 192 (sequence of k)"},
                 {[](auto& a) { a.prepared_mask->shape[3] = 1; },
                  "prepared_mask: key axis is 1; a mask that is the same for all keys"},
                 {[](auto& a) { a.prepared_mask->data = nullptr; }, "prepared_mask: data is null"},
                 {[](auto& a) {
                    a.prepared_mask->data = static_cast<const char*>(a.prepared_mask->data) + 4;
                  },
                  "is not a multiple of 16 bytes"},
                 {[](auto& a) { a.mask = test::mask(a, "b11k"); },
                  "prepared_mask: given together with mask; leave one of them out"}});
}

TEST_CASE("packed sequences take planes of their own, and not one row of all keys") {
  ForwardArgs args = prepared("b1qk");
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.out}) t->shape[0] = 1;
  args.num_sequences = 4;
  args.cu_seqlens_q = args.cu_seqlens_kv = fake_address<std::int32_t>(7);
  args.prepared_mask->shape = {4, 1, 100, 64};
  const problem::Problem p = problem::make_problem(args);
  CHECK(p.operand_queries == 100);
  CHECK(p.operand_keys == 64);
  args.prepared_mask->shape = {1, 1, 1, 192};
  CHECK(test::refusal(args).find(
            "the key axis is 192, the keys of all packed sequences in one row") !=
        std::string::npos);
}

TEST_CASE("a backward wants the bits by keys, of a mask over pairs") {
  const auto refusal = [](const char* pattern, bool for_backward) {
    BackwardArgs args = test::backward_args();
    args.forward.prepared_mask = prepared(pattern, for_backward).prepared_mask;
    return test::refusal(args);
  };
  CHECK(refusal("bhqk", true) == "");
  CHECK(refusal("b11k", false) == "");
  CHECK(refusal("bhqk", false) ==
        "prepared_mask: it lacks the bits that a backward reads; prepare it with for_backward");
}
