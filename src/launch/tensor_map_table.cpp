#include "launch/tensor_map_table.hpp"

#include <memory>

namespace attnjit::launch {

TensorMapTable::~TensorMapTable() {
  for (const auto& place : places_) delete place.load(std::memory_order_acquire);
}

const CUtensorMap* TensorMapTable::find(const TensorMapShape& shape) const {
  for (const auto& place : places_) {
    const Kept* const kept = place.load(std::memory_order_acquire);
    if (kept == nullptr) return nullptr;
    if (kept->shape == shape) return &kept->map;
  }
  return nullptr;
}

void TensorMapTable::keep(const TensorMapShape& shape, const CUtensorMap& map) {
  if (places_.back().load(std::memory_order_relaxed) != nullptr) return;
  auto kept = std::make_unique<const Kept>(shape, map);
  for (auto& place : places_) {
    const Kept* free = nullptr;
    if (place.compare_exchange_strong(free, kept.get(), std::memory_order_acq_rel)) {
      kept.release();
      return;
    }
  }
}

CUresult TensorMapMaker::make(const TensorMapShape& shape, void* address, CUtensorMap& map) const {
  const CUtensorMap* const kept = table_ == nullptr ? nullptr : table_->find(shape);
  if (kept != nullptr) {
    map = *kept;
    return replace_address_(&map, address);
  }
  const CUresult result =
      encode_(&map, shape.type, shape.rank, address, shape.extents.data(), shape.strides.data(),
              shape.box.data(), shape.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, shape.swizzle,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS && table_ != nullptr) table_->keep(shape, map);
  return result;
}

}  // namespace attnjit::launch
