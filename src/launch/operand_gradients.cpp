#include "launch/operand_gradients.hpp"

#include <algorithm>

#include "codegen/kernel_dtype.hpp"
#include "launch/bit_mask.hpp"
#include "launch/grid.hpp"

namespace attnjit::launch {
namespace {

using expr::GradientForm;
using expr::GradientSite;
using expr::Index;

static_assert(kernel::kMaxOperandSums == problem::kMaxOperandGradients &&
              kernel::kMaxSumSources == problem::kMaxGradientSites);

// Of shares that add to other sums: those are read once more.
constexpr SplitCosts kSiteSplitCosts{.start = 2, .combine = 4, .shares_per_tile = 32};

const problem::OperandGradient& gradient_of(const GradientSite& site,
                                            const problem::BackwardProblem& problem) {
  return *std::ranges::find(problem.gradients_of_operands(), site.operand,
                            &problem::OperandGradient::number);
}

// Elements of a gradient, and the elements between neighbours of each axis of a dense one.
struct DenseAxes {
  std::int64_t count = 1;
  std::array<std::int64_t, expr::kMaxRank> strides{};

  explicit DenseAxes(const problem::ExpressionOperand& operand) {
    for (std::size_t axis = static_cast<std::size_t>(operand.rank); axis-- > 0;) {
      strides[axis] = count;
      count *= operand.sizes[axis];
    }
  }
};

// Sets the strides of pairs in a dense gradient, whose axes are indices or fixed.
void set_pair_strides(const GradientSite& site, const problem::ExpressionOperand& operand,
                      kernel::OperandGradientParams& params) {
  const DenseAxes dense(operand);
  const expr::Node& read = site.read.top();
  for (std::size_t axis = 0; axis < read.num_args; ++axis) {
    const expr::Node& index = site.read.node(read.args[axis]);
    const std::int64_t stride = dense.strides[axis], last = operand.sizes[axis] - 1;
    if (index.is(expr::Op::kLiteral)) {
      params.first_element += stride * std::clamp<std::int64_t>(expr::int_value(index), 0, last);
      continue;
    }
    switch (static_cast<Index>(index.payload)) {
      case Index::kBatch:
        params.batch_stride = last == 0 ? 0 : stride;
        break;
      case Index::kHeadQ:
      case Index::kHeadKv:
        params.head_stride = last == 0 ? 0 : stride;
        break;
      case Index::kRow:
        params.query_stride = stride;
        break;
      default:
        params.key_stride = stride;
        break;
    }
  }
}

// Axes of one element make batch elements or heads share a plane of pairs.
bool shares_axis(const GradientSite& site, const problem::ExpressionOperand& operand,
                 std::initializer_list<Index> of) {
  const expr::Node& read = site.read.top();
  for (std::size_t axis = 0; axis < read.num_args; ++axis) {
    const expr::Node& index = site.read.node(read.args[axis]);
    if (!index.is(expr::Op::kIndex) || operand.sizes[axis] != 1) continue;
    if (std::ranges::find(of, static_cast<Index>(index.payload)) != of.end()) return true;
  }
  return false;
}

}  // namespace

std::int64_t elements(const problem::OperandGradient& gradient) {
  return DenseAxes(gradient.tensor).count;
}

SiteLayout site_layout(const GradientSite& site, const SiteKernel& of,
                       const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  const problem::ExpressionOperand& operand = gradient_of(site, problem).tensor;
  const bool pairs = site.form == GradientForm::kPairs;
  const bool one_batch = pairs && shares_axis(site, operand, {Index::kBatch});
  const bool one_head = pairs && shares_axis(site, operand, {Index::kHeadQ, Index::kHeadKv});
  SiteLayout layout;
  layout.elements = DenseAxes(operand).count;
  const bool atomics = site.form == GradientForm::kAtomics;
  const bool has_pairs = p.has_rows() && p.seqlen_kv > 0;
  const codegen::SiteLists lists = codegen::site_lists(site.form, of.block_q, of.block_kv);
  if (has_pairs || of.whole_planes) {
    const int q_tiles = of.whole_planes ? 1 : kernel::ceil_div(p.seqlen_q, of.block_q);
    const int kv_tiles = of.whole_planes ? 1 : kernel::ceil_div(p.seqlen_kv, of.block_kv);
    layout.lines = lists.lines(q_tiles, kv_tiles);
    if (atomics || (site.per_batch && !one_batch)) layout.batches = p.batch;
    if (atomics || (site.per_head && !one_head)) layout.heads = p.num_heads_q;
    if (!atomics && site.per_kv_head && !one_head) layout.heads = p.num_heads_kv;
    const std::int64_t planes = std::int64_t{layout.batches} * layout.heads;
    const std::int64_t sharers = std::int64_t{p.batch} * p.num_heads_q / planes;
    layout.shares = choose_splits(planes * layout.lines, sharers, of.slots, kSiteSplitCosts);
  }
  layout.entries = layout.blocks() / layout.shares * lists.entries;
  layout.copies = lists.entries > 0 ? 0 : pairs ? layout.shares : 1;
  return layout;
}

kernel::OperandGradientParams site_params(const GradientSite& site, const SiteLayout& layout,
                                          const problem::BackwardProblem& problem,
                                          void* workspace) {
  const auto offset = [](std::size_t bytes) { return static_cast<std::int64_t>(bytes); };
  kernel::OperandGradientParams params{
      .batches = layout.batches,
      .heads = layout.heads,
      .shares = layout.shares,
      .num_lines = layout.lines,
      .values = at_offset<float>(workspace, offset(layout.values)),
      .elements = nullptr,
      .ranges = nullptr,
      .share_stride = layout.entries > 0 ? layout.entries : layout.elements,
      .batch_stride = 0,
      .head_stride = 0,
      .query_stride = 0,
      .key_stride = 0,
      .first_element = 0,
      .num_queries = problem.forward.seqlen_q,
      .num_keys = problem.forward.seqlen_kv};
  if (layout.entries > 0) {
    params.elements = at_offset<kernel::int32>(workspace, offset(layout.numbers));
    params.ranges = at_offset<kernel::IntRange>(workspace, offset(layout.ranges));
  } else if (site.form == GradientForm::kPairs) {
    set_pair_strides(site, gradient_of(site, problem).tensor, params);
  }
  return params;
}

SliceLayout slice_layout(const problem::OperandGradient& gradient,
                         const std::vector<GradientSite>& sites, const SiteLayout* layouts,
                         const kernel::OperandSumConfig& config, int sm_count) {
  // Of all shares of a list, that one thread block reads as fast as several would begin.
  constexpr std::int64_t kChunks = 64, kMostSlices = 128;
  std::int64_t chunks = 0, copies = 0;
  for (std::size_t n = 0; n < sites.size(); ++n) {
    if (sites[n].operand != gradient.number) continue;
    chunks += layouts[n].entries / kernel::kListChunk;
    copies += layouts[n].shares * layouts[n].entries / kernel::kListChunk;
  }
  const std::int64_t blocks = ceil_div(elements(gradient), config.num_elements);
  if (blocks == 0) return {};
  const std::int64_t slices = std::min(
      {ceil_div(2 * sm_count, blocks), copies / kChunks, ceil_div(chunks, config.num_warps)});
  return {.slices = static_cast<std::int32_t>(std::clamp<std::int64_t>(slices, 1, kMostSlices))};
}

namespace {

// Adds lists of one gradient, sums at their elements, or both to a kernel's parameters.
void add_sources(const OperandSums& sums, std::int32_t operand, int number, bool lists, bool others,
                 kernel::OperandSumParams& params) {
  for (std::size_t n = 0; n < sums.sites.size(); ++n) {
    if (sums.sites[n].operand != operand) continue;
    const SiteLayout& layout = sums.site_layouts[n];
    const bool is_list = layout.entries > 0 || layout.copies == 0;
    if (is_list ? !lists : !others) continue;
    const kernel::OperandGradientParams site =
        site_params(sums.sites[n], layout, sums.problem, sums.workspace);
    params.sources[params.num_sources++] = {
        .values = site.values,
        .elements = site.elements,
        .ranges = site.ranges,
        .chunks = layout.entries / kernel::kListChunk,
        .copies = static_cast<kernel::int32>(layout.entries > 0 ? layout.shares : layout.copies),
        .operand = number};
  }
}

kernel::OperandSum dense_sum(float* target, std::int64_t elements, std::int32_t slices) {
  return {.target = target,
          .strides = {1, 0, 0, 0},
          .sizes = {static_cast<kernel::int32>(elements), 1, 1, 1},
          .num_elements = static_cast<kernel::int32>(elements),
          .dtype = kernel::DType::kFloat32,
          .slices = slices,
          .end_block = 0};
}

kernel::OperandSum gradient_sum(const problem::ExpressionOperand& operand, void* target) {
  kernel::OperandSum sum{.target = target,
                         .strides = {},
                         .sizes = {1, 1, 1, 1},
                         .num_elements = static_cast<kernel::int32>(DenseAxes(operand).count),
                         .dtype = codegen::kernel_dtype(operand.dtype),
                         .slices = 1,
                         .end_block = 0};
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(operand.rank); ++axis) {
    sum.sizes[axis] = static_cast<kernel::int32>(operand.sizes[axis]);
    sum.strides[axis] = operand.strides[axis];
  }
  return sum;
}

// Adds a sum to the parameters of a kernel, which then has as many thread blocks.
std::int64_t append(const kernel::OperandSum& sum, const kernel::OperandSumConfig& config,
                    std::int64_t blocks, kernel::OperandSumParams& params) {
  blocks += ceil_div(sum.num_elements, config.num_elements) * sum.slices;
  params.sums[params.num_sums] = sum;
  params.sums[params.num_sums++].end_block = static_cast<kernel::int32>(blocks);
  return blocks;
}

}  // namespace

std::int64_t OperandSums::set_slices(kernel::OperandSumParams& params) const {
  params.num_sums = params.num_sources = 0;
  std::int64_t blocks = 0;
  const SliceLayout* layout = slice_layouts;
  for (const problem::OperandGradient& gradient : problem.gradients_of_operands()) {
    const SliceLayout& slices = *layout++;
    if (slices.slices == 1) continue;
    add_sources(*this, gradient.number, params.num_sums, true, false, params);
    float* const target = at_offset<float>(workspace, static_cast<std::int64_t>(slices.sums));
    blocks = append(dense_sum(target, elements(gradient), slices.slices), config, blocks, params);
  }
  return blocks;
}

std::int64_t OperandSums::set_gradients(kernel::OperandSumParams& params) const {
  params.num_sums = params.num_sources = 0;
  std::int64_t blocks = 0;
  const SliceLayout* layout = slice_layouts;
  for (const problem::OperandGradient& gradient : problem.gradients_of_operands()) {
    const SliceLayout& slices = *layout++;
    const bool sliced = slices.slices > 1;
    add_sources(*this, gradient.number, params.num_sums, !sliced, true, params);
    if (sliced) {
      params.sources[params.num_sources++] = {
          .values = at_offset<float>(workspace, static_cast<std::int64_t>(slices.sums)),
          .elements = nullptr,
          .ranges = nullptr,
          .chunks = 0,
          .copies = slices.slices,
          .operand = params.num_sums};
    }
    const auto argument = static_cast<std::size_t>(gradient.tensor.argument);
    blocks = append(gradient_sum(gradient.tensor, args.operand_gradients[argument].data), config,
                    blocks, params);
  }
  return blocks;
}

}  // namespace attnjit::launch
