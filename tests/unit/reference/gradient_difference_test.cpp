#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "instance/host_problem.hpp"
#include "reference/backward.hpp"
#include "tensor/half.hpp"
#include "unit/instance_specs.hpp"

namespace attnjit::reference {
namespace {

using instance::HostProblem;
using instance::ProblemSpec;
using instance::random_spec;
using tensor::load;
using tensor::Random;

// A dense fp32 copy of a tensor without its stride-0 axes, so that small steps can be stored.
struct WideTensor {
  explicit WideTensor(const Tensor& from) {
    std::array<std::int64_t, 4> shape = from.shape;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (from.strides[axis] == 0 && shape[axis] > 1) shape[axis] = 1;
    }
    for (std::int64_t a = 0; a < shape[0]; ++a) {
      for (std::int64_t b = 0; b < shape[1]; ++b) {
        for (std::int64_t c = 0; c < shape[2]; ++c) {
          for (std::int64_t d = 0; d < shape[3]; ++d) {
            const std::int64_t index = a * from.strides[0] + b * from.strides[1] +
                                       c * from.strides[2] + d * from.strides[3];
            values.push_back(static_cast<float>(load(from.data, from.dtype, index)));
          }
        }
      }
    }
    view = Tensor::contiguous(values.data(), DType::kFloat32, shape);
  }
  std::vector<float> values;
  Tensor view;
};

// A backward problem whose q, k, v and bias may take any fp32 value.
class WideProblem {
 public:
  explicit WideProblem(const ProblemSpec& spec)
      : problem_(spec, 2),
        args_(problem_.backward_args()),
        q_(args_.forward.q),
        k_(args_.forward.k),
        v_(args_.forward.v) {
    args_.forward.q = q_.view;
    args_.forward.k = k_.view;
    args_.forward.v = v_.view;
    if (args_.forward.bias) {
      bias_.emplace(*args_.forward.bias);
      args_.forward.bias = bias_->view;
    }
    if (args_.forward.sink) {
      sink_.emplace(*args_.forward.sink);
      args_.forward.sink = sink_->view;
    }
  }

  BackwardResult gradients() const {
    return backward(args_, Arithmetic::kExact, Planes::every(), 2);
  }

  // The largest ratio of a step's error (the change along a random direction, less the one that the
  // gradient foretells) to its bound.
  double worst(const BackwardResult& result) {
    double ratio =
        std::max({step(q_, result.dq, 1), step(k_, result.dk, 2), step(v_, result.dv, 3)});
    if (bias_) ratio = std::max(ratio, step(*bias_, result.dbias, 4));
    return sink_ ? std::max(ratio, step(*sink_, result.dsink, 5)) : ratio;
  }

 private:
  // sum(out * dout) over the live rows + sum(lse * dlse) over those that have an lse.
  double loss() const {
    const ForwardResult result = forward(args_.forward, Arithmetic::kExact, Rows::every(), 2);
    const auto [batches, heads, rows, dim_v] = args_.dout.shape;
    double sum = 0;
    for (std::int64_t index = 0; index < batches * heads * rows; ++index) {
      const double lse = result.lse[static_cast<std::size_t>(index)];
      if (std::isinf(lse)) continue;
      const std::int64_t plane = index / rows;
      const std::int64_t dout = plane / heads * args_.dout.strides[0] +
                                plane % heads * args_.dout.strides[1] +
                                index % rows * args_.dout.strides[2];
      const bool dead = result.dead[static_cast<std::size_t>(index)] != 0;
      for (std::int64_t d = 0; !dead && d < dim_v; ++d) {
        sum += result.out[static_cast<std::size_t>(index * dim_v + d)] *
               load(args_.dout.data, args_.dout.dtype, dout + d);
      }
      sum += args_.dlse == nullptr ? 0 : lse * args_.dlse[index];
    }
    return sum;
  }

  double step(WideTensor& tensor, const Gradient& gradient, std::uint64_t stream) {
    if (gradient.values.size() != tensor.values.size()) return 1e9;
    double worst = 0;
    // All elements at once, then a few, in which a wrong one weighs more.
    for (const double share : {1.0, 0.05}) {
      worst = std::max(worst, step_along(tensor, gradient, Random(77).stream(stream), share));
    }
    return worst;
  }

  double step_along(WideTensor& tensor, const Gradient& gradient, const Random& random,
                    double share) {
    constexpr double kStep = 0x1p-14;
    const std::vector<float> base = tensor.values;
    double expected = 0;
    double size = 0;
    std::vector<float> low = base;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const bool moves = std::fabs(base[i]) < 1e30f && random.stream(9).uniform(i) < share;
      const double change = moves ? kStep * random.normal(i) : 0;
      tensor.values[i] = static_cast<float>(base[i] + change);
      low[i] = static_cast<float>(base[i] - change);
      if (!moves) continue;
      // The step that the stored values make.
      const double moved = double{tensor.values[i]} - double{low[i]};
      expected += gradient.values[i] * moved;
      size += std::fabs(gradient.values[i] * moved);
    }
    const double high_loss = loss();
    std::copy(low.begin(), low.end(), tensor.values.begin());
    const double low_loss = loss();
    std::copy(base.begin(), base.end(), tensor.values.begin());
    const double error = std::fabs(high_loss - low_loss - expected);
    return std::isnan(error) ? 1e9 : error / (1e-5 * size + 1e-9);
  }

  HostProblem problem_;
  BackwardArgs args_;
  WideTensor q_, k_, v_;
  std::optional<WideTensor> bias_, sink_;
};

void compare_with_differences(const ProblemSpec& spec) {
  CAPTURE(instance::describe(spec));
  WideProblem problem(spec);
  CHECK(problem.worst(problem.gradients()) < 1);
}

ProblemSpec random_backward(std::uint64_t seed) {
  ProblemSpec spec = random_spec(seed);
  const Random random = Random(99).stream(seed);
  spec.backward = true;
  spec.want_dbias = !spec.bias.empty();
  spec.want_dsink = spec.use_sink;
  spec.want_dlse = random.below(0, 2) == 1;
  spec.memory.expand_dout = random.below(1, 8) == 1;
  return spec;
}

TEST_CASE("gradients agree with central differences on random problems") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    compare_with_differences(random_backward(seed));
  }
}

TEST_CASE("gradients agree with central differences for every mask beside every bias") {
  ProblemSpec spec;
  spec.batch = 2;
  spec.heads_q = 4;
  spec.heads_kv = 2;
  spec.seqlen_q = 9;
  spec.seqlen_kv = 70;
  spec.head_dim = 5;
  spec.head_dim_v = 3;
  spec.backward = spec.want_dbias = spec.want_dlse = true;
  for (const char* mask : {"", "b11k", "11qk", "1hqk", "b1qk", "bgqk", "bhqk"}) {
    for (const char* bias : {"b11k", "11qk", "1hqk", "b1qk", "bgqk", "bhqk", "1hq1", "1111"}) {
      spec.mask = mask;
      spec.bias = bias;
      compare_with_differences(spec);
    }
  }
}

TEST_CASE("gradients agree with central differences for all scales and group sizes") {
  for (const std::int64_t group : {1, 2, 4}) {
    for (const float scale : {0.0f, -0.5f, 2.0f}) {
      ProblemSpec spec;
      spec.heads_kv = 2;
      spec.heads_q = 2 * group;
      spec.seqlen_q = 70;
      spec.seqlen_kv = 66;
      spec.head_dim = 6;
      spec.head_dim_v = 10;
      spec.scale = scale;
      spec.causal = true;
      spec.diagonal = Diagonal::kBottomRight;
      spec.backward = spec.want_dlse = true;
      compare_with_differences(spec);
    }
  }
}

TEST_CASE("central differences see one wrong element of any gradient") {
  ProblemSpec spec;
  spec.seqlen_q = spec.seqlen_kv = 20;
  spec.head_dim = 8;
  spec.bias = "bhqk";
  spec.backward = spec.want_dbias = true;
  WideProblem problem(spec);
  const BackwardResult good = problem.gradients();
  CHECK(problem.worst(good) < 1);
  for (Gradient BackwardResult::*which :
       {&BackwardResult::dq, &BackwardResult::dk, &BackwardResult::dv, &BackwardResult::dbias}) {
    BackwardResult bad = good;
    std::vector<double>& values = (bad.*which).values;
    *std::ranges::max_element(values) *= 1.1;
    CHECK(problem.worst(bad) > 1);
  }
}

}  // namespace
}  // namespace attnjit::reference
