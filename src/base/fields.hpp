#pragma once
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

/// Structs that say what their members are. A struct has one list, a function that ADL finds:
///
///   constexpr auto fields(const Point*) {
///     return base::fields_of<Point>(base::Field{"x", &Point::x}, base::Field{"y", &Point::y});
///   }
///
/// Its hash, JSON, file name and C++ initialiser are made from it. A member that the list lacks
/// does not compile.
namespace attnjit::base {

template <class Owner, class T>
struct Field {
  const char* name;
  T Owner::*member;
};
template <class Owner, class T>
Field(const char*, T Owner::*) -> Field<Owner, T>;

/// A value of an enum, and the word for it in JSON and on the command line.
template <class T>
struct Word {
  const char* text;
  T value;
};

/// The words of an enum: specialisations have `static constexpr Word<T> kAll[]`, and where words
/// have other names than in a version before, `static constexpr Renamed kRenamed[]`.
template <class T>
struct Words;

/// A word that an earlier version knew, and the one that stands for it now.
struct Renamed {
  const char* before;
  const char* now;
};

/// The word of `value`, or "unknown".
template <class Enum>
constexpr const char* word(Enum value) {
  for (const auto& each : Words<Enum>::kAll) {
    if (each.value == value) return each.text;
  }
  return "unknown";
}

namespace detail {

struct Anything {
  template <class T>
  operator T() const;  // never defined: for counting alone
};

template <class T, class... Values>
constexpr std::size_t count_members() {
  if constexpr (requires { T{Values{}..., Anything{}}; }) {
    return count_members<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}

template <std::size_t kIndex, class Field>
struct FieldAt {
  Field field;
};

template <class Indices, class... Fields>
struct FieldList;

template <std::size_t... kIndices, class... Fields>
struct FieldList<std::index_sequence<kIndices...>, Fields...> : FieldAt<kIndices, Fields>... {
  /// visit(field, field, ...).
  template <class Visit>
  constexpr decltype(auto) apply(Visit&& visit) const {
    return visit(FieldAt<kIndices, Fields>::field...);
  }
};

}  // namespace detail

/// The list of the members of `Owner`, an aggregate, but for those of its `kBases` bases. An
/// aggregate, which takes a compiler less time than a std::tuple.
template <class Owner, std::size_t kBases = 0, class... Types>
constexpr auto fields_of(Field<Owner, Types>... each) {
  static_assert(detail::count_members<Owner>() == kBases + sizeof...(Types),
                "the list must name every member of the struct once");
  return detail::FieldList<std::index_sequence_for<Types...>, Field<Owner, Types>...>{{each}...};
}

/// A struct whose first member is a tag that says which of the others it has not: ADL finds
/// `constexpr bool lacks(const T&, std::string_view name)`. These have their default values, and no
/// JSON names them.
template <class T>
concept HasTag = requires(const T& object) {
  { lacks(object, std::string_view{}) } -> std::same_as<bool>;
};

template <class T>
concept HasFields = requires {
  fields(static_cast<const T*>(nullptr));
};

template <HasFields T>
inline constexpr auto kFields = fields(static_cast<const T*>(nullptr));

template <HasFields T>
inline constexpr std::size_t kNumFields = kFields<T>.apply([](const auto&... field) {
  return sizeof...(field);
});

/// Calls visit(name, member) for every member in order.
template <class T, class Visit>
requires HasFields<std::remove_const_t<T>>
constexpr void for_each_field(T& object, Visit&& visit) {
  kFields<std::remove_const_t<T>>.apply(
      [&](const auto&... field) { (visit(field.name, object.*(field.member)), ...); });
}

/// The same for the members of members that are such structs, in place of these.
template <class T, class Visit>
constexpr void for_each_leaf(T& object, Visit&& visit) {
  for_each_field(object, [&](const char* name, auto& member) {
    if constexpr (HasFields<std::remove_cvref_t<decltype(member)>>) {
      for_each_leaf(member, visit);
    } else {
      visit(name, member);
    }
  });
}

}  // namespace attnjit::base
