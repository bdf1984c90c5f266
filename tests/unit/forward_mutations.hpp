#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "unit/forward_fixtures.hpp"

namespace attnjit::test {

// One change of one field; it may make the call illegal, or change nothing.
struct Mutation {
  std::string field;
  std::function<void(ForwardArgs&)> change;
};

inline void add_tensor(std::vector<Mutation>& list, const std::string& name,
                       const std::function<Tensor*(ForwardArgs&)>& tensor) {
  const auto add = [&](const std::string& field, const std::function<void(Tensor&)>& change) {
    list.push_back({name + "." + field, [=](ForwardArgs& args) {
                      if (Tensor* t = tensor(args)) change(*t);
                    }});
  };
  for (int axis = 0; axis < 4; ++axis) {
    for (const std::int64_t size : {0, 1, 2, 3, 8, 32, 64, 100, 128, 192}) {
      add(fmt::format("shape[{}]", axis), [=](Tensor& t) { t.shape[axis] = size; });
    }
    for (const std::int64_t by : {1, 4, 16, 1 << 20}) {
      add(fmt::format("strides[{}]", axis), [=](Tensor& t) { t.strides[axis] += by; });
      add(fmt::format("strides[{}]", axis), [=](Tensor& t) { t.strides[axis] *= -by; });
    }
    add(fmt::format("strides[{}]", axis), [=](Tensor& t) { t.strides[axis] = 0; });
  }
  for (const int dtype : {0, 1, 2, 3}) {
    add("dtype", [=](Tensor& t) { t.dtype = static_cast<DType>(dtype); });
  }
  for (const std::uintptr_t by : {2, 4, 8, 16, 256}) {
    add("data", [=](Tensor& t) { t.data = static_cast<char*>(t.data) + by; });
  }
}

// Sizes and types that must change in several tensors to be legal.
inline void add_sizes(std::vector<Mutation>& list) {
  const auto all = [](ForwardArgs& a, int axis, std::int64_t size) {
    for (Tensor* t : {&a.q, &a.k, &a.v, &a.out}) t->shape[axis] = size;
    for (auto* t : {&a.mask, &a.bias}) {
      if (*t && (*t)->shape[axis] != 1) (*t)->shape[axis] = size;
    }
  };
  for (const std::int64_t size : {0, 1, 3, 5}) {
    list.push_back({"batch", [=](ForwardArgs& a) { all(a, 0, size); }});
  }
  for (const std::int64_t size : {0, 1, 16, 64, 65, 127, 300}) {
    list.push_back({"seqlen_q", [=](ForwardArgs& a) {
                      a.q.shape[2] = a.out.shape[2] = size;
                      for (auto* t : {&a.mask, &a.bias}) {
                        if (*t && (*t)->shape[2] != 1) (*t)->shape[2] = size;
                      }
                    }});
    list.push_back({"seqlen_kv", [=](ForwardArgs& a) {
                      a.k.shape[2] = a.v.shape[2] = size;
                      for (auto* t : {&a.mask, &a.bias}) {
                        if (*t && (*t)->shape[3] != 1) (*t)->shape[3] = size;
                      }
                    }});
  }
  for (const std::int64_t size : {1, 8, 40, 63, 72}) {
    list.push_back({"head_dim", [=](ForwardArgs& a) { a.q.shape[3] = a.k.shape[3] = size; }});
    list.push_back({"head_dim_v", [=](ForwardArgs& a) { a.v.shape[3] = a.out.shape[3] = size; }});
  }
  for (const std::int64_t size : {1, 2, 4, 16}) {
    list.push_back({"heads_kv", [=](ForwardArgs& a) { a.k.shape[1] = a.v.shape[1] = size; }});
  }
  list.push_back({"dtypes", [](ForwardArgs& a) {
                    for (Tensor* t : {&a.q, &a.k, &a.v, &a.out}) t->dtype = DType::kFloat16;
                    if (a.bias && a.bias->dtype == DType::kBFloat16) {
                      a.bias->dtype = DType::kFloat16;
                    }
                  }});
}

inline void add_options(std::vector<Mutation>& list) {
  for (const float scale : {-1.0f, -0.0f, 0.0f, 0.125f, 1.0f, 3.5f}) {
    list.push_back({"scale", [=](ForwardArgs& a) { a.scale = scale; }});
  }
  for (const float softcap : {0.0f, 30.0f}) {
    list.push_back({"softcap", [=](ForwardArgs& a) { a.softcap = softcap; }});
  }
  for (const std::int64_t width : {-1, 0, 1, 100, 1 << 30}) {
    list.push_back({"window.left", [=](ForwardArgs& a) { a.window.left = width; }});
    list.push_back({"window.right", [=](ForwardArgs& a) { a.window.right = width; }});
  }
  for (const int diagonal : {0, 1, 2}) {
    list.push_back(
        {"diagonal", [=](ForwardArgs& a) { a.diagonal = static_cast<Diagonal>(diagonal); }});
  }
  for (const std::int64_t offset : {0, -7, 1 << 29}) {
    list.push_back({"diagonal_offset", [=](ForwardArgs& a) { a.diagonal_offset = offset; }});
    list.push_back({"row_offset", [=](ForwardArgs& a) { a.row_offset = offset; }});
    list.push_back({"key_offset", [=](ForwardArgs& a) { a.key_offset = offset; }});
  }
  for (const std::int64_t sequences : {0, 1, 4, 8}) {
    list.push_back({"num_sequences", [=](ForwardArgs& a) { a.num_sequences = sequences; }});
    list.push_back({"packed", [=](ForwardArgs& a) {
                      for (Tensor* t : {&a.q, &a.k, &a.v, &a.out}) t->shape[0] = 1;
                      a.num_sequences = sequences;
                      a.cu_seqlens_q = a.cu_seqlens_kv = fake_address<std::int32_t>(22);
                    }});
  }
  for (const std::int64_t batches : {1, 2}) {
    list.push_back({"alibi_slopes", [=](ForwardArgs& a) {
                      a.alibi_slopes = Tensor::contiguous(fake_address<float>(22), DType::kFloat32,
                                                          {batches, a.q.shape[1], 1, 1});
                    }});
  }
  for (const std::int64_t size : {16, 64, 192}) {
    list.push_back({"pages", [=](ForwardArgs& a) { page_keys(a, size); }});
    list.push_back({"packed pages", [=](ForwardArgs& a) {
                      page_keys(a, size);
                      pack_queries(a);
                    }});
    list.push_back({"page_size", [=](ForwardArgs& a) { a.k.shape[2] = a.v.shape[2] = size; }});
    list.push_back({"max_pages", [=](ForwardArgs& a) { a.max_pages = size / 16; }});
    list.push_back({"block_table_stride", [=](ForwardArgs& a) { a.block_table_stride = size; }});
    list.push_back(
        {"block_table", [=](ForwardArgs& a) { a.block_table = fake_address<std::int32_t>(32); }});
  }
  list.push_back({"tail_mask", [](ForwardArgs& a) { a.tail_mask = tail_mask(a); }});
  for (const std::int64_t heads : {1, 8}) {
    list.push_back({"prepared_mask", [=](ForwardArgs& a) {
                      a.mask.reset();
                      a.prepared_mask = {.data = fake_address(23),
                                         .shape = {1, heads, 1, a.k.shape[2]},
                                         .for_backward = false};
                    }});
  }
  for (const auto& [name, order] : {std::pair{"mask_order", &ForwardArgs::mask_order},
                                    {"bias_order", &ForwardArgs::bias_order}}) {
    for (const std::int64_t number : {-1, 1, 2, 3}) {
      list.push_back({fmt::format("{}.inner", name),
                      [=, o = order](ForwardArgs& a) { (a.*o).inner = number; }});
      list.push_back({fmt::format("{}.cycle", name),
                      [=, o = order](ForwardArgs& a) { a.*o = {.inner = 1, .cycle = number}; }});
    }
  }
  list.push_back({"causal", [](ForwardArgs& a) { a.causal = !a.causal; }});
  list.push_back({"mask", [](ForwardArgs& a) { a.mask.reset(); }});
  list.push_back({"bias", [](ForwardArgs& a) { a.bias.reset(); }});
  for (const std::uintptr_t place : {20, 21}) {
    list.push_back({"lse", [=](ForwardArgs& a) { a.lse = fake_address<float>(place); }});
    list.push_back({"row_max", [=](ForwardArgs& a) { a.row_max = fake_address<float>(place); }});
    list.push_back(
        {"max_logits", [=](ForwardArgs& a) { a.max_logits = fake_address<float>(place); }});
    list.push_back(
        {"seqlens_q", [=](ForwardArgs& a) { a.seqlens_q = fake_address<std::int32_t>(place); }});
    list.push_back(
        {"seqlens_kv", [=](ForwardArgs& a) { a.seqlens_kv = fake_address<std::int32_t>(place); }});
  }
  list.push_back({"lse", [](ForwardArgs& a) { a.lse = nullptr; }});
  list.push_back({"seqlens_q", [](ForwardArgs& a) { a.seqlens_q = nullptr; }});
  list.push_back({"seqlens_kv", [](ForwardArgs& a) { a.seqlens_kv = nullptr; }});
}

inline std::vector<Mutation> mutations() {
  std::vector<Mutation> list;
  add_tensor(list, "q", [](ForwardArgs& a) { return &a.q; });
  add_tensor(list, "k", [](ForwardArgs& a) { return &a.k; });
  add_tensor(list, "v", [](ForwardArgs& a) { return &a.v; });
  add_tensor(list, "out", [](ForwardArgs& a) { return &a.out; });
  add_tensor(list, "mask", [](ForwardArgs& a) { return a.mask ? &*a.mask : nullptr; });
  add_tensor(list, "bias", [](ForwardArgs& a) { return a.bias ? &*a.bias : nullptr; });
  add_sizes(list);
  add_options(list);
  return list;
}

}  // namespace attnjit::test
