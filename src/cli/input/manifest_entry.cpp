#include "cli/input/manifest_entry.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "base/json.hpp"
#include "base/printable.hpp"
#include "cli/input/manifest_members.hpp"
#include "cli/input/words.hpp"

namespace attnjit::cli {
namespace {

using base::Json;

constexpr std::size_t kMaxCases = 100'000;  // of one file; a typo must not fill the memory
constexpr std::size_t kMaxText = 1000;      // of a name, which reports and messages repeat
// Members that say something about the entry rather than the problem.
constexpr std::array<std::string_view, 4> kLabels = {"name", "source", "pass", "merges"};

/// A member of one entry with all its values.
struct Axis {
  const Member* member;
  std::vector<MemberValue> values;
};

[[noreturn]] void refuse(const std::string& where, std::string_view member, const Json& value,
                         std::string_view allowed) {
  usage_error("{}: {} is {}; expected {}", where, member, base::show_json(value), allowed);
}

std::string text_member(const Json& entry, const std::string& where, const char* name) {
  if (!entry.contains(name)) return "";
  const std::string text = entry[name].is_string() ? entry[name].get<std::string>() : "";
  if (text.empty() || text.size() > kMaxText) {
    refuse(where, name, entry[name], fmt::format("a text of 1 to {} characters", kMaxText));
  }
  return text;
}

void check_names(const Json& entry, const std::string& where) {
  for (const auto& [name, value] : entry.items()) {
    if (std::ranges::find(kLabels, name) != kLabels.end()) continue;
    if (std::ranges::find(members(), name, &Member::name) != members().end()) continue;
    constexpr std::size_t kLongestName = 60;  // more than any member has
    usage_error("{}: unknown member '{}'; expected {}, {}", where,
                base::excerpt(name, kLongestName), listing(kLabels),
                listing(members(), &Member::name));
  }
}

/// The passes that an entry asks for, a case each.
struct Passes {
  bool forward = false, backward = false;
};

Passes read_passes(const Json& entry, const std::string& where) {
  static constexpr std::string_view kAllowed = "forward, backward, or a list of such";
  if (!entry.contains("pass")) return {.forward = true};
  const Json& given = entry["pass"];
  const Json list = given.is_array() ? given : Json::array({given});
  Passes passes;
  for (const Json& pass : list) {
    bool& wanted = pass == "backward" ? passes.backward : passes.forward;
    wanted = pass == "forward" || pass == "backward";
    if (!wanted) refuse(where, "pass", pass, kAllowed);
  }
  if (list.empty()) refuse(where, "pass", given, kAllowed);
  return passes;
}

bool read_merges(const Json& entry, const std::string& where) {
  if (!entry.contains("merges")) return false;
  const Json& given = entry["merges"];
  if (!given.is_boolean()) refuse(where, "merges", given, "true or false");
  return given.get<bool>();
}

// Whether `value` is a list of values rather than one.
bool is_list(const Member& member, const Json& value) {
  if (!value.is_array()) return false;
  return !member.pair || value.empty() || value[0].is_array();
}

Axis read_axis(const Member& member, const Json& value, const std::string& where) {
  const bool several = is_list(member, value);
  const Json list = several ? value : Json::array({value});
  const std::string allowed = fmt::format("{}, or a list of such", member.allowed);
  if (list.empty()) refuse(where, member.name, value, allowed);
  Axis axis{&member, {}};
  for (const Json& item : list) {
    // In a list of pairs a bare number would read like half of one.
    if (several && member.pair && !item.is_array()) refuse(where, member.name, value, allowed);
    auto parsed = member.parse(item);
    if (!parsed) refuse(where, member.name, item, allowed);
    axis.values.push_back(std::move(*parsed));
  }
  return axis;
}

std::vector<Axis> read_axes(const Json& entry, const std::string& where) {
  std::vector<Axis> axes;
  for (const Member& member : members()) {
    const std::string name(member.name);
    if (entry.contains(name)) {
      axes.push_back(read_axis(member, entry[name], where));
    } else if (member.required) {
      usage_error("{}: no {}; add it: {}", where, name, member.allowed);
    }
  }
  return axes;
}

// The problem that takes value `index` of the crossing, the last axis turning fastest.
Case combination(const Case& base, const std::vector<Axis>& axes, std::size_t index) {
  Case result = base;
  std::vector<std::size_t> choice(axes.size());
  for (std::size_t i = axes.size(); i-- > 0; index /= axes[i].values.size()) {
    choice[i] = index % axes[i].values.size();
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const MemberValue& value = axes[i].values[choice[i]];
    value.apply(result.spec);
    if (axes[i].values.size() > 1)
      result.name += fmt::format(" {}={}", axes[i].member->name, value.text);
  }
  instance::validate(result.spec);
  return result;
}

// Every combination of the axes' values.
void append_crossing(const Case& base, const std::vector<Axis>& axes, const std::string& where,
                     std::vector<Case>& cases) {
  std::size_t count = 1;
  for (const Axis& axis : axes) count = std::min(count * axis.values.size(), kMaxCases + 1);
  if (cases.size() + count > kMaxCases) {
    usage_error("{}: the lists cross to more than {} problems; shorten them", where, kMaxCases);
  }
  for (std::size_t i = 0; i < count; ++i) {
    try {
      cases.push_back(combination(base, axes, i));
    } catch (const Error& error) {
      usage_error("{}: {}", where, error.what());
    }
  }
}

}  // namespace

void append_entry(const Json& entry, const std::string& place, std::vector<Case>& cases) {
  if (!entry.is_object()) refuse(place, "the entry", entry, "an object");
  Case base{text_member(entry, place, "name"), text_member(entry, place, "source"), {}};
  if (base.name.empty()) usage_error("{}: no name; add one", place);
  const std::string where = fmt::format("{} ({})", place, base::excerpt(base.name));
  check_names(entry, where);
  const Passes passes = read_passes(entry, where);
  base.merges = read_merges(entry, where);
  if (base.merges && !passes.forward) {
    usage_error("{}: merges goes with a forward; add it to \"pass\" or leave merges out", where);
  }
  const std::vector<Axis> axes = read_axes(entry, where);
  const auto of_backward = [](const Axis& axis) { return axis.member->of_backward; };
  const auto first = std::ranges::find_if(axes, of_backward);
  if (first != axes.end() && !passes.backward) {
    usage_error("{}: {} goes with a backward; add \"pass\": \"backward\" or leave it out", where,
                first->member->name);
  }
  if (passes.forward) {
    std::vector<Axis> forward_axes = axes;
    std::erase_if(forward_axes, of_backward);
    append_crossing(base, forward_axes, where, cases);
  }
  if (!passes.backward) return;
  base.merges = false;
  base.spec.backward = true;
  if (base.name.find("backward") == std::string::npos) base.name += " backward";
  append_crossing(base, axes, where, cases);
}

}  // namespace attnjit::cli
