#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "attnjit/tensor.hpp"

namespace attnjit::instance {

/// Which argument of ForwardArgs or BackwardArgs a buffer backs. The order decides the random
/// values.
enum class BufferRole {
  kQ,
  kK,
  kV,
  kOut,
  kMask,
  kBias,
  kLse,
  kSeqlensQ,
  kSeqlensKv,
  kDout,
  kDlse,
  kDq,
  kDk,
  kDv,
  kDbias,
  kSink,
  kDsink,
  kCuSeqlensQ,
  kCuSeqlensKv,
  kAlibiSlopes,
  kRowMax,
  kMaxLogits,
  kBlockTable,
  kTailMask,
  kBlockIndices,
  kBlockCounts,
  kFullIndices,
  kFullCounts,
  kKeyIndices,
  kOperand,          ///< of expressions; several, in the order of ProblemSpec::operands
  kOperandGradient,  ///< the same of those in ProblemSpec::grad
};

/// Host memory of one tensor between two guard zones. Every byte that was not written yet holds
/// a pattern of its position: in the guards, in the gaps of a strided view, and in elements, where
/// it reads as NaN (or as true) and serves as poison.
class HostBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 256;  ///< a multiple of kAlignment
  static constexpr std::size_t kAlignment = 256;   ///< what a device allocation has as well

  /// Room for a tensor with the dtype, shape and strides (elements, none negative) of `view`, its
  /// first element `base_offset` elements past the front guard. view.data is ignored.
  HostBuffer(std::string name, BufferRole role, bool is_output, const Tensor& view,
             std::int64_t base_offset);

  const std::string& name() const { return name_; }
  BufferRole role() const { return role_; }
  bool is_output() const { return is_output_; }

  /// Everything, guards included: what a mirror on a device copies, both ways.
  std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }

  /// Offset of the first element in bytes(). A mirror at `base` has its data at base + this.
  std::size_t data_offset() const { return data_offset_; }
  void* data() const { return memory_.get() + data_offset_; }

  /// The tensor here, or on a mirror whose allocation starts at `base`. A buffer of seqlens or
  /// a block table has dtype kFloat32 for its width and holds int32.
  Tensor tensor() const { return tensor_at(memory_.get()); }
  Tensor tensor_at(void* base) const;

  /// Writes the pattern everywhere.
  void poison();

  /// Empty, or what changed outside the elements since poison(), e.g.
  /// "out: 3 bytes outside the tensor changed, the first 2 bytes past its end". For tensors
  /// without overlap.
  std::string check_guards() const;

  /// Empty, or how many elements still hold the poison, with the first one's index.
  std::string check_written() const;

  /// A checksum of all bytes.
  std::uint64_t checksum() const;

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };

  std::string name_;
  BufferRole role_;
  bool is_output_;
  Tensor view_;  // data stays null
  std::size_t data_offset_;
  std::size_t data_end_;  // past the last element
  std::size_t size_;
  std::unique_ptr<std::byte, Release> memory_;
};

}  // namespace attnjit::instance
