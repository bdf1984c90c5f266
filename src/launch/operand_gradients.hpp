#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attnjit/backward.hpp"
#include "attnjit/backward/operand_gradient_params.h"
#include "attnjit/backward/operand_sum_config.h"
#include "codegen/kernels/operand_gradient.hpp"
#include "problem/backward_problem.hpp"

namespace attnjit::launch {

/// Tiles and memory of what one site adds to the gradient of its operand.
struct SiteLayout {
  std::int32_t batches = 1, heads = 1;  ///< planes of sums
  std::int32_t shares = 1;              ///< thread blocks of a line of tiles
  std::int32_t lines = 0;               ///< of tiles, of a plane; 0 where there is no pair
  std::int64_t entries = 0;             ///< of all lists of a share; 0: sums lie at their elements
  std::int64_t elements = 0;            ///< of the sums that do, of one share
  std::int64_t copies = 0;              ///< of these
  std::size_t values = 0, numbers = 0, ranges = 0;  ///< offsets into the workspace

  std::int64_t blocks() const { return std::int64_t{batches} * heads * shares * lines; }
};

/// Elements of a gradient.
std::int64_t elements(const problem::OperandGradient& gradient);

/// The tiles of the kernel that has the sums of a site.
struct SiteKernel {
  int block_q, block_kv;
  std::int64_t slots;  ///< thread blocks that the device holds at a time
  bool whole_planes;   ///< it has sums of all planes as one tile each, also of empty ones
};

/// Without offsets.
SiteLayout site_layout(const expr::GradientSite& site, const SiteKernel& kernel,
                       const problem::BackwardProblem& problem);

/// Parameters of a site's kernel, of memory at `workspace`.
kernel::OperandGradientParams site_params(const expr::GradientSite& site, const SiteLayout& layout,
                                          const problem::BackwardProblem& problem, void* workspace);

/// Slices of the lists of one gradient, where they are so long that another kernel adds up sums of
/// the slices.
struct SliceLayout {
  std::int32_t slices = 1;
  std::size_t sums = 0;  ///< offset into the workspace, [slice][element] in fp32
};

/// Without offsets.
SliceLayout slice_layout(const problem::OperandGradient& gradient,
                         const std::vector<expr::GradientSite>& sites, const SiteLayout* layouts,
                         const kernel::OperandSumConfig& config, int sm_count);

/// All that the kernels which add up gradients of operands are told.
struct OperandSums {
  const std::vector<expr::GradientSite>& sites;
  const SiteLayout* site_layouts;
  const SliceLayout* slice_layouts;  ///< of each gradient
  const kernel::OperandSumConfig& config;
  const problem::BackwardProblem& problem;
  const BackwardArgs& args;
  void* workspace;

  /// Set parameters, and return the thread blocks: of the kernel that adds up slices, 0 where there
  /// are none, and of the one that writes the gradients.
  std::int64_t set_slices(kernel::OperandSumParams& params) const;
  std::int64_t set_gradients(kernel::OperandSumParams& params) const;
};

}  // namespace attnjit::launch
