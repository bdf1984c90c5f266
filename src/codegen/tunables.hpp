#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "attnjit/backward/mma/config.h"
#include "attnjit/forward/mma/config.h"
#include "base/fields.hpp"
#include "codegen/arch.hpp"
#include "problem/backward_problem.hpp"
#include "problem/plan_key.hpp"

/// Everything that can be chosen for a problem's kernels: what tuning searches, records keep and
/// --config sets. A kernel's config is made from its family and these.
namespace attnjit::codegen {

/// The main loop of a kernel.
enum class Path {
  kMma,         ///< mma.sync, for every architecture
  kWgmma,       ///< wgmma and TMA, for sm_90a; of a backward the kernels of dk and dv, and of dq
  kSingleTile,  ///< mma.sync, for planes of up to 256 rows and keys; all gradients at once
  kSharedBias,  ///< batch elements share a bias over pairs: wgmma, and mma.sync in a backward
};

/// Everything that can be chosen for a forward, see kernel::ForwardMmaConfig and
/// ForwardWgmmaConfig. With Path::kWgmma num_stages counts those of K and of V.
struct ForwardTunables {
  Path path = Path::kMma;
  bool pack_gqa = false;  ///< query heads of a kv head share a tile
  int block_q = 0, block_kv = 0, num_stages = 0, num_warps = 0, min_blocks = 0;
  kernel::SoftmaxPolicy softmax = kernel::SoftmaxPolicy::kMaxFree;
  bool operator==(const ForwardTunables&) const = default;
};

constexpr auto fields(const ForwardTunables*) {
  using T = ForwardTunables;
  return base::fields_of<T>(
      base::Field{"path", &T::path}, base::Field{"pack_gqa", &T::pack_gqa},
      base::Field{"block_q", &T::block_q}, base::Field{"block_kv", &T::block_kv},
      base::Field{"num_stages", &T::num_stages}, base::Field{"num_warps", &T::num_warps},
      base::Field{"min_blocks", &T::min_blocks}, base::Field{"softmax", &T::softmax});
}

/// Whether tiles of a path have no such member. All but those of Path::kMma have as many warps as
/// their rows take. Those of kWgmma and kSharedBias have an SM each, those of kSingleTile and
/// kSharedBias no ring of tiles of keys.
constexpr bool lacks(const ForwardTunables& tunables, std::string_view member) {
  if (tunables.path == Path::kMma) return false;
  if (member == "num_warps" || member == "softmax") return true;
  if (tunables.path == Path::kSharedBias) return member == "num_stages" || member == "min_blocks";
  return member == (tunables.path == Path::kWgmma ? "min_blocks" : "num_stages");
}
constexpr std::array<base::Renamed, 1> renamed(const ForwardTunables*) {
  return {{{"pack_heads", "pack_gqa"}}};
}

/// The way in which dq comes about.
enum class DqMethod {
  kAdd,          ///< added up in fp32 by the kernel of dk and dv, by atomics
  kFirstStores,  ///< the same, but the first keys store, so that no kernel sets sums to zero before
  kKernel,       ///< by a kernel of its own that computes the scores again
  kOwnKvHead,    ///< by the kernel of dk and dv, whose thread blocks take all keys of a kv head
};

/// The way in which the gradient of the bias comes about.
enum class DbiasMethod {
  kNone,      ///< it is not wanted
  kRows,      ///< it does not vary over keys: rows of dS sum to dlse, and no score is needed
  kStore,     ///< by the kernel of dk and dv, tile by tile
  kColumns,   ///< it varies over keys alone: columns are summed in the kernel of dk and dv
  kAdd,       ///< planes are reduced: added up in fp32 by the kernel of dk and dv, by atomics
  kKernel,    ///< planes are reduced: by a kernel of its own that computes the scores again
  kPerPlane,  ///< a few planes are reduced: each is stored, in 16 bits, and a kernel adds them up
  kPerBlock,  ///< planes are reduced: each thread block adds up its own, and a kernel adds those
              ///< up; with Path::kSharedBias those of the kernel of dq
};

/// Whether the kernel of dk and dv writes dS tile by tile: to dbias, or plane by plane beside it.
constexpr bool stores_dbias(DbiasMethod method) {
  return method == DbiasMethod::kStore || method == DbiasMethod::kPerPlane;
}

/// The tile of one kernel of a backward, see kernel::BackwardMmaConfig.
struct BackwardTile {
  Path path = Path::kMma;
  int block_q = 0, block_kv = 0, num_stages = 0, num_warps = 0, query_warps = 0, min_blocks = 0;
  bool late = false;
  kernel::Fresh fresh = kernel::Fresh::kNone;
  bool operator==(const BackwardTile&) const = default;
};

constexpr auto fields(const BackwardTile*) {
  using T = BackwardTile;
  return base::fields_of<T>(
      base::Field{"path", &T::path}, base::Field{"block_q", &T::block_q},
      base::Field{"block_kv", &T::block_kv}, base::Field{"num_stages", &T::num_stages},
      base::Field{"num_warps", &T::num_warps}, base::Field{"query_warps", &T::query_warps},
      base::Field{"min_blocks", &T::min_blocks}, base::Field{"late", &T::late},
      base::Field{"fresh", &T::fresh});
}

/// As of a forward, but for num_stages, which counts planes with Path::kSingleTile and kSharedBias.
constexpr bool lacks(const BackwardTile& tile, std::string_view member) {
  if (tile.path == Path::kMma) return false;
  if (member == "num_warps" || member == "query_warps" || member == "late" || member == "fresh") {
    return true;
  }
  return tile.path != Path::kSingleTile && member == "min_blocks";
}

/// Everything that can be chosen for a backward.
struct BackwardTunables {
  DqMethod dq_method = DqMethod::kAdd;
  DbiasMethod dbias_method = DbiasMethod::kNone;
  bool split = true;   ///< queries of a key tile may be shared out where the grid is small
  BackwardTile dkv;    ///< of the kernel of dk and dv
  BackwardTile dq;     ///< of the kernel of dq, used with DqMethod::kKernel
  BackwardTile dbias;  ///< of the kernel of dbias, used with DbiasMethod::kKernel
  bool operator==(const BackwardTunables&) const = default;
};

constexpr auto fields(const BackwardTunables*) {
  using T = BackwardTunables;
  return base::fields_of<T>(base::Field{"dq_method", &T::dq_method},
                            base::Field{"dbias_method", &T::dbias_method},
                            base::Field{"split", &T::split}, base::Field{"dkv", &T::dkv},
                            base::Field{"dq", &T::dq}, base::Field{"dbias", &T::dbias});
}

/// The path of the main kernel.
constexpr Path main_path(const ForwardTunables& tunables) { return tunables.path; }
constexpr Path main_path(const BackwardTunables& tunables) { return tunables.dkv.path; }

/// The method that serves `family` where nothing speaks for another.
DbiasMethod default_dbias_method(const problem::BackwardFamily& family);

/// Whether a backward of `family` on Path::kWgmma computes dq in a kernel of its own, and dk and dv
/// 64 keys at a time: heads of more than 128 columns, and deterministic backwards of packed
/// sequences. There thread blocks that add to dq in order would wait for ones that faulty
/// cu_seqlens, numbers that fall, leave out.
bool separates_dq(const problem::BackwardFamily& family);

/// The rule that keeps every forward of `family` on `arch`, or the kernel of dk and dv of every
/// backward, from Path::kWgmma, or nullopt.
std::optional<std::string> why_no_wgmma(const problem::Family& family, const Arch& arch);
/// Whether the copy engine brings tiles of `block_kv` keys out of pages of `page_size`: a tile is a
/// part of a page, or whole pages of 16 or a multiple of 32; keys that are not paged (0) lie
/// anywhere.
constexpr bool fits_pages(int block_kv, int page_size) {
  const bool whole_pages = page_size == 16 || page_size % 32 == 0;
  return page_size % block_kv == 0 || (whole_pages && block_kv % page_size == 0);
}
std::optional<std::string> why_no_wgmma(const problem::BackwardFamily& family, const Arch& arch);

/// The rule that keeps every forward of `family`, or every backward, from Path::kSingleTile, or
/// nullopt.
std::optional<std::string> why_no_single_tile(const problem::Family& family);
std::optional<std::string> why_no_single_tile(const problem::BackwardFamily& family);

/// The same of Path::kSharedBias.
std::optional<std::string> why_no_shared_bias(const problem::Family& family, const Arch& arch);
std::optional<std::string> why_no_shared_bias(const problem::BackwardFamily& family);

/// The rule that keeps `tunables` from running problems of `family` on `arch`, as a sentence, or
/// nullopt.
std::optional<std::string> why_unfit(const ForwardTunables& tunables, const problem::Family& family,
                                     const Arch& arch);
std::optional<std::string> why_unfit(const BackwardTunables& tunables,
                                     const problem::BackwardFamily& family, const Arch& arch);

/// The same of all problems of `key`: lengths may be too large for the kernel.
std::optional<std::string> why_unfit(const ForwardTunables& tunables, const problem::PlanKey& key,
                                     const Arch& arch);
std::optional<std::string> why_unfit(const BackwardTunables& tunables,
                                     const problem::BackwardPlanKey& key, const Arch& arch);

/// "q64 pack_gqa kv128 s2 w8 b1 max_free": for titles and tables.
std::string describe_tile(const ForwardTunables& tunables);

/// "q64 kv128 s2 w8 qw2 b1 late fresh=warp".
std::string describe_tile(const BackwardTile& tile);

/// The tile of the kernel of dk and dv, and those of the others that run: "q64 kv64 s2 w4 qw2 b1,
/// dq q128 kv32 s2 w4 qw4 b1".
std::string describe_tile(const BackwardTunables& tunables);

}  // namespace attnjit::codegen

template <>
struct attnjit::base::Words<attnjit::codegen::Path> {
  using enum codegen::Path;
  static constexpr Word<codegen::Path> kAll[] = {
      {"mma", kMma}, {"wgmma", kWgmma}, {"single_tile", kSingleTile}, {"shared_bias", kSharedBias}};
};
template <>
struct attnjit::base::Words<attnjit::kernel::SoftmaxPolicy> {
  using enum kernel::SoftmaxPolicy;
  static constexpr Word<kernel::SoftmaxPolicy> kAll[] = {{"running_max", kRunningMax},
                                                         {"max_free", kMaxFree}};
};
template <>
struct attnjit::base::Words<attnjit::kernel::Fresh> {
  using enum kernel::Fresh;
  static constexpr Word<kernel::Fresh> kAll[] = {{"none", kNone},
                                                 {"shared", kShared},
                                                 {"warp", kWarp},
                                                 {"shared+warp", kSharedWarp},
                                                 {"thread", kThread},
                                                 {"shared+thread", kSharedThread},
                                                 {"warp+thread", kWarpThread},
                                                 {"all", kSharedWarpThread}};
};
template <>
struct attnjit::base::Words<attnjit::codegen::DqMethod> {
  using enum codegen::DqMethod;
  static constexpr Word<codegen::DqMethod> kAll[] = {{"add", kAdd},
                                                     {"first_stores", kFirstStores},
                                                     {"kernel", kKernel},
                                                     {"own_kv_head", kOwnKvHead}};
  static constexpr Renamed kRenamed[] = {{"store", "first_stores"}, {"plane", "own_kv_head"}};
};
template <>
struct attnjit::base::Words<attnjit::codegen::DbiasMethod> {
  using enum codegen::DbiasMethod;
  static constexpr Word<codegen::DbiasMethod> kAll[] = {
      {"none", kNone}, {"rows", kRows},     {"store", kStore},        {"columns", kColumns},
      {"add", kAdd},   {"kernel", kKernel}, {"per_plane", kPerPlane}, {"per_block", kPerBlock}};
  static constexpr Renamed kRenamed[] = {{"parts", "per_plane"}};
};
