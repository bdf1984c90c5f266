#include "reference/bias_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "reference/gradient_sums.hpp"
#include "reference/plane_order.hpp"
#include "reference/sink_gradient.hpp"

namespace attnjit::reference {
namespace {

// Indices begin <= i < end of one axis.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// Some rows of one (batch, head) of dbias, and what of the problem adds to them.
struct BiasRows {
  std::int64_t first;  // among all rows of dbias
  std::vector<std::int64_t> batches;
  Range heads;  // query heads
  Range queries;
};

// The whole of an axis that dbias broadcasts, else one part of it.
Range part(std::int64_t size, std::int64_t parts, std::int64_t index) {
  const std::int64_t step = size / std::max<std::int64_t>(parts, 1);
  return {index * step, (index + 1) * step};
}

// One (batch, head) after the other, each in blocks of rows if it has a row per query.
std::vector<BiasRows> split_rows(const BackwardArgs& args) {
  const auto& shape = args.dbias->shape;
  const std::int64_t seqlen_q = args.forward.q.shape[2];
  const bool per_query = shape[2] == seqlen_q;
  const PlaneIndex plane_of(shape[0], args.forward.bias_order, args.forward.q.shape[0]);
  std::vector<BiasRows> tasks;
  for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane) {
    std::vector<std::int64_t> batches;
    for (std::int64_t batch = 0; batch < args.forward.q.shape[0]; ++batch) {
      if (plane_of(batch) == plane / shape[1]) batches.push_back(batch);
    }
    const Range heads = part(args.forward.q.shape[1], shape[1], plane % shape[1]);
    if (!per_query) {
      tasks.push_back({plane, batches, heads, {0, seqlen_q}});
      continue;
    }
    for (std::int64_t begin = 0; begin < seqlen_q; begin += kGradientRows) {
      const Range queries{begin, std::min(begin + kGradientRows, seqlen_q)};
      tasks.push_back({plane * seqlen_q + begin, batches, heads, queries});
    }
  }
  return tasks;
}

// Sums ds over everything that adds to some rows of dbias, in ascending order.
template <typename Real>
class BiasSolver {
 public:
  BiasSolver(const GradientContext& context, const BiasRows& task);
  void run(Gradient& result);

 private:
  std::int64_t target(std::int64_t query) const {
    return per_query_ ? query - task_.queries.begin : 0;
  }
  void add_block(const RowBlock& block);
  void add_dlse(const RowBlock& block);

  const GradientContext& context_;
  const BiasRows& task_;
  const bool per_query_;
  const bool per_key_;
  const std::int64_t rows_;
  GradientSums<Real> sums_;  // [rows, Lk or 1]
};

template <typename Real>
BiasSolver<Real>::BiasSolver(const GradientContext& context, const BiasRows& task)
    : context_(context),
      task_(task),
      per_query_(context.args.dbias->shape[2] == context.args.forward.q.shape[2]),
      per_key_(context.args.dbias->shape[3] != 1),
      rows_(per_query_ ? task.queries.end - task.queries.begin : 1),
      sums_(rows_, context.args.dbias->shape[3]) {}

template <typename Real>
void BiasSolver<Real>::run(Gradient& result) {
  for (const std::int64_t batch : task_.batches) {
    for (std::int64_t head = task_.heads.begin; head < task_.heads.end; ++head) {
      for (std::int64_t first = task_.queries.begin; first < task_.queries.end;
           first += kGradientRows) {
        const RowBlock block{batch, head, first,
                             std::min(first + kGradientRows, task_.queries.end)};
        per_key_ ? add_block(block) : add_dlse(block);
      }
    }
  }
  sums_.write(Real{1}, context_.args.dbias->dtype, rows_, sums_.width, task_.first, result);
}

template <typename Real>
void BiasSolver<Real>::add_block(const RowBlock& block) {
  GradientTiles<Real> tiles(context_, block);
  for (std::int64_t tile = 0; tile < tiles.count(); ++tile) {
    if (!tiles.compute(tile)) {
      continue;
    }
    const KeyRange keys = tiles.keys(tile);
    for (std::int64_t row = 0; row < tiles.rows(); ++row) {
      Real* sum = sums_.row(target(block.first + row)) + keys.begin;
      Real& square = sums_.squares[target(block.first + row)];
      for (std::int64_t column = 0; column < keys.end - keys.begin; ++column) {
        const Real term = tiles.terms()[row * kTile + column];
        sum[column] += tiles.ds()[row * kTile + column];
        // That of a row without a promise is NaN, as its ds: other elements keep theirs.
        if (term == term) square += term * term;
      }
    }
  }
}

// ds of a row sums to its dlse, less what the row adds to dsink. Adding up ds would leave noise of
// its terms instead.
template <typename Real>
void BiasSolver<Real>::add_dlse(const RowBlock& block) {
  for (std::int64_t query = block.first; query < block.end; ++query) {
    const std::int64_t index = context_.row_index(block.batch, block.head, query);
    const double lse = context_.forward.lse[index];
    if (context_.forward.dead[index]) {
      continue;
    }
    const double dlse = context_.args.dlse == nullptr ? 0 : context_.args.dlse[index];
    const SinkTerm sink = sink_term(context_, block.batch, block.head, query);
    const double value =
        std::isfinite(lse) ? dlse - sink.value : std::numeric_limits<double>::quiet_NaN();
    sums_.row(target(query))[0] += static_cast<Real>(value);
    sums_.squares[target(query)] += static_cast<Real>(dlse * dlse + sink.size * sink.size);
  }
}

bool is_selected(const GradientContext& context, const Planes& planes, const BiasRows& task) {
  for (const std::int64_t batch : task.batches) {
    for (std::int64_t head = task.heads.begin; head < task.heads.end; ++head) {
      if (!planes.holds({batch, context.scores.head_kv(head)})) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

template <typename Real>
void compute_dbias(const GradientContext& context, const Planes& planes, unsigned jobs,
                   Gradient& result) {
  const std::vector<BiasRows> tasks = split_rows(context.args);
  base::parallel_for(tasks.size(), jobs, [&](std::size_t index) {
    if (is_selected(context, planes, tasks[index])) {
      BiasSolver<Real>(context, tasks[index]).run(result);
    }
  });
}

template void compute_dbias<float>(const GradientContext&, const Planes&, unsigned, Gradient&);
template void compute_dbias<double>(const GradientContext&, const Planes&, unsigned, Gradient&);

}  // namespace attnjit::reference
