#pragma once
#include "base/fields.hpp"
#include "codegen/tunables.hpp"
#include "problem/plan_key.hpp"

namespace attnjit::tuner {

/// The operands that the scores of a kernel meet key by key.
enum class Operands { kNone, kMask, kBias, kBoth };

/// The properties of a problem and an architecture that configuration 0 depends on.
struct Traits {
  int head_dim = 0;  ///< the wider one of head_dim and head_dim_v
  DType dtype = DType::kBFloat16;
  int rows = 0;              ///< bucket of the rows of a plane; with pack_gqa of its heads together
  int shared_kib = 0;        ///< that a thread block may have
  bool wgmma = false;        ///< codegen::Path::kWgmma serves it
  bool single_tile = false;  ///< codegen::Path::kSingleTile serves it
  bool shared_bias = false;  ///< so does codegen::Path::kSharedBias, of many planes
  Operands operands = Operands::kNone;
  bool aligned = false;    ///< q, k, v and the like move in 16-byte vectors
  bool wide = true;        ///< so do the operands, and a bias has 16 bits
  bool fp32_bias = false;  ///< read in 16-byte vectors, but twice as many
  bool mask_per_pair = false, bias_per_pair = false;
  bool bounded_left = false, bounded_right = false, seqlens = false;
  bool positive_scale = true;  ///< folded into the exponent where there is no bias
  bool softcap = false;
  int keep_block_q = 0, keep_block_kv = 0;  ///< keep_tile()
  // Of a forward: none, false.
  codegen::DbiasMethod dbias = codegen::DbiasMethod::kNone;
  bool deterministic = false;
  bool separate_dq = false;  ///< codegen::separates_dq()
  // Of a backward: false.
  bool pack_gqa = false;  ///< query heads of a kv head share a tile
  bool tail_mask = false;
};

constexpr auto fields(const Traits*) {
  using T = Traits;
  return base::fields_of<T>(
      base::Field{"head_dim", &T::head_dim}, base::Field{"dtype", &T::dtype},
      base::Field{"rows", &T::rows}, base::Field{"shared_kib", &T::shared_kib},
      base::Field{"wgmma", &T::wgmma}, base::Field{"single_tile", &T::single_tile},
      base::Field{"shared_bias", &T::shared_bias}, base::Field{"operands", &T::operands},
      base::Field{"aligned", &T::aligned}, base::Field{"wide", &T::wide},
      base::Field{"fp32_bias", &T::fp32_bias}, base::Field{"mask_per_pair", &T::mask_per_pair},
      base::Field{"bias_per_pair", &T::bias_per_pair},
      base::Field{"bounded_left", &T::bounded_left},
      base::Field{"bounded_right", &T::bounded_right}, base::Field{"seqlens", &T::seqlens},
      base::Field{"positive_scale", &T::positive_scale}, base::Field{"softcap", &T::softcap},
      base::Field{"keep_block_q", &T::keep_block_q},
      base::Field{"keep_block_kv", &T::keep_block_kv}, base::Field{"dbias", &T::dbias},
      base::Field{"deterministic", &T::deterministic}, base::Field{"separate_dq", &T::separate_dq},
      base::Field{"pack_gqa", &T::pack_gqa}, base::Field{"tail_mask", &T::tail_mask});
}

/// The widest tiles, of 64 or 128 rows and keys, that do not cross the blocks by which `keep` reads
/// an operand (expr::read_blocks()), so that a tile is kept or skipped as a whole. 0: `keep` reads
/// no operand by blocks, or by blocks that hold no such tile.
struct KeepTile {
  int block_q = 0, block_kv = 0;
};
/// Of tiles whose rows are `pack_gqa_heads` of each query.
KeepTile keep_tile(const problem::Family& family, int pack_gqa_heads);

/// Of a forward with or without pack_gqa. Its mask is read as bits and always wide, and a
/// bias that is the same for all keys of a row is none.
Traits traits(const problem::PlanKey& key, bool pack_gqa, const codegen::Arch& arch);
/// Of a backward. A bias that is the same for all keys of a row is none here too.
Traits traits(const problem::BackwardPlanKey& key, codegen::DbiasMethod dbias,
              const codegen::Arch& arch);

}  // namespace attnjit::tuner

template <>
struct attnjit::base::Words<attnjit::tuner::Operands> {
  using enum tuner::Operands;
  static constexpr Word<tuner::Operands> kAll[] = {
      {"none", kNone}, {"mask", kMask}, {"bias", kBias}, {"both", kBoth}};
};
