#pragma once
#include <concepts>
#include <type_traits>

#include "problem/backward_problem.hpp"

namespace attnjit::tuner {

/// The one list of a family's fields: calls visit(name, member) for every member in order. A
/// record's JSON and its file name are made from it. A member that is missing here does not
/// compile.
template <class Family, class Visit>
requires std::same_as<std::remove_const_t<Family>, problem::Family>
void for_each_field(Family& family, Visit&& visit) {
  auto& [dtype, head_dim, head_dim_v, gqa_ratio, aligned, positive_scale, mask, mask_vectorized,
         mask_per_query_head, bias, bias_dtype, bias_vectorized, bounded_left, bounded_right,
         seqlens] = family;
  visit("dtype", dtype);
  visit("head_dim", head_dim);
  visit("head_dim_v", head_dim_v);
  visit("gqa_ratio", gqa_ratio);
  visit("aligned", aligned);
  visit("positive_scale", positive_scale);
  visit("mask", mask);
  visit("mask_vectorized", mask_vectorized);
  visit("mask_per_query_head", mask_per_query_head);
  visit("bias", bias);
  visit("bias_dtype", bias_dtype);
  visit("bias_vectorized", bias_vectorized);
  visit("bounded_left", bounded_left);
  visit("bounded_right", bounded_right);
  visit("seqlens", seqlens);
}

template <class Family, class Visit>
requires std::same_as<std::remove_const_t<Family>, problem::BackwardFamily>
void for_each_field(Family& family, Visit&& visit) {
  auto& [scores, dbias, dbias_dtype, dbias_vectorized, dbias_reduces_planes, dbias_scalar,
         deterministic] = family;
  for_each_field(scores, visit);
  visit("dbias", dbias);
  visit("dbias_dtype", dbias_dtype);
  visit("dbias_vectorized", dbias_vectorized);
  visit("dbias_reduces_planes", dbias_reduces_planes);
  visit("dbias_scalar", dbias_scalar);
  visit("deterministic", deterministic);
}

}  // namespace attnjit::tuner
