#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "instance/problem_spec.hpp"

namespace attnjit::executor_test {

using Begins = std::vector<std::int32_t>;

/// Sequences that begin there, whose unread keys and dead rows are poisoned. `rows` and `keys` are
/// those of the tensors; 0: up to the last sequence.
inline instance::ProblemSpec packed(Begins q, Begins kv, std::int64_t rows = 0,
                                    std::int64_t keys = 0) {
  instance::ProblemSpec spec{.batch = static_cast<std::int64_t>(q.size()) - 1,
                             .heads_q = 4,
                             .heads_kv = 2,
                             .seqlen_q = rows == 0 ? q.back() : rows,
                             .seqlen_kv = keys == 0 ? kv.back() : keys,
                             .head_dim = 40,
                             .packed = true};
  spec.cu_seqlens_q = std::move(q);
  spec.cu_seqlens_kv = std::move(kv);
  spec.poison_dropped_keys = true;
  return spec;
}

/// Lengths 100, 0, 1, 65, 0 and 134 beside keys 90, 7, 0, 65, 64 and 74, and rows of no sequence.
inline instance::ProblemSpec ragged() {
  return packed({0, 100, 100, 101, 166, 166, 300}, {0, 90, 97, 97, 162, 226, 300}, 333, 320);
}

/// Sequences of no row to three, two heads that share one.
inline instance::ProblemSpec short_sequences(int count) {
  Begins begins = {0};
  for (int b = 0; b < count; ++b) begins.push_back(begins.back() + (b % 7 == 0 ? 3 : b % 2));
  instance::ProblemSpec spec = packed(begins, begins);
  spec.heads_q = 2;
  spec.heads_kv = 1;
  return spec;
}

/// The backward of a problem, with all that it may compute.
inline instance::ProblemSpec gradients(instance::ProblemSpec spec, bool deterministic = false) {
  spec.backward = spec.want_dlse = true;
  spec.want_dbias = !spec.bias.empty();
  spec.want_dsink = spec.use_sink;
  spec.deterministic = deterministic;
  return spec;
}

/// A problem with a mask and a bias by pattern.
inline instance::ProblemSpec with(instance::ProblemSpec spec, const char* mask, const char* bias) {
  spec.mask = mask;
  spec.bias = bias;
  return spec;
}

/// Numbers that the caller must not give: they fall, or leave a tensor of 90 rows.
inline const std::vector<Begins> kFaulty = {
    {0, 60, 20, 90}, {-5, 40, 1 << 30, 90}, {30, -(1 << 30), 50, 70}};

/// Whether a report is of memory outside of the tensors.
inline bool leaves_tensors(const std::string& report) {
  for (const char* miss : {"outside", "past the end", "before the start", "no tensor"}) {
    if (report.find(miss) != std::string::npos) return true;
  }
  return false;
}

}  // namespace attnjit::executor_test
