#include "cli/work/bench/bench_row.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "cli/input/words.hpp"
#include "reference/paged.hpp"
#include "reference/score_rule.hpp"
#include "reference/sequences.hpp"
#include "tensor/half.hpp"

namespace attnjit::cli {
namespace {

// Five significant digits: more than a timer tells, and short in a file.
double rounded(double value) { return std::stod(fmt::format("{:.5g}", value)); }

Json diagonal_json(const instance::ProblemSpec& spec) {
  for (const auto& [text, value] : kDiagonals) {
    if (value == spec.diagonal) return text;
  }
  return nullptr;
}

// Scores of one head, over the batch or the packed sequences.
double count_scores(const ForwardArgs& args) {
  double scores = 0;
  if (reference::is_packed(args)) {
    for (const reference::Sequence& sequence : reference::split_sequences(args)) {
      scores += count_scores(sequence.call);
    }
    return scores;
  }
  const reference::ScoreRule rule(args);
  for (std::int64_t b = 0; b < args.q.shape[0]; ++b) {
    for (std::int64_t i = 0; i < args.q.shape[2]; ++i) {
      const reference::KeyRange keys = rule.band(b, i);
      scores += static_cast<double>(keys.end - keys.begin);
    }
  }
  return scores;
}

}  // namespace

Work count_work(const ForwardArgs& args, bool backward) {
  const double scores = count_scores(args);
  const auto heads_q = static_cast<double>(args.q.shape[1]);
  const auto dims = static_cast<double>(args.k.shape[3] + args.v.shape[3]);
  const std::int64_t elements = reference::is_packed(args) ? args.num_sequences : args.q.shape[0];
  const std::int64_t planes = reference::is_paged(args) ? elements : args.k.shape[0];
  const auto keys = static_cast<double>(planes * args.k.shape[1] * reference::num_keys(args));
  constexpr double kBackward = 2.5;  // five products to the forward's two
  return {(backward ? kBackward : 1) * 2 * scores * heads_q * dims,
          keys * dims * static_cast<double>(element_size(args.k.dtype))};
}

Json problem_json(const Case& job) {
  const instance::ProblemSpec& spec = job.spec;
  Json row = {{"name", job.name},
              {"problem", instance::describe(spec)},
              {"dtype", tensor::dtype_name(spec.dtype)},
              {"batch", spec.batch},
              {"heads_q", spec.heads_q},
              {"heads_kv", spec.heads_kv},
              {"seqlen_q", spec.seqlen_q},
              {"seqlen_kv", spec.seqlen_kv},
              {"head_dim", spec.head_dim},
              {"head_dim_v", spec.value_dim()},
              {"causal", spec.causal},
              {"diagonal", diagonal_json(spec)},
              {"mask", spec.mask},
              {"bias", spec.bias}};
  if (spec.prepare_mask) row["prepared_mask"] = true;
  if (spec.backward) {
    row["pass"] = "backward";
    row["dbias"] = spec.want_dbias;
    row["deterministic"] = spec.deterministic;
  }
  return row;
}

Json row_json(const Case& job, const Measurement& measured) {
  Json row = problem_json(job);
  row["ms"] = rounded(measured.ms());
  row["round_ms"] = Json::array();
  for (const double ms : measured.round_ms) row["round_ms"].push_back(rounded(ms));
  row["tflops"] = rounded(measured.tflops());
  row["kv_tb_per_s"] = rounded(measured.kv_tb_per_s());
  row["workspace_bytes"] = measured.workspace_bytes;
  row["tile"] = measured.tile;
  row["config_from"] = measured.config_from;
  return row;
}

}  // namespace attnjit::cli
