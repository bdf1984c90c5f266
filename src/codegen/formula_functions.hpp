#pragma once
#include <span>
#include <string>
#include <vector>

#include "codegen/formula_text.hpp"

namespace attnjit::codegen {

/// A function of a pair.
struct PairFunction {
  std::string result;  ///< its type
  std::string name;
  std::string more;        ///< parameters behind those that all have
  std::vector<int> roots;  ///< what it is made of
  /// Its last statements, of the texts of the roots.
  std::function<std::string(const std::vector<std::string>&)> end;
};

/// The structs Head, Row and Key, the functions that make them, and those of a pair.
std::string functions_by_level(const Formula& formula, std::span<const PairFunction> functions);

/// A line for each of `places` that has a name.
std::string lines(const Formula& formula, const FormulaText& text, std::span<const int> places,
                  std::string_view indent = "    ");

}  // namespace attnjit::codegen
