#pragma once
#include "problem/family.hpp"

namespace attnjit::tuner {

/// The one list of a family's fields: calls visit(name, member) for every member in order. A
/// record's JSON and its file name are made from it. A member that is missing here does not
/// compile.
template <class Family, class Visit>
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

}  // namespace attnjit::tuner
