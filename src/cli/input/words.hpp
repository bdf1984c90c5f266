#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "attnjit/forward.hpp"
#include "base/printable.hpp"
#include "cli/report/exit_code.hpp"
#include "instance/problem_spec.hpp"

namespace attnjit::cli {

/// A value and how flags and manifests spell it.
template <class T>
struct Word {
  std::string_view text;
  T value;
};

inline constexpr Word<DType> kDtypes[] = {{"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};
inline constexpr Word<DType> kBiasDtypes[] = {
    {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}};
inline constexpr Word<Diagonal> kDiagonals[] = {{"top-left", Diagonal::kTopLeft},
                                                {"bottom-right", Diagonal::kBottomRight}};
inline constexpr Word<instance::Layout> kLayouts[] = {{"bhsd", instance::Layout::kBhsd},
                                                      {"bshd", instance::Layout::kBshd}};

/// Shells write bottom-right, JSON bottom_right: both are taken everywhere.
inline std::string with_dashes(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, '_', '-');
  return result;
}

template <class T, std::size_t N>
std::optional<T> find_word(const Word<T> (&words)[N], std::string_view text) {
  const auto* found = std::ranges::find(words, with_dashes(text), &Word<T>::text);
  return found == std::end(words) ? std::nullopt : std::optional<T>(found->value);
}

/// "a, b, c" of a list of names, or of anything that `name` makes one from.
template <class List, class Name = std::identity>
std::string listing(const List& list, Name name = {}) {
  std::string text;
  for (const auto& item : list) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", std::invoke(name, item));
  }
  return text;
}

/// The value that `text` spells; a usage error that names `flag` otherwise.
template <class T, std::size_t N>
T choose(std::string_view flag, std::string_view text, const Word<T> (&words)[N]) {
  if (const auto value = find_word(words, text)) return *value;
  usage_error("{}: '{}'; expected one of {}", flag, base::excerpt(text),
              listing(words, &Word<T>::text));
}

}  // namespace attnjit::cli
