#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/input/cases.hpp"

namespace attnjit::cli {

/// The flags that describe one problem, as they were given.
struct ProblemFlags {
  std::optional<std::string> dtype;
  std::optional<std::int64_t> batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim, head_dim_v;
  std::optional<std::string> causal;  ///< empty: given without a value
  std::optional<std::string> window;  ///< "L,R"
  std::optional<std::string> diagonal;
  std::optional<std::int64_t> diagonal_offset;
  std::optional<std::int64_t> row_offset, key_offset;
  std::optional<std::string> mask, mask_kind;
  std::optional<double> mask_density;
  bool prepared_mask = false;
  std::optional<std::string> bias, bias_dtype, bias_kind;
  std::map<std::string, float> scalars;  ///< by the names of problem::kScalars
  bool seqlens = false;
  bool packed = false;
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_kv;
  bool backward = false, dbias = false, dlse = false, deterministic = false;
  std::optional<std::string> dbias_dtype;
  bool sink = false, dsink = false;
  std::optional<std::string> sink_dtype;
  std::optional<std::string> alibi;
  bool row_max = false, max_logits = false;
  std::optional<std::int64_t> page_size, shared_pages;
  std::optional<std::string> tail_mask;
  std::optional<std::string> score, keep;
  std::vector<std::string> operands, grad;
  std::optional<std::string> blocks;
  std::optional<std::string> key_indices;
  std::optional<std::string> layout;
  std::optional<std::uint64_t> seed;

  bool operator==(const ProblemFlags&) const = default;
};

/// Sizes where no flag gives them; heads_kv and seqlen_kv follow heads_q and seqlen_q.
inline constexpr std::int64_t kDefaultHeads = 8;
inline constexpr std::int64_t kDefaultSeqlen = 1024;
inline constexpr std::int64_t kDefaultHeadDim = 128;

/// The problem that the flags describe, named by its own description. A usage error says which
/// flag is wrong and what to give instead.
Case make_case(const ProblemFlags& flags);

}  // namespace attnjit::cli
