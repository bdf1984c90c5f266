#pragma once
#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace attnjit::launch {

/// In place of maps, for a pass that keeps none for later calls.
struct NoMaps {};

/// The driver's cuTensorMapEncodeTiled and cuTensorMapReplaceAddress, or functions that stand for
/// them.
using EncodeTensorMap = decltype(&cuTensorMapEncodeTiled);
using ReplaceTensorMapAddress = decltype(&cuTensorMapReplaceAddress);

/// All that a tensor map says but the address. Strides are in bytes, without that of the columns.
struct TensorMapShape {
  static constexpr std::size_t kMostAxes = 5;

  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  cuuint32_t rank;
  std::array<cuuint64_t, kMostAxes> extents{};
  std::array<cuuint64_t, kMostAxes - 1> strides{};
  std::array<cuuint32_t, kMostAxes> box{}, steps{};

  bool operator==(const TensorMapShape&) const = default;
};

/// The first tensor maps that calls of a plan have needed. A later call that needs one of the same
/// shape has its address replaced, which costs the driver a fifth of what encoding does (13 ns for
/// 70 on the host of an H200). Any thread may use it, and none waits: what is kept stays as it
/// is, and a full table keeps no more.
class TensorMapTable {
 public:
  static constexpr std::size_t kPlaces = 16;  // a backward has up to 13 maps

  TensorMapTable() = default;
  TensorMapTable(const TensorMapTable&) = delete;
  TensorMapTable& operator=(const TensorMapTable&) = delete;
  ~TensorMapTable();

  /// The map of this shape with some address, or null.
  const CUtensorMap* find(const TensorMapShape& shape) const;

  /// Keeps a copy if there is a place.
  void keep(const TensorMapShape& shape, const CUtensorMap& map);

 private:
  struct Kept {
    TensorMapShape shape;
    CUtensorMap map;
  };
  std::array<std::atomic<const Kept*>, kPlaces> places_{};
};

/// Makes tensor maps.
class TensorMapMaker {
 public:
  /// Each by `encode`.
  TensorMapMaker(EncodeTensorMap encode) : encode_(encode) {}
  /// By `replace_address` from what `table` has, which is told of the others.
  TensorMapMaker(EncodeTensorMap encode, ReplaceTensorMapAddress replace_address,
                 TensorMapTable& table)
      : encode_(encode), replace_address_(replace_address), table_(&table) {}

  /// The driver's answer.
  CUresult make(const TensorMapShape& shape, void* address, CUtensorMap& map) const;

  /// The driver's answer for a map that gets another address.
  CUresult move(void* address, CUtensorMap& map) const { return replace_address_(&map, address); }

 private:
  EncodeTensorMap encode_;
  ReplaceTensorMapAddress replace_address_ = nullptr;
  TensorMapTable* table_ = nullptr;
};

}  // namespace attnjit::launch
