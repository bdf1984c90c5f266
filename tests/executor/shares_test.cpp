// A problem by shares of its keys: the forward's parts merged, the backward's parts added up, and
// the sums held to what the whole problem owes. Rows that keep no key of a share live in the other
// one.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/fields_json.hpp"
#include "bench.hpp"
#include "tensor/half.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test {
namespace {

using instance::ProblemSpec;

/// The part of `tensor` from `first` to `end` of `axis`.
Tensor part_of(Tensor tensor, int axis, std::int64_t first, std::int64_t end) {
  if (tensor.shape[axis] == 1) return tensor;  // broadcast
  const std::int64_t bytes = element_size(tensor.dtype);
  tensor.data = static_cast<std::byte*>(tensor.data) + first * tensor.strides[axis] * bytes;
  tensor.shape[axis] = end - first;
  return tensor;
}

/// `args` for keys `first` to `end` alone.
ForwardArgs share_of(ForwardArgs args, std::int64_t first, std::int64_t end) {
  if (args.diagonal == Diagonal::kBottomRight) {
    args.diagonal_offset += args.k.shape[2] - args.q.shape[2];
    args.diagonal = Diagonal::kTopLeft;
  }
  args.diagonal_offset -= first;
  args.k = part_of(args.k, 2, first, end);
  args.v = part_of(args.v, 2, first, end);
  if (args.mask) args.mask = part_of(*args.mask, 3, first, end);
  if (args.bias) args.bias = part_of(*args.bias, 3, first, end);
  return args;
}

/// Two tensors as `like`, one behind the other in memory of their own.
class Parts {
 public:
  explicit Parts(const Tensor& like)
      : size_(like.shape[0] * like.shape[1] * like.shape[2] * like.shape[3]),
        memory_(static_cast<std::size_t>(2 * size_)),
        like_(like) {}

  Tensor operator[](std::int64_t part) {
    auto* const base = reinterpret_cast<std::byte*>(memory_.data());
    const std::int64_t bytes = element_size(like_.dtype);
    return Tensor::contiguous(base + part * size_ * bytes, like_.dtype, like_.shape);
  }
  std::int64_t stride() const { return size_; }

  /// Writes the sums of both to `target`, dense as well.
  void add_to(const Tensor& target) {
    for (std::int64_t i = 0; i < size_; ++i) {
      tensor::store(target.data, target.dtype, i,
                    tensor::load(memory_.data(), like_.dtype, i) +
                        tensor::load(memory_.data(), like_.dtype, size_ + i));
    }
  }

 private:
  std::int64_t size_;
  std::vector<float> memory_;  // wide enough for any dtype
  Tensor like_;
};

class Shares : public Bench {
 public:
  /// As Bench::forward(), with a cut before key `cut`.
  std::string forward(const ProblemSpec& spec, std::int64_t cut) {
    instance::HostProblem host(spec, 1);
    host.poison_outputs();
    const ForwardArgs whole = host.args();
    Parts outs(whole.out);
    std::vector<float> lses(static_cast<std::size_t>(2 * lse_size(whole)));
    for (const std::int64_t s : {0, 1}) {
      ForwardArgs args = share_of(whole, s * cut, s == 0 ? cut : whole.k.shape[2]);
      args.out = outs[s];
      args.lse = lses.data() + s * lse_size(whole);
      const problem::Problem problem = problem::make_problem(args);
      const problem::PlanKey key = problem::plan_key(problem);
      const auto config = tuner::config_zero(key, codegen::without_wgmma(arch_));
      executor().forward(launch::make_forward_plan_spec(key.family, config, arch_, templates()),
                         problem, args);
    }
    const MergeLseArgs merge{.parts = outs[0],
                             .part_stride = outs.stride(),
                             .num_parts = 2,
                             .part_lses = lses.data(),
                             .carry = {},
                             .out = whole.out,
                             .lse = whole.lse};
    const problem::MergeProblem problem = problem::make_problem(merge);
    executor().merge_lse(launch::make_merge_plan_spec(problem.key, templates()), problem, merge);
    return check::judge_forward(host, reference::Rows::every(), 1).text;
  }

  /// As Bench::backward(), likewise.
  std::string backward(const ProblemSpec& spec, std::int64_t cut, const std::string& config_json) {
    instance::HostProblem host(spec, 1);
    host.poison_outputs();
    const BackwardArgs whole = host.backward_args();
    Parts dqs(whole.dq);
    for (const std::int64_t s : {0, 1}) {
      const std::int64_t first = s * cut, end = s == 0 ? cut : whole.dk.shape[2];
      BackwardArgs args = whole;
      args.forward = share_of(whole.forward, first, end);
      args.dq = dqs[s];
      args.dk = part_of(whole.dk, 2, first, end);
      args.dv = part_of(whole.dv, 2, first, end);
      if (args.dbias) args.dbias = part_of(*whole.dbias, 3, first, end);
      const problem::BackwardProblem problem = problem::make_problem(args);
      const problem::BackwardPlanKey key = problem::plan_key(problem);
      const auto zero = tuner::config_zero(key, codegen::without_wgmma(arch_));
      const auto config = base::patched(zero, base::parse_patch<codegen::BackwardTunables>(
                                                  base::parse_json(config_json), "config"));
      if (const auto rule = codegen::why_unfit(config, key.family, arch_)) return *rule;
      executor().backward(launch::make_backward_plan_spec(key.family, config, arch_, templates()),
                          problem, args);
    }
    dqs.add_to(whole.dq);
    return check::judge_backward(host, reference::Planes::every(), 1).text;
  }

 private:
  static std::int64_t lse_size(const ForwardArgs& args) {
    return args.q.shape[0] * args.q.shape[1] * args.q.shape[2];
  }

  const codegen::Arch& arch_ = codegen::find_arch("sm_90a");
};

ProblemSpec banded(const char* mask, const char* bias) {
  ProblemSpec spec = {
      .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 150, .seqlen_kv = 192, .head_dim = 64};
  spec.causal = true;  // rows before the cut keep no key behind it
  spec.diagonal = Diagonal::kTopLeft;
  spec.window = {60, 0};  // and the last ones none before it
  spec.mask = mask;
  spec.bias = bias;
  spec.want_lse = true;
  return spec;
}

TEST_CASE_FIXTURE(Shares, "shares of the keys: the merge of their results is the whole's") {
  CHECK(forward(banded("", ""), 64) == "");
  CHECK(forward(banded("b1qk", "1hqk"), 72) == "");
}

// A mask has a column of a share with a single key, and is the same for all its keys then: what it
// drops is dead in that share alone.
TEST_CASE_FIXTURE(Shares, "shares of the keys: a mask drops rows of one share alone") {
  ProblemSpec spec = {
      .batch = 2, .heads_q = 2, .heads_kv = 1, .seqlen_q = 70, .seqlen_kv = 2, .head_dim = 64};
  spec.mask = "b1qk";
  spec.backward = true;
  spec.want_lse = true;
  for (const std::string& config : {std::string("{}"), wgmma_backward(64)}) {
    CAPTURE(config);
    CHECK(backward(spec, 1, config) == "");
  }
}

TEST_CASE_FIXTURE(Shares, "slow: shares of the keys: the sum of their gradients is the whole's") {
  const ProblemSpec plain = banded("", ""), full = banded("b1qk", "1hqk");
  for (ProblemSpec spec : {plain, full}) {
    spec.backward = true;
    spec.want_dlse = true;
    spec.want_dbias = !spec.bias.empty();
    for (const std::string& config : {std::string("{}"), wgmma_backward(64)}) {
      CAPTURE(config);
      CHECK(backward(spec, 64, config) == "");
    }
  }
  ProblemSpec wide = plain;
  wide.backward = true;
  wide.head_dim = 192;
  CHECK(backward(wide, 64, wide_backward()) == "");
}

}  // namespace
}  // namespace attnjit::executor_test
