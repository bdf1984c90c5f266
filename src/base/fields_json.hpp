#pragma once
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attnjit/error.hpp"
#include "base/fields.hpp"
#include "base/json.hpp"
#include "base/patch.hpp"
#include "base/printable.hpp"

/// JSON of structs that list their members (base/fields.hpp), and back.
namespace attnjit::base {

/// Refuses the value of `what`, a member or an object. Throws Error(kInvalidEnvironment).
[[noreturn]] inline void refuse_json(std::string_view what, const Json& value,
                                     std::string_view expected) {
  throw Error(ErrorKind::kInvalidEnvironment,
              fmt::format("{} is {}; expected {}", what, show_json(value), expected));
}

/// A value that has a text, which reads as the value again. Objects lack it where that is empty.
template <class T>
concept HasText = requires(const T& value) {
  { value.text() } -> std::same_as<std::string_view>;
  { T::parse(std::string_view{}) } -> std::same_as<T>;
};

template <class T>
Json to_json_value(const T& value) {
  if constexpr (HasFields<T>) {
    Json object = Json::object();
    for_each_field(value, [&](const char* name, const auto& member) {
      if constexpr (HasTag<T>) {
        if (lacks(value, name)) return;
      }
      if constexpr (HasText<std::remove_cvref_t<decltype(member)>>) {
        if (member.text().empty()) return;
      }
      object[name] = to_json_value(member);
    });
    return object;
  } else if constexpr (std::is_enum_v<T>) {
    return word(value);
  } else if constexpr (HasText<T>) {
    return std::string(value.text());
  } else {
    return value;
  }
}

/// The value that `json` spells; `what` names it where it is refused. An object names every member
/// of its struct, and nothing else. Throws Error(kInvalidEnvironment).
template <class T>
T from_json_value(const Json& json, const std::string& what);

/// Throws Error(kInvalidEnvironment) where `json` names a member that T has not. What a version
/// before called otherwise ADL finds in `renamed(const T*)`, a range of Renamed.
template <HasFields T>
void expect_known_members(const Json& json, const std::string& what) {
  if (!json.is_object()) refuse_json(what, json, "an object");
  for (const auto& item : json.items()) {
    const std::string& key = item.key();
    std::string names;
    bool known = false;
    kFields<T>.apply([&](const auto&... field) {
      ((names += fmt::format("{}{}", names.empty() ? "" : ", ", field.name),
        known |= key == field.name),
       ...);
    });
    if (known) continue;
    if constexpr (requires { renamed(static_cast<const T*>(nullptr)); }) {
      for (const Renamed& each : renamed(static_cast<const T*>(nullptr))) {
        if (key != each.before) continue;
        throw Error(ErrorKind::kInvalidEnvironment,
                    fmt::format("{}: \"{}\" is called {} now", what, each.before, each.now));
      }
    }
    throw Error(
        ErrorKind::kInvalidEnvironment,
        fmt::format("{}: unknown member \"{}\"; expected one of {}", what, excerpt(key), names));
  }
}

/// Sets members that `object` has not by its tag to their defaults.
template <HasTag T>
void drop_lacking(T& object) {
  kFields<T>.apply([&](const auto&... field) {
    ((lacks(object, field.name) ? void(object.*(field.member) = T{}.*(field.member)) : void()),
     ...);
  });
}

/// The members that the object `json` names; nested objects name some of their members too. A tag
/// is set before the others, and drops what it lacks. Throws Error(kInvalidEnvironment) that names
/// the member: one that is unknown, or a value of another type or outside of its range.
template <HasFields T>
Patch<T> parse_patch(const Json& json, const std::string& what) {
  expect_known_members<T>(json, what);
  Patch<T> patch;
  const auto read = [&]<class Member>(const Field<T, Member>& f) {
    if (!json.contains(f.name)) return;
    const std::string place = fmt::format("{}: {}", what, f.name);
    if constexpr (HasFields<Member>) {
      patch.push_back(
          [member = f.member, inner = parse_patch<Member>(json[f.name], place)](T& object) {
            for (const auto& set : inner) set(object.*member);
          });
    } else {
      const bool tag =
          std::string_view(f.name) ==
          kFields<T>.apply([](const auto& first, const auto&...) { return first.name; });
      patch.push_back([tag, member = f.member,
                       parsed = from_json_value<Member>(json[f.name], place)](T& object) {
        object.*member = parsed;
        if constexpr (HasTag<T>) {
          if (tag) drop_lacking(object);
        }
      });
    }
  };
  kFields<T>.apply([&](const auto&... field) { (read(field), ...); });
  return patch;
}

template <class T>
T from_json_value(const Json& json, const std::string& what) {
  if constexpr (HasFields<T>) {
    T object{};
    expect_known_members<T>(json, what);
    for_each_field(object, [&](const char* name, auto& member) {
      const std::string place = fmt::format("{}: {}", what, name);
      if constexpr (HasTag<T>) {
        if (lacks(object, name)) {
          if (json.contains(name)) refuse_json(what, json, fmt::format("no member \"{}\"", name));
          return;
        }
      }
      if (!json.contains(name)) {
        if constexpr (HasText<std::remove_cvref_t<decltype(member)>>) return;
        refuse_json(what, json, fmt::format("a member \"{}\"", name));
      }
      member = from_json_value<std::remove_reference_t<decltype(member)>>(json[name], place);
    });
    return object;
  } else if constexpr (std::is_enum_v<T>) {
    std::string words;
    if constexpr (requires { Words<T>::kRenamed; }) {
      for (const Renamed& each : Words<T>::kRenamed) {
        if (json == each.before)
          refuse_json(what, json, fmt::format("\"{}\", its name now", each.now));
      }
    }
    for (const auto& each : Words<T>::kAll) {
      if (json == each.text) return each.value;
      words += fmt::format("{}\"{}\"", words.empty() ? "" : ", ", each.text);
    }
    refuse_json(what, json, "one of " + words);
  } else if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) refuse_json(what, json, "true or false");
    return json.get<bool>();
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<std::uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    if (!fits) {
      refuse_json(what, json,
                  fmt::format("an integer from {} to {}", Limits::min(), Limits::max()));
    }
    return json.get<T>();
  } else if constexpr (std::floating_point<T>) {
    if (!json.is_number() || !std::isfinite(json.get<T>())) {
      refuse_json(what, json, "a finite number");
    }
    return json.get<T>();
  } else if constexpr (HasText<T>) {
    if (!json.is_string()) refuse_json(what, json, "a string");
    try {
      return T::parse(json.get_ref<const std::string&>());
    } catch (const Error&) {
      refuse_json(what, json, "the text of an expression, as attnjit writes it");
    }
  } else {
    static_assert(std::same_as<T, std::string>);
    if (!json.is_string()) refuse_json(what, json, "a string");
    return json.get<std::string>();
  }
}

}  // namespace attnjit::base
