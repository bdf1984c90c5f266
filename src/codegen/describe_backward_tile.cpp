#include <fmt/format.h>

#include "codegen/tunables.hpp"

namespace attnjit::codegen {

std::string describe_tile(const BackwardTile& t) {
  if (t.path == Path::kSingleTile) {
    return fmt::format("single_tile q{} kv{} s{} b{}", t.block_q, t.block_kv, t.num_stages,
                       t.min_blocks);
  }
  if (t.path != Path::kMma) {
    return fmt::format("{} q{} kv{} s{}", base::word(t.path), t.block_q, t.block_kv, t.num_stages);
  }
  return fmt::format(
      "q{} kv{} s{} w{} qw{} b{}{}{}", t.block_q, t.block_kv, t.num_stages, t.num_warps,
      t.query_warps, t.min_blocks, t.late ? " late" : "",
      t.fresh != kernel::Fresh::kNone ? fmt::format(" fresh={}", base::word(t.fresh)) : "");
}

std::string describe_tile(const BackwardTunables& t) {
  std::string text = describe_tile(t.dkv);
  if (t.dq_method == DqMethod::kOwnKvHead && t.dkv.path != Path::kSingleTile)
    text += " own_kv_head";
  if (t.dq_method == DqMethod::kFirstStores) text += " first_stores";
  if (t.dq_method == DqMethod::kKernel) text += ", dq " + describe_tile(t.dq);
  if (t.dbias_method == DbiasMethod::kKernel) text += ", dbias " + describe_tile(t.dbias);
  return text;
}

}  // namespace attnjit::codegen
