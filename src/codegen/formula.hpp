#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "expr/interned.hpp"
#include "expr/interval.hpp"

namespace attnjit::codegen {

/// Whose value a part of an expression is: it is computed once for each of these.
enum class Level {
  kHead,  ///< of all rows and keys of a head
  kRow,
  kKey,
  kPair,
};

/// The indices that differ between the pairs of a tile. With pack_gqa, rows have heads of
/// their own.
expr::Uses varying(bool packs_heads);

/// The axis of an operand along which a prepass writes its elements one after another, and the
/// range of each kRangeElements of them.
struct RangedAxis {
  std::size_t operand;  ///< its number in the kernel
  std::size_t axis;
};

/// An expression as it is rendered: what is known of its parts, and which of them get names.
struct Formula {
  expr::Expr e;
  bool packs_heads;
  std::vector<expr::Uses> uses;
  std::vector<expr::Range> ranges;  ///< over all that a call may have
  std::vector<Level> levels;
  std::vector<std::string> names;     ///< empty where the text of the part stands for it
  std::vector<bool> kept;             ///< whether a finer level uses the part
  std::vector<std::size_t> operands;  ///< of `e`, as numbers of the kernel's operands
  std::vector<DType> dtypes;          ///< of these
  std::vector<RangedAxis> ranged{};   ///< of the operands that have one

  const expr::Node& node(int place) const { return e.node(place); }
  template <class T>
  static const T& at(const std::vector<T>& list, int place) {
    return list[static_cast<std::size_t>(place)];
  }
  Level level(int place) const { return at(levels, place); }
  const std::string& name(int place) const { return at(names, place); }
  const expr::Range& range(int place) const { return at(ranges, place); }
  bool is_named(int place) const { return !name(place).empty(); }
  bool is_leaf(int place) const {
    return node(place).num_args == 0 && !node(place).is(expr::Op::kRead);
  }
  /// Whether the int at `place` always fits 32 bits, or may exceed 64.
  bool is_narrow(int place) const;
  bool may_wrap(int place) const;
  /// The only axis of a read whose index differs between the pairs of a tile.
  std::optional<std::size_t> varying_axis(const expr::Node& read) const;
  /// Whether that is the ranged axis of its operand.
  bool has_range(const expr::Node& read) const;
  /// Whether the value differs between the pairs of a tile.
  bool varies(int place) const { return (at(uses, place) & varying(packs_heads)) != 0; }
};

/// A formula in levels, of which functions of pairs compute `roots`. Its operands are among those
/// of `whole`, which the kernel has. Reads get names, and so does what is used several times or by
/// a finer level.
Formula make_formula(const expr::Expr& e, const expr::Interned& whole, bool packs_heads,
                     std::span<const int> roots);
/// One that a single function computes.
Formula make_formula(const expr::Expr& e, const expr::Interned& whole, bool packs_heads);

/// The places that the values at `roots` are made of, in order, these included, without those that
/// only places of which `ends` holds are made of.
std::vector<int> parts_of(const Formula& formula, std::span<const int> roots,
                          const std::function<bool(int place)>& ends = {});

/// Whether a float is finite wherever s and the elements of its operands are at most 2^90.
bool is_finite(const expr::Expr& e);

}  // namespace attnjit::codegen
