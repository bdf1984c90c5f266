#include "instance/sequences.hpp"

#include <algorithm>

#include "tensor/random.hpp"

namespace attnjit::instance {
namespace {

// One time in four the last sequence ends anywhere.
std::vector<std::int32_t> draw(std::int64_t sequences, std::int64_t rows, tensor::Random random) {
  std::vector<std::int32_t> begins = {0};
  std::uint64_t next = 0;
  const bool all = random.below(next++, 4) != 0;
  for (std::int64_t b = 1; b <= sequences; ++b) {
    const std::int64_t row = b == sequences && all ? rows : random.below(next++, rows + 1);
    begins.push_back(static_cast<std::int32_t>(row));
  }
  std::sort(begins.begin(), begins.end());
  return begins;
}

std::int64_t longest(const std::vector<std::int32_t>& begins, std::int64_t rows) {
  const auto clamped = [rows](std::int64_t row) { return std::clamp<std::int64_t>(row, 0, rows); };
  std::int64_t most = 0;
  for (std::size_t b = 0; b + 1 < begins.size(); ++b) {
    most = std::max(most, clamped(begins[b + 1]) - (b == 0 ? 0 : clamped(begins[b])));
  }
  return most;
}

}  // namespace

PackedBegins packed_begins(const ProblemSpec& spec) {
  constexpr std::uint64_t kOfQueries = 200, kOfKeys = 201;
  const tensor::Random root(spec.seed);
  // Self-attention has the same sequences on both sides.
  const bool same = spec.seqlen_q == spec.seqlen_kv && spec.seed % 2 == 0;
  return {spec.cu_seqlens_q.empty() ? draw(spec.batch, spec.seqlen_q, root.stream(kOfQueries))
                                    : spec.cu_seqlens_q,
          spec.cu_seqlens_kv.empty()
              ? draw(spec.batch, spec.seqlen_kv, root.stream(same ? kOfQueries : kOfKeys))
              : spec.cu_seqlens_kv};
}

OperandSizes operand_sizes(const ProblemSpec& spec) {
  if (!spec.packed) return {spec.seqlen_q, spec.seqlen_kv};
  const PackedBegins begins = packed_begins(spec);
  const std::int64_t keys = spec.paged() ? spec.seqlen_kv : longest(begins.kv, spec.seqlen_kv);
  return {spec.operand_queries.value_or(longest(begins.q, spec.seqlen_q)),
          spec.operand_keys.value_or(keys)};
}

}  // namespace attnjit::instance
