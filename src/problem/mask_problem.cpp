#include "problem/mask_problem.hpp"

#include <limits>

#include "problem/canonical_operand.hpp"

namespace attnjit::problem {

using namespace checks;

MaskProblem make_problem(const PrepareMaskArgs& args) {
  const Tensor& mask = args.mask;
  if (mask.dtype != DType::kBool) {
    reject("mask: dtype is {}; expected bool (true = keep)", name(mask.dtype));
  }
  static constexpr const char* kNames[] = {"batch", "head", "query", "key"};
  for (int axis = 0; axis < 4; ++axis) {
    const std::int64_t most = axis < 2 ? std::numeric_limits<std::int32_t>::max() : kMaxSeqlen;
    if (mask.shape[axis] >= 0 && mask.shape[axis] <= most) continue;
    reject("mask: {} axis is {}; expected 0 to {}", kNames[axis], mask.shape[axis], most);
  }
  MaskProblem p;
  p.result = {.data = nullptr, .shape = mask.shape, .for_backward = args.for_backward};
  if (empty_tensor(mask)) return p;
  p.mask = canonical_operand(mask);
  if (p.mask.extent == Extent::kPerQuery) {
    reject(
        "mask: the key axis has size {} and stride {}; a mask that is the same for all keys has no "
        "prepared form; pass it to calls as it is",
        mask.shape[3], mask.strides[3]);
  }
  p.result.shape = {p.mask.num_batches, p.mask.num_heads, p.mask.queries, p.mask.keys};
  const bool per_pair = p.mask.extent == Extent::kPerPair;
  p.key = {per_pair, p.mask.vectorized, per_pair && args.for_backward};
  return p;
}

PreparedMask result_of(const MaskProblem& problem, const PrepareMaskArgs& args) {
  PreparedMask result = problem.result;
  result.data = args.memory;
  if (problem.empty()) return result;
  check_memory("mask", args.mask);
  if (args.memory == nullptr) {
    reject("memory: null; expected prepared_mask_size() bytes on the device");
  }
  if (!is_multiple(address(args.memory), 16)) {
    reject("memory: address {} is not a multiple of 16 bytes", args.memory);
  }
  return result;
}

std::string describe(const MaskProblem& p) {
  const auto& [batches, heads, queries, keys] = p.result.shape;
  return fmt::format("prepared mask [{}, {}, {}, {}]{}{}", batches, heads, queries, keys,
                     p.key.vectorized ? "" : " scalar", p.result.for_backward ? " backward" : "");
}

}  // namespace attnjit::problem
