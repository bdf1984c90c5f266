#include "reference/key_counts.hpp"

namespace attnjit::reference {
namespace {

std::int64_t index_at(const Tensor& indices, std::int64_t batch, std::int64_t head,
                      std::int64_t place) {
  const std::int64_t element =
      batch * indices.strides[0] + head * indices.strides[1] + place * indices.strides[3];
  return indices.dtype == DType::kInt64 ? static_cast<const std::int64_t*>(indices.data)[element]
                                        : static_cast<const std::int32_t*>(indices.data)[element];
}

// Calls visit(batch, head, index) for each.
template <class Visit>
void for_each_index(const Tensor& indices, Visit visit) {
  const auto& [batches, heads, one, width] = indices.shape;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t place = 0; place < width; ++place) {
        visit(batch, head, index_at(indices, batch, head, place));
      }
    }
  }
}

}  // namespace

KeyCounts::KeyCounts(const ForwardArgs& args, std::int64_t first_batch)
    : batches_(args.key_indices->shape[0]),
      heads_(args.key_indices->shape[1]),
      num_keys_(args.k.shape[2]),
      first_batch_(first_batch),
      counts_(static_cast<std::size_t>(batches_ * heads_ * num_keys_)) {
  for_each_index(*args.key_indices, [&](std::int64_t batch, std::int64_t head, std::int64_t key) {
    if (key < 0 || key >= num_keys_) return;
    ++counts_[static_cast<std::size_t>((batch * heads_ + head) * num_keys_ + key)];
  });
}

std::int64_t KeyCounts::at(std::int64_t batch, std::int64_t head_kv, std::int64_t key) const {
  const std::int64_t plane = batches_ == 1 ? 0 : first_batch_ + batch;
  const std::int64_t head = heads_ == 1 ? 0 : head_kv;
  return counts_[static_cast<std::size_t>((plane * heads_ + head) * num_keys_ + key)];
}

std::int64_t faulty_key_indices(const ForwardArgs& args) {
  std::int64_t faulty = 0;
  for_each_index(*args.key_indices, [&](std::int64_t, std::int64_t, std::int64_t key) {
    faulty += key < -1 || key >= args.k.shape[2];
  });
  return faulty;
}

}  // namespace attnjit::reference
