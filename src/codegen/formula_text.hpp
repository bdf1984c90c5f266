#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/formula.hpp"

namespace attnjit::codegen {

/// Parts of a formula as C++, which calls the functions of score/formula_values.cuh.
class FormulaText {
 public:
  /// The name of a part that has one, as the text has to spell it.
  using Names = std::function<std::string(int place)>;

  FormulaText(const Formula& formula, Names names) : f_(formula), names_(std::move(names)) {}
  virtual ~FormulaText() = default;

  /// The part at `place`: its name if it has one.
  std::string text(int place) const { return operand(place, 0); }
  /// The same, computed here.
  std::string definition(int place) const { return as_typed(place, part(place).text); }

 protected:
  struct Part {
    std::string text;
    int precedence;  ///< of C++, in terms of expr::precedence
  };
  /// Computes what is at `place`; ranges have other texts for some of it.
  virtual Part part(int place) const;
  /// The text in place of a part that has a name.
  virtual std::string name_of(int place) const { return names_(place); }

  static Part call(std::string_view function, std::initializer_list<std::string> args);
  /// The operand of a read and its indices, as functions of score/formula_reads.cuh take them.
  std::string place_of(const expr::Node& read) const;
  /// In brackets if it binds less tightly than `least`.
  std::string operand(int place, int least) const;
  /// Whether `text` of `place` has one value, and no range of them.
  virtual bool is_value(int) const { return true; }
  std::string argument(int place, std::size_t n, int least = 0) const {
    return operand(f_.node(place).args[n], least);
  }

  const Formula& f_;

 private:
  std::string as_typed(int place, std::string text) const;
  /// An argument of a function that is overloaded on its type.
  std::string typed_argument(int place, std::size_t n) const;
  Part leaf(const expr::Node& node) const;
  bool is_in_line(const expr::Node& read) const;
  Part line(const expr::Node& read) const;
  Part read(const expr::Node& node) const;
  Part logic(int place) const;
  Part int_operation(int place) const;
  Part int_operation(int place, bool wide) const;
  Part float_operation(int place) const;
  Part float_sum(int place) const;
  Part infix(int place, const char* op, int precedence) const;
  std::string int_argument(int place, std::size_t n, bool wide, int least = 0) const;

  const Names names_;
};

std::string int_text(std::int64_t value);
std::string float_text(float value);
/// k if `node` is the literal 2^k.
std::optional<int> power_of_two(const expr::Node& node);

}  // namespace attnjit::codegen
