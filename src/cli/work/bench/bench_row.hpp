#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "cli/input/cases.hpp"
#include "cli/report/console.hpp"

namespace attnjit::cli {

/// The work of a call, whichever kernel does it.
struct Work {
  /// Both products over the scores that causal, window and seqlens leave; 2.5 times that of a
  /// backward, which has five products.
  double flop = 0;
  double kv_bytes = 0;  ///< of k and v, counted once
};

/// The work of a call on host memory, or of its backward: seqlens are read. Mask and bias count
/// nothing.
Work count_work(const ForwardArgs& args, bool backward = false);

/// How a problem ran.
struct Measurement {
  std::vector<double> round_ms;  ///< the median launch of each round in milliseconds, sorted
  Work work;
  std::optional<double> clock_mhz;  ///< of the SMs meanwhile, where it was sampled
  std::size_t workspace_bytes = 0;  ///< device memory besides the tensors
  std::string manifest_line;        ///< of the problem
  std::string kernel;               ///< the entry of the main one
  std::string path;                 ///< of the main kernel, "wgmma"
  std::string tile;                 ///< "q128 kv64 s2 w8 b1"
  std::string config_from;          ///< where that configuration came from

  double ms() const { return round_ms[round_ms.size() / 2]; }
  /// How much slower the slowest round was than the fastest, 0.05 for 5 %.
  double spread() const { return round_ms.back() / round_ms.front() - 1; }
  double tflops() const { return work.flop / ms() / 1e9; }
  double kv_tb_per_s() const { return work.kv_bytes / ms() / 1e9; }
};

/// The members of a result row that say which problem it is of.
Json problem_json(const Case& job);

/// problem_json() and what was measured, to 5 digits.
Json row_json(const Case& job, const Measurement& measured);

}  // namespace attnjit::cli
