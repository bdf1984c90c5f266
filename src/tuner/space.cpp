#include "tuner/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/embedded_configs.hpp"
#include "tuner/json_lists.hpp"

namespace attnjit::tuner {
namespace {

using base::Json;

constexpr int kSpaceSchema = 3;
constexpr int kLeastBlock = 64;  // rows or keys: always tried

[[noreturn]] void refuse_space(std::string_view reason) {
  throw Error(ErrorKind::kInvalidEnvironment, fmt::format("search space: {}", reason));
}

// A block pads if it holds more rows or keys than the problem's bucket, than kLeastBlock and than
// configuration 0's, or than the blocks that a keep expression keeps or skips.
bool pads(const codegen::ForwardTunables& config, const codegen::ForwardTunables&,
          const problem::PlanKey& key) {
  const int pack_gqa_heads = config.pack_gqa ? key.family.gqa_ratio : 1;
  const KeepTile most = keep_tile(key.family, pack_gqa_heads);
  if (most.block_q > 0 && config.block_q > most.block_q) return true;
  if (most.block_kv > 0 && config.block_kv > most.block_kv) return true;
  return config.block_q > std::max(kLeastBlock, key.bucket_q * pack_gqa_heads);
}
bool pads(const codegen::BackwardTunables& config, const codegen::BackwardTunables& zero,
          const problem::BackwardPlanKey& key) {
  return config.dkv.block_q > std::max({kLeastBlock, key.bucket_q, zero.dkv.block_q}) ||
         config.dkv.block_kv > std::max({kLeastBlock, key.bucket_kv, zero.dkv.block_kv});
}

// Tiles of kernels that do not run become those of configuration 0, so that candidates which differ
// in them alone are equal. The path of a deterministic backward says where dq comes from.
void settle(codegen::ForwardTunables&, const codegen::ForwardTunables&, const problem::PlanKey&) {}
void settle(codegen::BackwardTunables& config, const codegen::BackwardTunables& zero,
            const problem::BackwardPlanKey& key) {
  const codegen::DbiasMethod natural = codegen::default_dbias_method(key.family);
  const bool per_plane = config.dbias_method == codegen::DbiasMethod::kPerPlane;
  // Path mma stores a dbias that keeps all axes, whatever its type.
  if (per_plane && natural == codegen::DbiasMethod::kStore &&
      config.dkv.path != codegen::Path::kWgmma) {
    config.dbias_method = natural;
  }
  if (config.dq_method == codegen::DqMethod::kOwnKvHead) {
    config.split = false;
    if (per_plane) config.dbias_method = natural;
  } else if (key.family.deterministic) {
    config.dq_method = config.dkv.path == codegen::Path::kWgmma ? codegen::DqMethod::kAdd
                                                                : codegen::DqMethod::kKernel;
  } else if (config.dq_method == codegen::DqMethod::kFirstStores &&
             config.dkv.path != codegen::Path::kWgmma) {
    config.dq_method = codegen::DqMethod::kAdd;
  }
  if (config.dq_method != codegen::DqMethod::kKernel) config.dq = zero.dq;
  if (config.dbias_method != codegen::DbiasMethod::kKernel) config.dbias = zero.dbias;
}

template <class PlanKey>
std::string_view built_in() {
  return std::is_same_v<PlanKey, problem::PlanKey> ? embedded_forward_space()
                                                   : embedded_backward_space();
}

// The value of the member "space" of a text that is known to be right.
std::string_view name_in(std::string_view json) {
  constexpr std::string_view kMember = "\"space\": \"";
  const std::size_t begin = json.find(kMember) + kMember.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

}  // namespace

template <class PlanKey>
BasicSearchSpace<PlanKey>::BasicSearchSpace() : name_(name_in(built_in<PlanKey>())) {}

template <class PlanKey>
BasicSearchSpace<PlanKey>::BasicSearchSpace(std::string_view json) try {
  const Json root = base::parse_json(json, base::JsonComments::kAllowed);
  if (root.at("schema") != kSpaceSchema) {
    base::refuse_json("schema", root["schema"], fmt::to_string(kSpaceSchema));
  }
  name_ = base::from_json_value<std::string>(root.at("space"), "space");
  std::vector<Group>& groups = groups_.emplace();
  for (const Json& item : root.at("groups")) {
    Group group;
    group.least_head_dim =
        base::from_json_value<std::int32_t>(item.at("head_dim").at(0), "head_dim");
    group.most_head_dim =
        base::from_json_value<std::int32_t>(item.at("head_dim").at(1), "head_dim");
    if (item.contains("max_rows"))
      group.max_rows = base::from_json_value<std::int32_t>(item["max_rows"], "max_rows");
    if (item.contains("operands"))
      group.operands = base::from_json_value<bool>(item["operands"], "operands");
    for (const Json& candidate : cross_lists(item.at("candidates"))) {
      group.candidates.push_back(base::parse_patch<Tunables>(candidate, "candidate"));
    }
    groups.push_back(std::move(group));
  }
} catch (const Json::exception& error) {
  refuse_space(error.what());
} catch (const Error& error) {
  refuse_space(error.what());
}

template <class PlanKey>
bool BasicSearchSpace<PlanKey>::Group::serves(const PlanKey& key) const {
  const problem::Family& f = problem::scores(key);
  const std::int32_t width = std::max(f.head_dim, f.head_dim_v);
  const bool has_operands =
      f.mask != problem::Extent::kAbsent || f.bias != problem::Extent::kAbsent;
  return width >= least_head_dim && width <= most_head_dim && key.bucket_q <= max_rows &&
         operands.value_or(has_operands) == has_operands;
}

template <class PlanKey>
std::vector<TunablesFor<PlanKey>> BasicSearchSpace<PlanKey>::candidates(
    const PlanKey& key, const codegen::Arch& arch) const {
  if (!groups_) return BasicSearchSpace(built_in<PlanKey>()).candidates(key, arch);
  Tunables zero = config_zero(key, arch);
  std::vector<Tunables> list = {zero};
  // Candidates name a path and its tile, and take what goes with them from a configuration 0 that
  // has such tiles.
  if (main_path(zero) == codegen::Path::kSingleTile ||
      main_path(zero) == codegen::Path::kSharedBias) {
    zero = config_zero_on(codegen::Path::kMma, key, arch);
  }
  for (const Group& group : *groups_) {
    if (!group.serves(key)) continue;
    for (const base::Patch<Tunables>& patch : group.candidates) {
      Tunables config = base::patched(zero, patch);
      settle(config, zero, key);
      if (codegen::why_unfit(config, key, arch) || pads(config, list.front(), key)) {
        continue;
      }
      if (std::ranges::find(list, config) == list.end()) list.push_back(config);
    }
  }
  return list;
}

template class BasicSearchSpace<problem::PlanKey>;
template class BasicSearchSpace<problem::BackwardPlanKey>;

}  // namespace attnjit::tuner
