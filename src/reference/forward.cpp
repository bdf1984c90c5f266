#include "reference/forward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attnjit/error.hpp"
#include "base/parallel.hpp"
#include "reference/check_args.hpp"
#include "reference/packed.hpp"
#include "reference/paged.hpp"
#include "reference/row_block.hpp"
#include "reference/score_rule.hpp"
#include "reference/sequences.hpp"
#include "reference/unpacked.hpp"

namespace attnjit::reference {
namespace {

constexpr std::int64_t kMostRows = 64;  // per block: enough to amortise loading a tile
constexpr std::int64_t kMostScores = std::int64_t{1} << 22;  // per block: 32 MiB of fp64

void check_rows(const Rows& rows, std::int64_t seqlen_q) {
  if (rows.all || rows.list.empty()) {
    return;
  }
  if (!std::is_sorted(rows.list.begin(), rows.list.end()) || rows.list.front() < 0 ||
      rows.list.back() >= seqlen_q) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("rows: expected a sorted list within [0, {})", seqlen_q));
  }
}

std::int64_t rows_per_block(std::int64_t seqlen_kv) {
  return std::clamp<std::int64_t>(kMostScores / std::max<std::int64_t>(seqlen_kv, 1), 4, kMostRows);
}

}  // namespace

ForwardResult forward(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                      unsigned jobs, const Planes& planes) {
  check_args(args);
  check_rows(rows, args.q.shape[2]);
  return is_packed(args) ? forward_packed(args, arithmetic, rows, jobs, planes)
                         : forward_unpacked(args, arithmetic, rows, jobs, planes);
}

ForwardResult forward_unpacked(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                               unsigned jobs, const Planes& planes, std::int64_t first_batch) {
  if (is_paged(args)) {
    return forward_unpacked(UnpagedCall(args).args(), arithmetic, rows, jobs, planes, first_batch);
  }
  const auto [batch, heads, seqlen_q, head_dim] = args.q.shape;
  const std::int64_t count = rows.count(seqlen_q);
  const std::int64_t dim_v = args.v.shape[3];
  constexpr double kNotComputed = std::numeric_limits<double>::quiet_NaN();
  ForwardResult result;
  result.out.assign(static_cast<std::size_t>(batch * heads * count * dim_v), kNotComputed);
  result.lse.assign(static_cast<std::size_t>(batch * heads * count), kNotComputed);

  result.row_max = result.score_errors = result.lse;
  result.dead.assign(result.lse.size(), 0);

  const ScoreRule rule(args, first_batch);
  const BlockContext context{args, rule, rows};
  const std::int64_t step = rows_per_block(args.k.shape[2]);
  const std::int64_t blocks = (count + step - 1) / step;
  const auto compute = arithmetic == Arithmetic::kExact ? compute_exact : compute_rounded;
  base::parallel_for(static_cast<std::size_t>(batch * heads * blocks), jobs, [&](std::size_t task) {
    const std::int64_t plane = static_cast<std::int64_t>(task) / blocks;
    const std::int64_t first = static_cast<std::int64_t>(task) % blocks * step;
    const RowBlock block{plane / heads, plane % heads, first, std::min(first + step, count)};
    if (!planes.holds({block.batch, context.head_kv(block.head)})) {
      return;
    }
    const std::int64_t row = plane * count + first;
    compute(context, block,
            {result.out.data() + row * dim_v, result.lse.data() + row, result.row_max.data() + row,
             result.score_errors.data() + row, result.dead.data() + row});
  });
  return result;
}

}  // namespace attnjit::reference
