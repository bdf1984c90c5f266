#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/patch.hpp"
#include "tuner/traits.hpp"

namespace attnjit::tuner {

/// A table that chooses by traits: the tile of one kernel.
template <class Tile>
class TileRules {
 public:
  struct Rule {
    std::vector<std::function<bool(const Traits&)>> when;  ///< all of them
    Tile use;
    std::vector<base::Patch<Tile>> candidates;  ///< of scripts/update-defaults
  };

  TileRules() = default;
  /// Reads one table of a file of configs/defaults. Throws Error(kInvalidEnvironment) that names
  /// what is wrong.
  TileRules(const base::Json& groups, std::string_view table);

  const std::vector<Rule>& rules() const { return rules_; }
  /// The first rule whose conditions `traits` meets. Throws Error(kInternal) where there is none.
  const Rule& find(const Traits& traits) const;

 private:
  std::vector<Rule> rules_;
  std::string table_;
};

/// configs/defaults: the tiles of configuration 0.
struct Defaults {
  TileRules<codegen::ForwardTunables> forward;
  TileRules<codegen::BackwardTile> dkv, dq, dbias;
};

/// Reads forward.json and backward.json (configs/schema/defaults.schema.json).
Defaults read_defaults(std::string_view forward_json, std::string_view backward_json);

/// The files as they were when the library was built.
const Defaults& built_in_defaults();

}  // namespace attnjit::tuner
