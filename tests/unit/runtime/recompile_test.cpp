// Guards against kernels that are compiled again for nothing: lengths, batch, head counts and
// strides are run-time arguments.
#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "launch/forward_plan_spec.hpp"
#include "tuner/config_zero.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::Sizes;
using problem::Extent;

namespace {

// Every plan has the step that adds up splits, the same for all.
constexpr std::size_t kCombine = 1;

struct Variety {
  std::set<std::string> sources;  ///< of all steps
  std::set<std::string> tiles;    ///< configurations in use
  std::set<problem::PlanKey> keys;
};

const codegen::TemplateSet& templates() {
  static const codegen::TemplateSet kTemplates;
  return kTemplates;
}

// Flattening takes longer than all the rest: each (family, config) is rendered once.
void add(Variety& variety, const ForwardArgs& args) {
  const problem::PlanKey key = problem::plan_key(problem::make_problem(args));
  if (!variety.keys.insert(key).second) return;
  const auto config = tuner::config_zero(key, codegen::find_arch("sm_90a"));
  variety.tiles.insert(codegen::describe_tile(config));
  const auto spec =
      launch::make_forward_plan_spec(key.family, config, codegen::find_arch("sm_90a"), templates());
  for (const auto& step : spec.steps) variety.sources.insert(step.source.text);
}

class Draw {
 public:
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  // Short and long lengths alike, 1 among them.
  std::int64_t length() { return (*this)(1, std::int64_t{1} << (*this)(0, 15)); }

 private:
  std::mt19937_64 engine_{7};
};

// Pads rows, heads and batches by whole multiples of 16 bytes, and reverses some axes.
void restride(Draw& draw, Tensor& tensor) {
  std::int64_t step = tensor.shape[3];
  for (int axis = 2; axis >= 0; --axis) {
    step = (step + 15) / 16 * 16 + 16 * draw(0, 3);
    tensor.strides[axis] = step;
    step *= tensor.shape[axis];
  }
}

ForwardArgs random_args(Draw& draw, int index, std::int64_t shortest) {
  Sizes sizes;
  sizes.head_dim_v = 64;
  sizes.heads_kv = draw(1, 16);
  sizes.heads_q = 4 * sizes.heads_kv;
  sizes.batch = draw(1, 64);
  sizes.seqlen_q = std::max(shortest, draw.length());
  sizes.seqlen_kv = std::max(shortest, draw.length());
  if (index % 10 == 0) sizes.batch = 1;
  if (index % 10 == 1) sizes.seqlen_q = shortest;
  if (index % 10 == 2) sizes.heads_kv = 1, sizes.heads_q = 4;
  ForwardArgs args = test::forward_args(sizes);
  for (Tensor* tensor : {&args.q, &args.k, &args.v}) restride(draw, *tensor);
  restride(draw, args.out);
  return args;
}

constexpr int kProblems = 1000;

}  // namespace

TEST_CASE("a thousand plain problems need no more kernels than there are tiles") {
  Draw draw;
  Variety variety;
  for (int i = 0; i < kProblems; ++i) add(variety, random_args(draw, i, 1));
  CHECK(variety.sources.size() == variety.tiles.size() + kCombine);
  CHECK(variety.tiles.size() <= 5);
  CHECK(variety.keys.size() > 50);  // buckets alone make no kernel
}

TEST_CASE("options that are run-time values make no kernel") {
  Draw draw;
  Variety variety;
  for (int i = 0; i < kProblems; ++i) {
    ForwardArgs args = random_args(draw, i, 1);
    args.scale = static_cast<float>(draw(1, 1000)) / 500;
    args.window = {draw(0, 100), draw(0, 1000)};
    args.diagonal = draw(0, 1) == 0 ? Diagonal::kTopLeft : Diagonal::kBottomRight;
    if (draw(0, 1) == 0) args.lse = test::fake_address<float>(6);
    args.seqlens_q = test::fake_address<std::int32_t>(7);
    if (draw(0, 1) == 0) args.seqlens_kv = test::fake_address<std::int32_t>(8);
    add(variety, args);
  }
  constexpr std::size_t kClearCount = 1;  // of lengths per batch element
  CHECK(variety.sources.size() == variety.tiles.size() + kCombine + kClearCount);
}

TEST_CASE("the batch and head pattern of a mask or bias makes no kernel") {
  for (const std::string axes : {"1k", "qk"}) {
    Draw draw;
    Variety masked, biased;
    // An axis of size 1 has no extent: that is another kernel, and the next case's.
    const std::int64_t shortest = 2;
    for (int i = 0; i < kProblems; ++i) {
      ForwardArgs args = random_args(draw, i, shortest);
      const std::string pattern = std::string(1, "b1"[draw(0, 1)]) + "hg1"[draw(0, 2)] + axes;
      ForwardArgs with_mask = args, with_bias = args;
      with_mask.mask = test::mask(args, pattern);
      with_bias.bias = test::bias(args, pattern);
      if (with_mask.mask->shape[1] > 1) restride(draw, *with_mask.mask);
      add(masked, with_mask);
      add(biased, with_bias);
    }
    CAPTURE(axes);
    CHECK(masked.sources.size() == masked.tiles.size() + 1 + kCombine);  // the prepass is a kernel
    CHECK(biased.sources.size() == biased.tiles.size() + kCombine);
  }
}

TEST_CASE("a mask of one query runs the kernels of a mask per key") {
  Draw draw;
  Variety per_key, one_query;
  for (int i = 0; i < kProblems; ++i) {
    ForwardArgs args = random_args(draw, i, 2);
    args.q.shape[2] = args.out.shape[2] = 1;
    args.mask = test::mask(args, "b11k");
    add(per_key, args);
    args.mask = test::mask(args, "b1qk");
    add(one_query, args);
  }
  CHECK(one_query.sources == per_key.sources);
}
