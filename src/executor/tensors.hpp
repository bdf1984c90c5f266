#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "attnjit/forward.hpp"
#include "executor/global_memory.hpp"
#include "launch/block_lists.hpp"
#include "launch/forward_plan_spec.hpp"
#include "launch/key_selection.hpp"
#include "launch/mask_plan.hpp"
#include "launch/operand_ranges.hpp"
#include "problem/call_members.hpp"

namespace attnjit::executor {

inline constexpr std::size_t kFloatBytes = 4;

inline void add_tensor(GlobalMemory& memory, const char* name, const Tensor& tensor,
                       TensorRole role) {
  memory.add(name, tensor, static_cast<std::size_t>(element_size(tensor.dtype)), role);
}

/// A contiguous array; none where `data` is null.
inline void add_array(GlobalMemory& memory, const char* name, const void* data, std::int64_t count,
                      std::size_t bytes, TensorRole role) {
  if (data == nullptr) return;
  Tensor view;
  view.data = const_cast<void*>(data);
  view.shape = {1, 1, 1, count};
  view.strides = {0, 0, 0, 1};
  memory.add(name, view, bytes, role);
}

/// The arrays of a bit mask of canonical form `mask`.
inline void add_bit_mask(GlobalMemory& memory, const problem::Operand& mask,
                         const launch::BitMaskLayout& layout, const void* data, TensorRole role) {
  const launch::MaskTiles tiles(mask);
  const auto* const bytes = static_cast<const std::byte*>(data);
  if (layout.orders.by_rows) {
    add_array(memory, "bits by rows", bytes, tiles.words(), sizeof(kernel::uint32), role);
  }
  if (layout.orders.by_keys) {
    add_array(memory, "bits by keys", bytes + layout.columns, tiles.columns(),
              sizeof(kernel::uint64), role);
  }
  add_array(memory, "mask classes", bytes + layout.classes, tiles.classes(), 1, role);
}
inline void add_prepared_mask(GlobalMemory& memory, const problem::Problem& problem,
                              const ForwardArgs& args) {
  if (!problem.mask_prepared) return;
  add_bit_mask(memory, problem.mask, launch::prepared_layout(problem, *args.prepared_mask),
               args.prepared_mask->data, TensorRole::kInput);
}

/// The ranges and lines that a prepass writes of the operands of a keep expression.
template <class Plan>
void add_operand_ranges(GlobalMemory& memory, const Plan& plan,
                        const kernel::OperandRangesParams& prepass,
                        const problem::Problem& problem) {
  if (!plan.operand_ranges) return;
  const launch::OperandRangesLayout layout =
      launch::operand_ranges_layout(plan.ranged_axes, problem);
  add_array(memory, "ranges of operands", prepass.operands[0].ranges, layout.ranges,
            sizeof(kernel::IntRange), TensorRole::kOutput);
  add_array(memory, "lines of operands", prepass.operands[0].lines,
            layout.ranges * kernel::kRangeElements, sizeof(kernel::int32), TensorRole::kOutput);
}

/// The bytes that a prepass makes of lists of blocks: zeros first, then marks.
inline void add_block_lists(GlobalMemory& memory, const kernel::BlockListsParams& prepass,
                            const problem::Problem& problem) {
  if (!problem.blocks.exist()) return;
  const std::int64_t bytes = launch::block_lists_layout(problem).bytes;
  if (bytes > 0) {
    add_array(memory, "listed blocks", prepass.kinds[0].listed, bytes, 1, TensorRole::kReused);
  }
}

/// The copies of selected keys and values, their numbers, and in a backward dk and dv of them.
inline void add_key_selection(GlobalMemory& memory, const kernel::GatherKeysParams& gather,
                              const problem::Problem& problem) {
  const std::int64_t rows =
      std::int64_t{gather.num_batches} * gather.num_heads * gather.num_selected;
  add_array(memory, "selected keys", gather.k_copy, rows * problem::selected_row(problem.head_dim),
            sizeof(kernel::uint16), TensorRole::kOutput);
  add_array(memory, "selected values", gather.v_copy,
            rows * problem::selected_row(problem.head_dim_v), sizeof(kernel::uint16),
            TensorRole::kOutput);
  add_array(memory, "numbers of selected keys", gather.selected, rows, sizeof(kernel::int32),
            TensorRole::kOutput);
  add_array(memory, "numbers of keys", gather.key_numbers, gather.num_batches,
            sizeof(kernel::int32), TensorRole::kOutput);
}
inline void add_key_gradients(GlobalMemory& memory, const kernel::ScatterKeysParams& scatter,
                              const problem::BackwardProblem& problem) {
  const problem::Problem& p = problem.forward;
  const std::int64_t rows = std::int64_t{p.batch} * p.num_heads_kv * p.seqlen_kv;
  add_array(memory, "dk of selected keys", scatter.dk_selected,
            rows * problem::selected_row(p.head_dim), sizeof(kernel::uint16), TensorRole::kOutput);
  add_array(memory, "dv of selected keys", scatter.dv_selected,
            rows * problem::selected_row(p.head_dim_v), sizeof(kernel::uint16),
            TensorRole::kOutput);
}

/// Batch elements or packed sequences.
inline std::int64_t num_elements(const ForwardArgs& args) {
  return args.cu_seqlens_q != nullptr ? args.num_sequences : args.q.shape[0];
}

/// The tensors of a call, of which kernels write `outputs` and read the others.
template <class Args>
void add_tensors(GlobalMemory& memory, const Args& args,
                 std::initializer_list<std::string_view> outputs) {
  base::for_each_field(args, [&](const char* name, const auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    const bool written = std::ranges::find(outputs, name) != outputs.end();
    const TensorRole role = written ? TensorRole::kOutput : TensorRole::kInput;
    if constexpr (std::same_as<Member, Tensor>) add_tensor(memory, name, member, role);
    if constexpr (std::same_as<Member, std::optional<Tensor>>) {
      if (member) add_tensor(memory, name, *member, role);
    }
    if constexpr (std::same_as<Member, std::optional<BlockLists>>) {
      if (member) add_tensors(memory, *member, {});
    }
    if constexpr (std::same_as<Member, std::span<const Tensor>>) {
      for (const Tensor& tensor : member) {
        if (tensor.data != nullptr) add_tensor(memory, name, tensor, role);
      }
    }
    if constexpr (std::same_as<Member, std::span<const Operand>>) {
      for (const Operand& operand : member) add_tensor(memory, operand.name, operand.tensor, role);
    }
  });
}

/// The numbers of each.
inline void add_lengths(GlobalMemory& memory, const ForwardArgs& args) {
  const std::int64_t batch = num_elements(args);
  const auto add = [&](const char* name, const std::int32_t* data, std::int64_t count) {
    add_array(memory, name, data, count, sizeof(*data), TensorRole::kInput);
  };
  add("seqlens_q", args.seqlens_q, batch);
  add("seqlens_kv", args.seqlens_kv, batch);
  add("cu_seqlens_q", args.cu_seqlens_q, batch + 1);
  add("cu_seqlens_kv", args.cu_seqlens_kv, batch + 1);
}

/// Memory of a workspace, aligned as a device allocation is.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : storage_(bytes + launch::kWorkspaceAlignment) {
    data_ = storage_.data();
    std::size_t space = storage_.size();
    std::align(launch::kWorkspaceAlignment, bytes, data_, space);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }

 private:
  std::vector<std::byte> storage_;
  void* data_;
};

}  // namespace attnjit::executor
