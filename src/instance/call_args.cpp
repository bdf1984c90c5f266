#include "instance/call_args.hpp"

#include <cstdint>

#include "expr/interned.hpp"
#include "instance/blocks_spec.hpp"
#include "instance/buffer_specs.hpp"

namespace attnjit::instance {
namespace {

// Any address that is not null and as aligned as memory from an allocator.
void* placeholder() { return reinterpret_cast<void*>(std::uintptr_t{1} << 12); }

}  // namespace

BackwardArgs options_of(const ProblemSpec& spec) {
  BackwardArgs args;
  static_cast<ScoreOptions&>(args.forward) = spec;
  args.forward.num_sequences = spec.packed ? spec.batch : 0;
  args.forward.mask_order = pattern_order(spec.mask);
  args.forward.bias_order = pattern_order(spec.bias);
  args.deterministic = spec.deterministic;
  if (!spec.blocks.empty()) args.forward.blocks = block_lists_view(spec);
  if (!spec.score.empty()) args.forward.score = expr::expression(spec.score);
  if (!spec.keep.empty()) args.forward.keep = expr::expression(spec.keep);
  return args;
}

void set_tensor(BackwardArgs& args, BufferRole role, const Tensor& tensor) {
  switch (role) {
    case BufferRole::kQ:
      args.forward.q = tensor;
      break;
    case BufferRole::kK:
      args.forward.k = tensor;
      break;
    case BufferRole::kV:
      args.forward.v = tensor;
      break;
    case BufferRole::kOut:
      args.forward.out = tensor;
      break;
    case BufferRole::kMask:
      args.forward.mask = tensor;
      break;
    case BufferRole::kBias:
      args.forward.bias = tensor;
      break;
    case BufferRole::kLse:
      args.forward.lse = static_cast<float*>(tensor.data);
      break;
    case BufferRole::kRowMax:
      args.forward.row_max = static_cast<float*>(tensor.data);
      break;
    case BufferRole::kMaxLogits:
      args.forward.max_logits = static_cast<float*>(tensor.data);
      break;
    case BufferRole::kSeqlensQ:
      args.forward.seqlens_q = static_cast<const std::int32_t*>(tensor.data);
      break;
    case BufferRole::kSeqlensKv:
      args.forward.seqlens_kv = static_cast<const std::int32_t*>(tensor.data);
      break;
    case BufferRole::kDout:
      args.dout = tensor;
      break;
    case BufferRole::kDlse:
      args.dlse = static_cast<const float*>(tensor.data);
      break;
    case BufferRole::kDq:
      args.dq = tensor;
      break;
    case BufferRole::kDk:
      args.dk = tensor;
      break;
    case BufferRole::kDv:
      args.dv = tensor;
      break;
    case BufferRole::kDbias:
      args.dbias = tensor;
      break;
    case BufferRole::kSink:
      args.forward.sink = tensor;
      break;
    case BufferRole::kDsink:
      args.dsink = tensor;
      break;
    case BufferRole::kCuSeqlensQ:
      args.forward.cu_seqlens_q = static_cast<const std::int32_t*>(tensor.data);
      break;
    case BufferRole::kCuSeqlensKv:
      args.forward.cu_seqlens_kv = static_cast<const std::int32_t*>(tensor.data);
      break;
    case BufferRole::kAlibiSlopes:
      args.forward.alibi_slopes = tensor;
      break;
    case BufferRole::kBlockTable:
      args.forward.block_table = static_cast<const std::int32_t*>(tensor.data);
      args.forward.block_table_stride = tensor.strides[0];
      args.forward.max_pages = tensor.shape[3];
      break;
    case BufferRole::kTailMask:
      args.forward.tail_mask = tensor;
      break;
    case BufferRole::kBlockIndices:
      args.forward.blocks->indices = tensor;
      break;
    case BufferRole::kBlockCounts:
      args.forward.blocks->counts = tensor;
      break;
    case BufferRole::kFullIndices:
      args.forward.blocks->full_indices = tensor;
      break;
    case BufferRole::kFullCounts:
      args.forward.blocks->full_counts = tensor;
      break;
    case BufferRole::kKeyIndices:
      args.forward.key_indices = tensor;
      break;
    case BufferRole::kOperand:          // operands_of() lists them
    case BufferRole::kOperandGradient:  // gradients_of()
      break;
  }
}

std::vector<Operand> operands_of(const ProblemSpec& spec, std::span<const Tensor> tensors) {
  std::vector<Operand> operands;
  for (const OperandSpec& operand : spec.operands) {
    operands.push_back(
        {operand.name.c_str(), static_cast<int>(operand.axes.size()), tensors[operands.size()]});
  }
  return operands;
}

std::vector<Tensor> gradients_of(const ProblemSpec& spec, std::span<const Tensor> tensors) {
  std::vector<Tensor> gradients(spec.operands.size());
  std::size_t next = 0;
  for (std::size_t n = 0; n < spec.operands.size(); ++n) {
    if (wants_gradient(spec, spec.operands[n])) gradients[n] = tensors[next++];
  }
  return gradients;
}

ShapeCall::ShapeCall(const ProblemSpec& spec) : args_(options_of(spec)) {
  std::vector<Tensor> operands, gradients;
  for (const BufferSpec& buffer : buffer_specs(spec)) {
    Tensor tensor = buffer.view;
    tensor.data = placeholder();
    set_tensor(args_, buffer.role, tensor);
    if (buffer.role == BufferRole::kOperand) operands.push_back(tensor);
    if (buffer.role == BufferRole::kOperandGradient) gradients.push_back(tensor);
  }
  operands_ = operands_of(spec, operands);
  args_.forward.operands = operands_;
  if (!gradients.empty()) args_.operand_gradients = gradients_ = gradients_of(spec, gradients);
  if (spec.prepare_mask) {
    std::optional<Tensor>& mask = args_.forward.mask;
    args_.forward.prepared_mask = {
        .data = mask->data, .shape = mask->shape, .for_backward = spec.backward};
    mask.reset();
  }
}

}  // namespace attnjit::instance
