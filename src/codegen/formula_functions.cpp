#include "codegen/formula_functions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

namespace attnjit::codegen {
namespace {

using expr::Type;

const char* variable(Level level) {
  return level == Level::kHead ? "head" : level == Level::kRow ? "row" : "key";
}

const char* type_of(const Formula& f, int place) {
  const Type type = f.node(place).type;
  if (type == Type::kInt) return f.is_narrow(place) ? "int" : "int64";
  return type == Type::kFloat ? "float" : "bool";
}

// The k of a row or key over 2^k that its tile knows without the lower 4 bits: 4 or more.
std::optional<int> block_bits(const Formula& f, const expr::Node& node) {
  const bool divides = node.is(expr::Op::kFloorDivide), shifts = node.is(expr::Op::kShiftRight);
  if (!divides && !shifts) return std::nullopt;
  const expr::Node &of = f.node(node.args[0]), &by = f.node(node.args[1]);
  if (of != expr::index(expr::Index::kRow) && of != expr::index(expr::Index::kKey)) {
    return std::nullopt;
  }
  std::optional<int> bits = power_of_two(by);
  if (shifts) {
    bits = by.is(expr::Op::kLiteral) && expr::int_value(by) < 32
               ? std::optional(static_cast<int>(expr::int_value(by)))
               : std::nullopt;
  }
  return bits && *bits >= 4 && *bits < 32 ? bits : std::nullopt;
}

// Names as they are in functions of `level`: members of what coarser ones have computed.
class LevelText : public FormulaText {
 public:
  LevelText(const Formula& f, Level level)
      : FormulaText(f,
                    [&f, level](int place) {
                      const Level own = f.level(place);
                      return own == level ? f.name(place)
                                          : fmt::format("{}.{}", variable(own), f.name(place));
                    }),
        level_(level) {}

 protected:
  Part part(int place) const override {
    const bool is_along = level_ == Level::kRow || level_ == Level::kKey;
    const std::optional<int> bits = is_along ? block_bits(f_, f_.node(place)) : std::nullopt;
    return bits ? call(fmt::format("block_of<{}>", *bits), {"along"}) : FormulaText::part(place);
  }

 private:
  const Level level_;
};

LevelText text_at(const Formula& f, Level level) { return {f, level}; }

std::vector<int> all_places(const Formula& f) {
  std::vector<int> places(f.e.nodes().size());
  std::iota(places.begin(), places.end(), 0);
  return places;
}

std::vector<int> at_level(const Formula& f, Level level, std::span<const int> places) {
  std::vector<int> found;
  for (const int place : places) {
    if (f.level(place) == level) found.push_back(place);
  }
  return found;
}

std::vector<int> members(const Formula& f, Level level) {
  std::vector<int> found;
  for (const int place : at_level(f, level, all_places(f))) {
    if (f.kept[static_cast<std::size_t>(place)] && f.is_named(place)) found.push_back(place);
  }
  return found;
}

std::string struct_of(const Formula& f, const char* type, Level level) {
  std::string fields;
  for (const int place : members(f, level)) {
    fields += fmt::format("    {} {};\n", type_of(f, place), f.name(place));
  }
  return fields.empty() ? fmt::format("  struct {} {{}};\n", type)
                        : fmt::format("  struct {} {{\n{}  }};\n", type, fields);
}

std::string maker_of(const Formula& f, const char* type, Level level, const char* more) {
  std::vector<std::string> names;
  for (const int place : members(f, level)) names.push_back(f.name(place));
  const std::vector<int> places = at_level(f, level, all_places(f));
  return fmt::format(
      "  template <class Params>\n"
      "  ATTNJIT_DEVICE static {} {}(const Params& params, const Place& at{}) {{\n"
      "{}    return {{{}}};\n  }}\n",
      type, variable(level), more, lines(f, text_at(f, level), places), fmt::join(names, ", "));
}

std::string function_of(const Formula& f, const PairFunction& function) {
  const LevelText text = text_at(f, Level::kPair);
  std::vector<std::string> roots;
  for (const int root : function.roots) roots.push_back(text.text(root));
  const std::vector<int> places = at_level(f, Level::kPair, parts_of(f, function.roots));
  return fmt::format(
      "  template <class Params>\n"
      "  ATTNJIT_DEVICE static {} {}(const Params& params, const Place& at, const Head& head,\n"
      "      const Row& row, const Key& key, int i, int j{}) {{\n{}{}  }}\n",
      function.result, function.name, function.more, lines(f, text, places), function.end(roots));
}

}  // namespace

std::string lines(const Formula& formula, const FormulaText& text, std::span<const int> places,
                  std::string_view indent) {
  std::string all;
  for (const int place : places) {
    if (!formula.is_named(place)) continue;
    all +=
        fmt::format("{}const auto {} = {};\n", indent, formula.name(place), text.definition(place));
  }
  return all;
}

std::string functions_by_level(const Formula& f, std::span<const PairFunction> functions) {
  std::string all = struct_of(f, "Head", Level::kHead) + struct_of(f, "Row", Level::kRow) +
                    struct_of(f, "Key", Level::kKey) + '\n';
  all += maker_of(f, "Head", Level::kHead, "");
  all += maker_of(f, "Row", Level::kRow, ", const Head& head, int i, Along along");
  all += maker_of(f, "Key", Level::kKey, ", const Head& head, int j, Along along");
  for (const PairFunction& function : functions) all += function_of(f, function);
  return all;
}

}  // namespace attnjit::codegen
