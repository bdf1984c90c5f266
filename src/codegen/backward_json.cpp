// Backward tunables as JSON.
#include <fmt/format.h>

#include <utility>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "codegen/backward_tunables.hpp"

namespace attnjit::codegen {
namespace {

using base::Json;

constexpr std::pair<const char*, DqMethod> kDqMethods[] = {{"add", DqMethod::kAdd},
                                                           {"kernel", DqMethod::kKernel}};
constexpr std::pair<const char*, DbiasMethod> kDbiasMethods[] = {
    {"none", DbiasMethod::kNone},   {"rows", DbiasMethod::kRows},
    {"store", DbiasMethod::kStore}, {"columns", DbiasMethod::kColumns},
    {"add", DbiasMethod::kAdd},     {"kernel", DbiasMethod::kKernel}};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kInvalidEnvironment, "config: " + what);
}

// Every member of a tile, by name; a member that is missing here does not compile.
template <class Tile, class Visit>
void for_each_member(Tile& tile, Visit&& visit) {
  auto& [block_q, block_kv, num_stages, num_warps, query_warps, min_blocks, late, fresh] = tile;
  visit("block_q", block_q);
  visit("block_kv", block_kv);
  visit("num_stages", num_stages);
  visit("num_warps", num_warps);
  visit("query_warps", query_warps);
  visit("min_blocks", min_blocks);
  visit("late", late);
  visit("fresh", fresh);
}

template <class Method, std::size_t N>
const char* name_of(const std::pair<const char*, Method> (&methods)[N], Method value) {
  for (const auto& [name, method] : methods) {
    if (method == value) return name;
  }
  return "";
}

template <class Method, std::size_t N>
Method method_of(const std::pair<const char*, Method> (&methods)[N], const char* member,
                 const Json& value) {
  std::string known;
  for (const auto& [name, method] : methods) {
    if (value == name) return method;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  refuse(fmt::format("{} is {}; expected one of {}", member, value.dump(), known));
}

Json tile_json(const BackwardTile& tile) {
  Json json;
  for_each_member(tile, [&](const char* name, int value) { json[name] = value; });
  return json;
}

void update_tile(BackwardTile& tile, const char* which, const Json& json) {
  if (!json.is_object()) refuse(fmt::format("{} must be an object", which));
  for (const auto& [key, value] : json.items()) {
    bool known = false;
    for_each_member(tile, [&](const char* name, int& member) {
      if (key != name) return;
      known = true;
      if (!value.is_number_integer())
        refuse(fmt::format("{}.{} must be a whole number", which, key));
      member = value.template get<int>();
    });
    if (!known) refuse(fmt::format("unknown member {}.{}", which, key));
  }
}

}  // namespace

std::string to_json(const BackwardTunables& t) {
  return Json{{"dq", name_of(kDqMethods, t.dq)},
              {"dbias", name_of(kDbiasMethods, t.dbias)},
              {"split", t.split},
              {"keys", tile_json(t.keys)},
              {"queries", tile_json(t.queries)},
              {"bias_tile", tile_json(t.bias_tile)}}
      .dump();
}

void update_from_json(BackwardTunables& t, const std::string& text) {
  const Json json = base::try_parse_json(text);
  if (!json.is_object()) refuse("not a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "dq") {
      t.dq = method_of(kDqMethods, "dq", value);
    } else if (key == "dbias") {
      t.dbias = method_of(kDbiasMethods, "dbias", value);
    } else if (key == "split") {
      if (!value.is_boolean()) refuse("split must be true or false");
      t.split = value.get<bool>();
    } else if (key == "keys") {
      update_tile(t.keys, "keys", value);
    } else if (key == "queries") {
      update_tile(t.queries, "queries", value);
    } else if (key == "bias_tile") {
      update_tile(t.bias_tile, "bias_tile", value);
    } else {
      refuse(fmt::format("unknown member {}; expected dq, dbias, split, keys, queries or bias_tile",
                         key));
    }
  }
}

}  // namespace attnjit::codegen
