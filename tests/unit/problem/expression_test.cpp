// Expressions of calls: what is refused and how it is said, and what a problem keeps of them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "expr/interned.hpp"
#include "problem/call_shape.hpp"
#include "problem/manifest_line.hpp"
#include "problem/plan_key.hpp"

namespace attnjit::problem::expression_test {
namespace {

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

// B 2, Hq 4, Hkv 2, Lq 64, Lk 96.
ForwardArgs call(std::string_view score, std::string_view keep,
                 std::span<const attnjit::Operand> operands = {}) {
  ForwardArgs args;
  args.q = args.out = Tensor::contiguous(at(4096), DType::kBFloat16, {2, 4, 64, 64});
  args.k = args.v = Tensor::contiguous(at(4096), DType::kBFloat16, {2, 2, 96, 64});
  if (!score.empty()) args.score = expr::expression(score);
  if (!keep.empty()) args.keep = expr::expression(keep);
  args.operands = operands;
  return args;
}

attnjit::Operand operand(const char* name, DType dtype, std::vector<std::int64_t> shape,
                         std::uintptr_t address = 4096) {
  attnjit::Operand o{.name = name, .rank = static_cast<int>(shape.size()), .tensor = {}};
  o.tensor = {at(address), dtype, {7, 7, 7, 7}, {1, 1, 1, 1}};
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    o.tensor.shape[axis] = shape[axis];
    o.tensor.strides[axis] = stride;
  }
  return o;
}

template <class Args>
std::string refusal(const Args& args) {
  try {
    make_problem(args);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidProblem);
    return error.what();
  }
  return "";
}

TEST_CASE("names of operands and blanks make no other kernel") {
  const attnjit::Operand a[] = {operand("doc", DType::kInt32, {2, 96})};
  const attnjit::Operand b[] = {operand("id", DType::kInt32, {2, 96})};
  const Problem first = make_problem(call("", "doc[b, i] == doc[b, j]", a));
  const Problem second = make_problem(call("", "id[b,i]==id[b,j]", b));
  CHECK(first == second);
  CHECK(family(first).keep.text() == "keep i0[b, i] == i0[b, j]; int32");
  CHECK(plan_key(first) == plan_key(second));
  CHECK(hash(plan_key(first)) == hash(plan_key(second)));
  CHECK(describe(family(first)).find("{keep i0[b, i] == i0[b, j]; int32}") != std::string::npos);
  CHECK(plan_key(first) != plan_key(make_problem(call("", ""))));
}

TEST_CASE("an operand's sizes and strides are run-time arguments, its dtype is not") {
  const attnjit::Operand wide[] = {operand("rel", DType::kFloat32, {4, 257})};
  const attnjit::Operand other[] = {operand("rel", DType::kFloat32, {4, 65})};
  const attnjit::Operand narrow[] = {operand("rel", DType::kBFloat16, {4, 257})};
  const std::string text = "s + rel[h, j - i + 128]";
  const Problem problem = make_problem(call(text, "", wide));
  CHECK(problem.score_operands[0].sizes[1] == 257);
  CHECK(problem.score_operands[0].strides[0] == 257);
  CHECK(problem != make_problem(call(text, "", other)));
  CHECK(plan_key(problem) == plan_key(make_problem(call(text, "", other))));
  CHECK(plan_key(problem) != plan_key(make_problem(call(text, "", narrow))));
}

TEST_CASE("both expressions read from one list of operands") {
  const attnjit::Operand operands[] = {operand("gate", DType::kFloat32, {}),
                                       operand("doc", DType::kInt32, {1, 96}),
                                       operand("slope", DType::kFloat32, {4})};
  const Problem p = make_problem(
      call("s * gate - slope[h] * abs(i - j)", "doc[b, i] == doc[b, j] || gate > 0", operands));
  CHECK(p.score_operands[0].argument == 0);
  CHECK(p.score_operands[1].argument == 2);
  CHECK(p.keep_operands[0].argument == 1);
  CHECK(p.keep_operands[0].strides[0] == 0);  // one plane serves every batch element
  CHECK(p.keep_operands[1].argument == 0);
  CHECK(p.keep_operands[2] == ExpressionOperand{});
}

TEST_CASE("what is refused names the operand, or shows the place") {
  const attnjit::Operand doc[] = {operand("doc", DType::kInt32, {2, 96})};
  CHECK(refusal(call("", "dog[b, j] == 0", doc)) ==
        "dog is no index, function or operand; operands are doc\n  dog[b, j] == 0\n  ^");
  CHECK(refusal(call("", "doc[j] == 0", doc)).find("^") != std::string::npos);
  CHECK(refusal(call("s > 0", "")).find("^") != std::string::npos);
  CHECK(refusal(call("", "s > 0")).find("^") != std::string::npos);
  CHECK(refusal(call("", "j <= i", doc)) == "operand doc: no expression reads it; leave it out");
  CHECK(refusal(call("", "", doc)) == "operands: 1 without score and keep; expected none");
  attnjit::Operand broken[] = {doc[0]};
  broken[0].name = nullptr;
  CHECK(refusal(call("", "j <= i", broken)) == "operand 0: the name is null");
  broken[0] = doc[0];
  broken[0].rank = 5;
  CHECK(refusal(call("", "j <= i", broken)) == "operand doc: rank is 5; expected 0 to 4");
  broken[0] = operand("doc", DType::kInt32, {2, 0});
  CHECK(refusal(call("", "doc[b, j] > 0", broken)) ==
        "operand doc: axis 1 is 0; expected 1 to 2147483647");
  broken[0] = operand("doc", DType::kInt32, {2, 96}, 4097);
  CHECK(refusal(call("", "doc[b, j] > 0", broken)) ==
        "doc: address 0x1001 is not a multiple of its element size, 4 bytes");
  const std::vector<attnjit::Operand> many(17, operand("doc", DType::kInt32, {2, 96}));
  CHECK(refusal(call("", "doc[b, j] > 0", many)) == "operands: 17; expected at most 16");
}

TEST_CASE("the place of a part enters expressions that depend on it") {
  ForwardArgs args = call("", "j <= i");
  args.row_offset = 64;
  const problem::Problem part = make_problem(args);
  CHECK(part.row_offset == 64);
  CHECK(part.keep.text() == "keep j + key_offset <= i + row_offset");
  CHECK(problem::describe(part).find(" row_offset=64") != std::string::npos);
  args.row_offset = 128;
  CHECK(problem::family(make_problem(args)) == problem::family(part));  // makes no kernel
  args.row_offset = problem::kMaxSeqlen + 1;
  CHECK(refusal(args) == "row_offset: 536870913; expected -536870912 to 536870912");
  args.row_offset = 64;
  args.keep = expr::expression("j < Lk // 2 + b");
  CHECK(make_problem(args).row_offset == 64);  // j may be placed as well
  args.keep = expr::expression("h < 2");
  CHECK(make_problem(args).row_offset == 0);
}

TEST_CASE("an expression that reads off wants the diagonal named where lengths differ") {
  ForwardArgs args = call("", "j <= i + off");
  CHECK(refusal(args) ==
        "diagonal: unspecified with an expression that reads off; expected top_left or "
        "bottom_right (they differ when Lq != Lk)");
  args.diagonal = Diagonal::kBottomRight;
  CHECK(make_problem(args).bottom_right);
  args.diagonal_offset = 3;
  CHECK(make_problem(args).diagonal_offset == 3);
  args.keep = expr::expression("j <= i");
  CHECK_FALSE(make_problem(args).bottom_right);
}

// The backward of a call with these operands, whose gradients lie as they do where `wanted` says
// so.
BackwardArgs backward_call(std::string_view score, std::span<const attnjit::Operand> operands,
                           std::vector<Tensor>& gradients, std::vector<bool> wanted) {
  BackwardArgs args;
  args.forward = call(score, "", operands);
  args.forward.lse = static_cast<float*>(at(4096));
  args.dout = args.dq = args.forward.q;
  args.dk = args.dv = args.forward.k;
  gradients.clear();
  for (std::size_t n = 0; n < operands.size(); ++n) {
    gradients.push_back(wanted[n] ? operands[n].tensor : Tensor{});
  }
  args.operand_gradients = gradients;
  return args;
}

TEST_CASE("gradients of operands: those of the score are part of the family") {
  const attnjit::Operand operands[] = {operand("x", DType::kFloat32, {4}),
                                       operand("rel", DType::kBFloat16, {4, 1, 257}),
                                       operand("doc", DType::kInt32, {2, 96})};
  std::vector<Tensor> gradients;
  BackwardArgs args = backward_call("s * x[h] + rel[h, 0, j - i] * float(doc[b, j])", operands,
                                    gradients, {false, true, false});
  const BackwardProblem p = make_problem(args);
  REQUIRE(p.num_operand_gradients == 1);
  CHECK(p.operand_gradients[0].number == 1);
  CHECK(p.operand_gradients[0].tensor.argument == 1);
  CHECK(p.operand_gradients[0].tensor.rank == 3);
  CHECK(p.operand_gradients[0].tensor.strides[1] == 0);
  CHECK(p.operand_gradients[0].tensor.strides[2] == 1);
  CHECK(family(p).gradient_operands.of_score() == 2);
  CHECK(family(p).gradient_operands.text() == "1");
  CHECK(GradientOperands::parse("1") == family(p).gradient_operands);
  CHECK(GradientOperands::parse("3,12,other").of_score() == 0x1008);
  CHECK(GradientOperands::parse("other").any());
  for (const char* wrong : {"3,1", "16", "1,", "x", "-1", "1,1", "other,1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(GradientOperands::parse(wrong), Error);
  }
  CHECK(describe(p).find(" grad(x1)") != std::string::npos);
  CHECK(manifest_line(p).find(R"("grad":["x1"])") != std::string::npos);
  args.operand_gradients = {};
  CHECK_FALSE(family(make_problem(args)).gradient_operands.any());
  CHECK_FALSE(same_shape(args, backward_call("s * x[h] + rel[h, 0, j - i] * float(doc[b, j])",
                                             operands, gradients, {true, false, false})));
}

TEST_CASE("gradients of operands: what is refused names the operand") {
  const attnjit::Operand operands[] = {operand("x", DType::kFloat32, {64, 96}),
                                       operand("doc", DType::kInt32, {2, 96})};
  const char* const score = "s + x[i, j] * float(doc[b, j])";
  std::vector<Tensor> gradients;
  BackwardArgs args = backward_call(score, operands, gradients, {true, false});
  CHECK(refusal(args) == "");
  args.operand_gradients = std::span(gradients).first(1);
  CHECK(refusal(args) == "operand_gradients: 1; expected 2 (as many as operands), or none");
  CHECK(refusal(backward_call(score, operands, gradients, {false, true})) ==
        "operand_gradients: doc is int32, which has no gradient; expected none");
  args = backward_call(score, operands, gradients, {true, false});
  gradients[0].dtype = DType::kBFloat16;
  CHECK(refusal(args) == "operand_gradients: that of x is bf16; expected fp32 (as the operand)");
  args = backward_call(score, operands, gradients, {true, false});
  gradients[0].shape[1] = 95;
  CHECK(refusal(args) ==
        "operand_gradients: axis 1 of that of x is 95; expected 96 (as the operand)");
  args = backward_call(score, operands, gradients, {true, false});
  gradients[0].strides[0] = 0;
  CHECK(refusal(args).find("x: ") == 0);  // elements share memory
  const attnjit::Operand small[] = {operand("x", DType::kFloat32, {64, 90})};
  CHECK(refusal(backward_call("s + x[i, j]", small, gradients, {true})) ==
        "operand_gradients: axis 1 of x is 90; expected at least 96, for its index is j (where one "
        "element serves all, read it at 0)");
  args = backward_call("s + x[i + j, 0]", small, gradients, {true});
  CHECK(refusal(args) == "");
  args.deterministic = true;
  CHECK(refusal(args) ==
        "operand_gradients: that of x is added up by atomics, which is not deterministic; expected "
        "an index made of i alone, of j alone or of j - i, or table[i, j]");
  CHECK(refusal(backward_call("s + x[int(s), 0]", small, gradients, {true})) ==
        "operand_gradients: x is read at an index that depends on s; expected none that does");
  const std::vector<attnjit::Operand> five = {
      operand("x0", DType::kFloat32, {}), operand("x1", DType::kFloat32, {}),
      operand("x2", DType::kFloat32, {}), operand("x3", DType::kFloat32, {}),
      operand("x4", DType::kFloat32, {})};
  CHECK(refusal(backward_call("s + x0 + x1 + x2 + x3 + x4", five, gradients,
                              std::vector<bool>(5, true))) ==
        "operand_gradients: that of x4 is one too many; expected at most 4");
  const attnjit::Operand many[] = {operand("x", DType::kFloat32, {9})};
  CHECK(refusal(backward_call("s + x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7] + x[8]",
                              many, gradients, {true})) ==
        "operand_gradients: the score reads these operands in 9 ways; expected at most 8");
}

TEST_CASE("calls of one shape have the same expressions and operands, by any name's address") {
  const std::string name = "doc";
  const attnjit::Operand a[] = {operand("doc", DType::kInt32, {2, 96}, 4096)};
  attnjit::Operand b[] = {operand(name.c_str(), DType::kInt32, {2, 96}, 8192)};
  const ForwardArgs first = call("", "doc[b, j] > 0", a), second = call("", "doc[b, j] > 0", b);
  CHECK(same_shape(first, second));
  CHECK(shape_hash(first) == shape_hash(second));
  b[0].tensor.shape[1] = 95;
  CHECK_FALSE(same_shape(first, second));
  b[0] = a[0];
  b[0].name = "dog";
  CHECK_FALSE(same_shape(first, second));
  b[0].name = nullptr;
  CHECK_FALSE(same_shape(first, second));
  CHECK_FALSE(same_shape(first, call("", "doc[b, j] > 1", a)));
  CHECK_FALSE(same_shape(first, call("", "doc[b, j] > 0")));
}

TEST_CASE("a manifest line names the operands by their places") {
  const attnjit::Operand operands[] = {operand("rel", DType::kFloat32, {4, 257}),
                                       operand("doc", DType::kInt32, {2, 96})};
  const std::string line =
      manifest_line(make_problem(call("s + rel[h, j - i]", "doc[b, i] == doc[b, j]", operands)));
  CHECK(line.find(R"("score":"s + x0[h, j - i]")") != std::string::npos);
  CHECK(line.find(R"("keep":"x1[b, i] == x1[b, j]")") != std::string::npos);
  CHECK(line.find(R"("operands":["x0=fp32:4,257","x1=int32:2,96"])") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::problem::expression_test
