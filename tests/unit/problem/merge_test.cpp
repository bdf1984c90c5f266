// Merges of partial results: what is accepted, and what messages say of the rest.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "attnjit/error.hpp"
#include "problem/merge_problem.hpp"

using namespace attnjit;

namespace problem_merge_test {

namespace {

template <class T = void>
T* address(std::uintptr_t number) {
  return reinterpret_cast<T*>(number << 16);
}

MergeLseArgs merge_args() {
  MergeLseArgs args;
  args.parts = Tensor::contiguous(address(1), DType::kBFloat16, {2, 4, 100, 64});
  args.part_stride = 2 * 4 * 100 * 64;
  args.num_parts = 3;
  args.part_lses = address<float>(2);
  args.out = Tensor::contiguous(address(3), DType::kBFloat16, {2, 4, 100, 64});
  args.lse = address<float>(4);
  return args;
}

std::string refusal(const std::function<void(MergeLseArgs&)>& change) {
  MergeLseArgs args = merge_args();
  change(args);
  try {
    problem::make_problem(args);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a merge's kernel follows from its dtypes, width and alignment") {
  MergeLseArgs args = merge_args();
  CHECK(problem::make_problem(args).key ==
        problem::MergeKey{DType::kBFloat16, DType::kBFloat16, 64, true, false});
  CHECK(problem::make_problem(args).rows() == 800);
  args.part_stride += 4;
  CHECK_FALSE(problem::make_problem(args).key.aligned);
  args.part_stride = std::int64_t{1} << 62;
  CHECK(problem::make_problem(args).key.aligned);
  args.part_stride = 4;
  args.num_parts = 1;  // the stride means nothing then
  CHECK(problem::make_problem(args).key.aligned);
  args.carry = Tensor::contiguous(address(5), DType::kFloat32, {2, 4, 100, 64});
  args.carry_lse = address<float>(6);
  args.out.dtype = DType::kFloat32;
  CHECK(problem::make_problem(args).key ==
        problem::MergeKey{DType::kBFloat16, DType::kFloat32, 64, true, true});
}

TEST_CASE("a merge without rows is empty") {
  MergeLseArgs args = merge_args();
  for (Tensor* tensor : {&args.parts, &args.out}) {
    *tensor = Tensor::contiguous(nullptr, DType::kBFloat16, {2, 4, 0, 64});
  }
  args.part_lses = nullptr;
  args.lse = nullptr;
  CHECK(problem::make_problem(args).empty());
}

TEST_CASE("a merge takes rows of any width") {
  for (const int columns : {257, 512, 100000}) {
    MergeLseArgs args = merge_args();
    for (Tensor* tensor : {&args.parts, &args.out}) {
      *tensor = Tensor::contiguous(tensor->data, tensor->dtype, {2, 4, 100, columns});
    }
    args.part_stride = 2 * 4 * 100 * columns;
    CHECK(problem::make_problem(args).key.head_dim_v == columns);
    CHECK(problem::make_problem(args).key.aligned == (columns % 8 == 0));
  }
}

TEST_CASE("the strides of an empty tensor mean nothing") {
  MergeLseArgs args = merge_args();
  for (Tensor* tensor : {&args.parts, &args.out}) {
    *tensor = {nullptr, DType::kBFloat16, {2, 4, 0, 64}, {0, 0, 0, 0}};
  }
  args.part_lses = nullptr;
  args.lse = nullptr;
  CHECK(problem::make_problem(args).empty());
}

TEST_CASE("messages name what a merge has and what is allowed") {
  CHECK(refusal([](auto& a) { a.num_parts = 0; }) == "num_parts: 0; expected 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.parts.dtype = DType::kBool; }) ==
        "parts: dtype is bool; expected fp16, bf16 or fp32");
  CHECK(refusal([](auto& a) { a.out.shape[2] = 99; }) ==
        "out: sequence axis is 99; expected 100 (as parts)");
  CHECK(refusal([](auto& a) { a.part_lses = nullptr; }) ==
        "part_lses: null; expected [parts, batch, heads, rows] fp32");
  CHECK(refusal([](auto& a) { a.carry_lse = a.lse; }) ==
        "carry_lse: there is no carry; leave it out");
  CHECK(refusal([](auto& a) { a.carry = a.out; }) == "carry: dtype is bf16; expected fp32");
  CHECK(refusal([](auto& a) {
          a.carry = Tensor::contiguous(address(5), DType::kFloat32, {2, 4, 100, 64});
        }) == "carry_lse: null; expected [batch, heads, rows] fp32");
  CHECK(refusal([](auto& a) { a.out.strides[2] = 0; }).find("make elements overlap") !=
        std::string::npos);
  CHECK(refusal([](auto& a) { a.parts.shape[3] = (1 << 29) + 1; }) ==
        "parts: feature axis is 536870913; expected 1 to 536870912");
}

}  // namespace problem_merge_test
