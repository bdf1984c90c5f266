#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "problem/plan_key.hpp"
#include "unit/backward_fixtures.hpp"

using namespace attnjit;
using problem::BackwardProblem;
using problem::Extent;
using test::backward_args;
using test::bias_args;
using test::refusal;

namespace {

// The message with which backward_args() is refused after `change`; empty if it is taken.
template <class Change>
std::string refusal_of(Change change) {
  BackwardArgs args = backward_args();
  change(args);
  return refusal(args);
}
// The same of bias_args().
template <class Change>
std::string dbias_refusal(const char* pattern, Change change) {
  BackwardArgs args = bias_args(pattern);
  change(args);
  return refusal(args);
}

BackwardProblem make(const BackwardArgs& args) { return problem::make_problem(args); }

// A dbias that keeps `kept` of a bias of `pattern` whose broadcast axes are expanded.
BackwardProblem expanded(const char* pattern, const char* kept) {
  BackwardArgs args = bias_args(pattern);
  Tensor& bias = *args.forward.bias;
  const auto& q = args.forward.q.shape;
  const std::int64_t full[] = {q[0], q[1], q[2], args.forward.k.shape[2]};
  for (int axis = 0; axis < 4; ++axis) {
    if (pattern[axis] != '1') continue;
    bias.shape[axis] = full[axis];
    bias.strides[axis] = 0;
  }
  args.dbias = test::operand(args.forward, kept, DType::kFloat32, 15);
  return make(args);
}

}  // namespace

TEST_CASE("a backward of dense tensors is accepted") {
  CHECK(refusal(backward_args()) == "");
  CHECK(refusal(bias_args("bhqk")) == "");
}

TEST_CASE("a fault of the forward's arguments is a fault of the backward's") {
  CHECK(refusal_of([](BackwardArgs& a) {
          a.forward.k.strides[3] = 2;
        }).find("k: feature axis has stride 2") == 0);
}

TEST_CASE("a gradient has the shape, dtype and memory of its tensor") {
  struct Case {
    const char* what;
    Tensor BackwardArgs::*tensor;
    const char* whose;
  };
  for (const auto& [what, member, whose] : {Case{"dout", &BackwardArgs::dout, "as out"},
                                            {"dq", &BackwardArgs::dq, "as q"},
                                            {"dk", &BackwardArgs::dk, "as k"},
                                            {"dv", &BackwardArgs::dv, "as v"}}) {
    CAPTURE(what);
    const std::string name = std::string(what) + ": ";
    const auto said = [&](auto change) {
      return refusal_of([&](BackwardArgs& args) { change(args.*member); });
    };
    const char* const axes[] = {"batch", "head", "sequence", "feature"};
    for (int axis = 0; axis < 4; ++axis) {
      const std::string text = said([&](Tensor& t) { ++t.shape[axis]; });
      CHECK(text.find(name + axes[axis] + " axis is ") == 0);
      CHECK(text.find(std::string("(") + whose + ")") != std::string::npos);
    }
    CHECK(said([](Tensor& t) { t.dtype = DType::kFloat16; }) ==
          name + "dtype is fp16; expected bf16 (as q)");
    CHECK(said([](Tensor& t) { t.strides[3] = 2; }) ==
          name + "feature axis has stride 2; expected 1 (make the last axis contiguous)");
    CHECK(said([](Tensor& t) { t.data = nullptr; }) ==
          name + "data is null; expected a device address");
    CHECK(said([](Tensor& t) {
            t.data = static_cast<char*>(t.data) + 1;
          }).find("is not a multiple of its element size, 2 bytes") != std::string::npos);
  }
}

TEST_CASE("outputs do not overlap themselves, dout may") {
  const auto expand = [](Tensor& t) { t.strides[0] = 0; };
  CHECK(refusal_of([&](BackwardArgs& a) { expand(a.dq); }).find("dq: strides (0, ") == 0);
  CHECK(refusal_of([&](BackwardArgs& a) { expand(a.dk); }).find("dk: strides (0, ") == 0);
  CHECK(refusal_of([&](BackwardArgs& a) { expand(a.dv); }).find("dv: strides (0, ") == 0);
  CHECK(refusal_of([&](BackwardArgs& a) { expand(a.dout); }) == "");
  CHECK(dbias_refusal("bhqk", [&](BackwardArgs& a) {
          expand(*a.dbias);
        }).find("dbias: strides (0, ") == 0);
}

TEST_CASE("lse is what the forward wrote, and dlse is aligned") {
  CHECK(refusal_of([](BackwardArgs& a) { a.forward.lse = nullptr; }) ==
        "lse: null; expected the lse that the forward wrote, [batch, heads, seqlen_q] fp32");
  CHECK(refusal_of([](BackwardArgs& a) {
          a.dlse = reinterpret_cast<const float*>(std::uintptr_t{4097});
        }).find("is not a multiple of its element size, 4 bytes") != std::string::npos);
  CHECK_FALSE(make(backward_args()).has_dlse);
  BackwardArgs args = backward_args();
  args.dlse = test::fake_address<float>(20);
  CHECK(make(args).has_dlse);
}

TEST_CASE("largest scores are the forward's alone") {
  BackwardArgs args = backward_args();
  const auto without = make(args);
  args.forward.row_max = args.forward.max_logits = test::fake_address<float>(20);
  CHECK(make(args) == without);
}

TEST_CASE("a dbias needs a bias and its dtype or fp32") {
  CHECK(refusal_of([](BackwardArgs& a) {
          a.dbias = test::operand(a.forward, "bhqk", DType::kBFloat16);
        }) == "dbias: the call has no bias; leave dbias out");
  CHECK(dbias_refusal("bhqk", [](BackwardArgs& a) { a.dbias->dtype = DType::kFloat32; }) == "");
  CHECK(dbias_refusal("bhqk", [](BackwardArgs& a) { a.dbias->dtype = DType::kFloat16; }) ==
        "dbias: dtype is fp16; expected bf16 (as bias) or fp32");
  CHECK(dbias_refusal("bhqk", [](BackwardArgs& a) { a.dbias->data = nullptr; }) ==
        "dbias: data is null; expected a device address");
  CHECK(dbias_refusal("bhqk", [](BackwardArgs& a) {
          a.dbias->dtype = DType::kFloat32;
          a.dbias->data = static_cast<char*>(a.dbias->data) + 2;
        }).find("is not a multiple of its element size, 4 bytes") != std::string::npos);
}

TEST_CASE("each axis of dbias is full, or 1 where the bias is broadcast") {
  const auto resize = [](int axis, std::int64_t size) {
    return [=](BackwardArgs& a) { a.dbias->shape[axis] = size; };
  };
  CHECK(dbias_refusal("bhqk", resize(0, 1)) ==
        "dbias: batch axis is 1; expected 4 (the bias differs along it)");
  CHECK(dbias_refusal("bhqk", resize(1, 1)) ==
        "dbias: head axis is 1; expected 32 (the bias differs along it)");
  CHECK(dbias_refusal("bgqk", resize(1, 32)) ==
        "dbias: head axis is 32; expected 8 (the bias differs along it)");
  CHECK(dbias_refusal("bhqk", resize(2, 64)) ==
        "dbias: query axis is 64; expected 128 (the bias differs along it)");
  CHECK(dbias_refusal("bhqk", resize(3, 1)) ==
        "dbias: key axis is 1; expected 192 (the bias differs along it)");
  CHECK(dbias_refusal("1111", resize(0, 2)) == "dbias: batch axis is 2; expected 1 or 4");
  CHECK(dbias_refusal("1111", resize(1, 8)) == "dbias: head axis is 8; expected 1 or 32");
  CHECK(dbias_refusal("1111", resize(2, 3)) == "dbias: query axis is 3; expected 1 or 128");
  CHECK(dbias_refusal("1111", resize(3, 3)) == "dbias: key axis is 3; expected 1 or 192");
}

TEST_CASE("a dbias reduces the axes that the bias broadcasts") {
  for (const char* pattern : {"bhqk", "1hqk", "b1qk", "bgqk", "11qk", "bh1k", "111k", "1g1k",
                              "bhq1", "11q1", "bh11", "1111"}) {
    CAPTURE(pattern);
    const BackwardProblem p = make(bias_args(pattern));
    CHECK(problem::dbias_pattern(p) == pattern);
    CHECK(p.dbias.batches == (pattern[0] == 'b' ? 4 : 1));
    CHECK(p.dbias.heads == (pattern[1] == 'h' ? 32 : pattern[1] == 'g' ? 8 : 1));
    const bool queries = pattern[2] == 'q', keys = pattern[3] == 'k';
    CHECK(p.dbias.extent == (!keys     ? Extent::kPerQuery
                             : queries ? Extent::kPerPair
                                       : Extent::kPerKey));
    CHECK(p.dbias.scalar == (!keys && !queries));
    CHECK(p.dbias_reduces_planes() == (pattern[0] != 'b' || pattern[1] != 'h'));
    CHECK((p.dbias.batch_stride != 0) == (pattern[0] == 'b'));
    CHECK((p.dbias.query_stride != 0) == queries);
    CHECK((p.dbias.key_stride != 0) == keys);
  }
  CHECK(problem::dbias_pattern(make(backward_args())) == "none");
}

TEST_CASE("up to four planes that come to one of dbias are few") {
  const auto few = [](const char* pattern) {
    return problem::family(make(bias_args(pattern))).dbias_reduces_few;
  };
  CHECK(few("1hqk"));  // of four batch elements
  CHECK(few("bgqk"));  // of four heads
  CHECK(few("shqk"));
  CHECK_FALSE(few("1gqk"));
  CHECK_FALSE(few("b1qk"));
  CHECK_FALSE(few("bhqk"));  // none are reduced
  CHECK_FALSE(few("1h1k"));  // columns are summed
}

TEST_CASE("a dbias has the planes over the batch that the bias has") {
  const BackwardProblem p = make(bias_args("shqk"));
  CHECK(problem::dbias_pattern(p) == "shqk/2");
  CHECK(p.dbias.batches == 2);
  CHECK(p.dbias_reduces_planes());
  CHECK(problem::family(p).dbias_groups_batch);
  CHECK_FALSE(problem::family(make(bias_args("bhqk"))).dbias_groups_batch);
  CHECK_FALSE(problem::family(make(bias_args("1hqk"))).dbias_groups_batch);
  CHECK(dbias_refusal("shqk", [](BackwardArgs& a) { a.dbias->shape[0] = 4; }) ==
        "dbias: batch axis is 4; expected 2 (the bias differs along it)");
  // Expanded to two planes that are one, it is no longer known that there were fewer.
  CHECK(dbias_refusal("shqk", [](BackwardArgs& a) {
          a.forward.bias->strides[0] = 0;
          a.dbias->shape[0] = 4;
        }) == "dbias: batch axis is 4; expected 1 or 2");
}

TEST_CASE("planes of a dbias come in the order of the bias's") {
  BackwardArgs args = bias_args("shqk");  // two planes of four batch elements
  args.forward.bias_order.inner = 1;
  CHECK(problem::dbias_pattern(make(args)) == "phqk/2x1");
  CHECK(make(args).dbias.cycle == problem::BatchCycle{2, 4});
  // Expanded, and yet of two planes: the gradient has them in that order.
  args.forward.bias->strides[0] = 0;
  CHECK(make(args).forward.bias.cycle == problem::BatchCycle{});
  CHECK(problem::dbias_pattern(make(args)) == "phqk/2x1");
  args.dbias->shape[0] = 1;
  CHECK(make(args).dbias.cycle == problem::BatchCycle{});
}

TEST_CASE("an expanded bias may have a full dbias, a reduced one, or one in between") {
  for (const char* kept : {"bhqk", "1hqk", "b1qk", "11qk", "bh1k", "1111"}) {
    CAPTURE(kept);
    CHECK(problem::dbias_pattern(expanded("1111", kept)) == kept);
  }
  CHECK(problem::dbias_pattern(expanded("1hqk", "bhqk")) == "bhqk");
}

TEST_CASE("axes of problem size 1 count as reduced, and a single key as none") {
  const auto sizes = [](std::int64_t batch, std::int64_t seqlen_q, std::int64_t seqlen_kv) {
    return test::forward_args({.batch = batch, .seqlen_q = seqlen_q, .seqlen_kv = seqlen_kv});
  };
  CHECK(make(bias_args("bhqk", sizes(1, 128, 192))) == make(bias_args("1hqk", sizes(1, 128, 192))));
  const BackwardProblem one_row = make(bias_args("bhqk", sizes(4, 1, 192)));
  CHECK(one_row.dbias.extent == Extent::kPerPair);
  CHECK(one_row.dbias.query_stride == 0);
  const BackwardProblem one_key = make(bias_args("bhqk", sizes(4, 128, 1)));
  CHECK(one_key.dbias.extent == Extent::kPerQuery);
  CHECK_FALSE(one_key.dbias.scalar);
  const BackwardProblem one_pair = make(bias_args("bhqk", sizes(4, 1, 1)));
  CHECK(one_pair.dbias.extent == Extent::kPerQuery);
}

TEST_CASE("a problem without rows or keys is no backward only if there are neither") {
  const auto empty = [](std::int64_t batch, std::int64_t seqlen_q, std::int64_t seqlen_kv) {
    BackwardArgs args = backward_args(
        test::forward_args({.batch = batch, .seqlen_q = seqlen_q, .seqlen_kv = seqlen_kv}));
    if (batch * seqlen_q == 0) args.forward.lse = nullptr;  // it has no elements
    return make(args).empty();
  };
  CHECK_FALSE(empty(4, 0, 192));
  CHECK_FALSE(empty(4, 128, 0));
  CHECK(empty(4, 0, 0));
  CHECK(empty(0, 128, 192));
}

TEST_CASE("a dbias that sums over nothing is still to be written") {
  const auto empty = [](const char* pattern, const test::Sizes& sizes) {
    return make(bias_args(pattern, test::forward_args(sizes))).empty();
  };
  CHECK_FALSE(empty("1hqk", {.batch = 0}));
  CHECK(empty("bhqk", {.batch = 0}));
  CHECK_FALSE(empty("bh11", {.seqlen_q = 0, .seqlen_kv = 0}));
  CHECK(empty("bhqk", {.seqlen_q = 0, .seqlen_kv = 0}));
}

TEST_CASE("a dbias without elements is not wanted") {
  const BackwardProblem no_rows = make(bias_args("bhqk", test::forward_args({.seqlen_q = 0})));
  CHECK(no_rows.dbias == problem::BiasGradient{});
  const BackwardProblem reduced = make(bias_args("bh1k", test::forward_args({.seqlen_q = 0})));
  CHECK(reduced.dbias.extent == Extent::kPerKey);
}

TEST_CASE("a backward is aligned if all of its tensors are") {
  CHECK(make(backward_args()).aligned);
  for (const auto member :
       {&BackwardArgs::dout, &BackwardArgs::dq, &BackwardArgs::dk, &BackwardArgs::dv}) {
    BackwardArgs args = backward_args();
    (args.*member).data = static_cast<char*>((args.*member).data) + 2;
    const BackwardProblem p = make(args);
    CHECK(p.forward.aligned);
    CHECK_FALSE(p.aligned);
    CHECK_FALSE(problem::family(p).scores.aligned);
    CHECK(problem::describe(p).find(" unaligned") != std::string::npos);
  }
  BackwardArgs args = backward_args();
  args.forward.v.strides[2] += 1;
  CHECK_FALSE(make(args).aligned);
}

TEST_CASE("a dbias is vectorised if its rows are") {
  CHECK(make(bias_args("bhqk")).dbias.vectorized);
  BackwardArgs shifted = bias_args("bhqk");
  shifted.dbias->data = static_cast<char*>(shifted.dbias->data) + 2;
  CHECK_FALSE(make(shifted).dbias.vectorized);
  BackwardArgs padded = bias_args("bhqk");
  padded.dbias->strides = {32 * 128 * 193, 128 * 193, 193, 1};
  CHECK_FALSE(make(padded).dbias.vectorized);
  BackwardArgs apart = bias_args("bhqk");
  apart.dbias->strides = {32 * 128 * 400, 128 * 400, 400, 2};
  CHECK_FALSE(make(apart).dbias.vectorized);
}

TEST_CASE("families differ where kernels do, and not with lengths, heads or strides") {
  const auto family = [](const BackwardArgs& args) { return problem::family(make(args)); };
  const auto base = family(backward_args());
  CHECK(base == family(backward_args(test::forward_args({.batch = 2, .seqlen_q = 77}))));
  BackwardArgs args = backward_args();
  args.deterministic = true;
  CHECK(family(args) != base);
  args = backward_args();
  args.dlse = test::fake_address<float>(20);
  CHECK(family(args) == base);
  CHECK(family(bias_args("1hqk")) != family(bias_args("bhqk")));
  CHECK(family(bias_args("1gqk")) == family(bias_args("b1qk")));  // both reduce many planes
  CHECK(family(bias_args("1hqk")) != family(bias_args("b1qk")));  // of few
  CHECK(family(bias_args("bhq1")) != family(bias_args("bh11")));
  BackwardArgs wide = bias_args("1hqk");
  wide.dbias->dtype = DType::kFloat32;
  CHECK(family(wide) != family(bias_args("1hqk")));
  BackwardArgs unwanted = bias_args("1hqk");
  unwanted.dbias.reset();
  CHECK(family(unwanted) != family(bias_args("1hqk")));
  CHECK(problem::plan_key(make(backward_args())) !=
        problem::plan_key(make(backward_args(test::forward_args({.seqlen_kv = 1000})))));
}

TEST_CASE("a description says what is computed") {
  BackwardArgs args = bias_args("1hqk");
  args.dbias->dtype = DType::kFloat32;
  args.dlse = test::fake_address<float>(20);
  args.deterministic = true;
  const std::string text = problem::describe(make(args));
  CHECK(text.find("backward bf16 b4 ") == 0);
  CHECK(text.find(" dbias=1hqk(fp32) dlse deterministic") != std::string::npos);
  CHECK(problem::describe(problem::family(make(args))).find("dbias=qk,fp32,reduced") !=
        std::string::npos);
}
