#pragma once
#include <string>
#include <vector>

#include "expr/expr.hpp"

namespace attnjit::expr {

/// The derivative of a float expression by s, simplified. At kinks it has the value that PyTorch's
/// autograd gives: of abs at 0 it is 0, of clamp at a bound that of the value, of min and max of
/// equal values half of each, of floor, comparisons and conversions 0. The side of `? :` that is
/// not taken adds nothing to it, whatever it is.
Expr derivative_by_score(const Expr& e);

/// The same by one node of `e`, as if that were a variable of its own.
Expr derivative(const Expr& e, int by);

/// A place where a score reads a float operand. Each has a gradient of its own: the operand's is
/// the sum, over pairs and sites, of the score's times `factor`, at the element that `read` names.
struct ReadSite {
  std::string operand;
  Expr read;    ///< the read alone
  Expr factor;  ///< the derivative of the score by it
};

/// The reads that the value of `e` depends on, in the order of the text; not those whose factor is
/// 0 everywhere, as inside int() or a condition.
std::vector<ReadSite> read_sites(const Expr& e);

}  // namespace attnjit::expr
