#include "check/call_verdict.hpp"

#include <algorithm>
#include <cmath>

#include "launch/mask_tiles.hpp"
#include "problem/canonical_operand.hpp"

namespace attnjit::check {
namespace {

constexpr double kBudget = 2e10;  // multiply-adds: seconds on a few cores

double products_of_row(const ForwardArgs& args) {
  const double keys = static_cast<double>(
      args.block_table != nullptr ? args.max_pages * args.k.shape[2] : args.k.shape[2]);
  return keys * static_cast<double>(args.q.shape[3] + args.v.shape[3]);
}

reference::Rows rows_to_judge(const ForwardArgs& args) {
  const double per_row =
      products_of_row(args) * static_cast<double>(args.q.shape[0] * args.q.shape[1]);
  const auto count = static_cast<std::int64_t>(kBudget / std::max(per_row, 1.0));
  return reference::Rows::sample(args.q.shape[2], std::max<std::int64_t>(count, 8), 1);
}

reference::Planes planes_to_judge(const ForwardArgs& args) {
  constexpr double kPasses = 5;  // S twice, dP, dS and P
  const auto& [batch, heads_q, rows, width] = args.q.shape;
  const std::int64_t heads = args.k.shape[1], planes = batch * heads;
  const double per_plane = kPasses * products_of_row(args) *
                           static_cast<double>(heads_q / std::max<std::int64_t>(heads, 1) * rows);
  const auto count = static_cast<std::int64_t>(kBudget / std::max(per_plane, 1.0));
  const reference::Rows chosen =
      reference::Rows::sample(planes, std::max<std::int64_t>(count, 2), 1);
  if (chosen.all) return reference::Planes::every();
  std::vector<reference::Plane> list;
  for (const std::int64_t plane : chosen.list) list.push_back({plane / heads, plane % heads});
  return reference::Planes::only(std::move(list));
}

}  // namespace

double CallVerdict::worst_ratio() const {
  double worst = 0;
  for (const Output& output : outputs) worst = std::max(worst, output.report.worst_ratio);
  return worst;
}

CallVerdict judge_call(const dump::HostCall& call, unsigned jobs) {
  CallVerdict result;
  std::vector<std::uint8_t> mask;
  const auto add = [&result](bool there, const std::string& name, const reference::Report& report) {
    if (there) result.outputs.push_back({name, report});
  };
  if (!call.call().backward()) {
    const ForwardArgs args = with_dense_mask(call.call().forward_args(), mask);
    const Verdict verdict = judge_forward(args, rows_to_judge(args), jobs);
    static_cast<Findings&>(result) = verdict;
    add(true, "out", verdict.out);
    add(args.lse != nullptr, "lse", verdict.lse);
    add(args.row_max != nullptr, "row_max", verdict.row_max);
    add(args.max_logits != nullptr, "max_logits", verdict.max_logits);
    return result;
  }
  BackwardArgs args = call.call().backward_args();
  args.forward = with_dense_mask(args.forward, mask);
  const BackwardVerdict verdict = judge_backward(args, planes_to_judge(args.forward), jobs);
  static_cast<Findings&>(result) = verdict;
  add(true, "dq", verdict.dq);
  add(true, "dk", verdict.dk);
  add(true, "dv", verdict.dv);
  add(args.dbias.has_value(), "dbias", verdict.dbias);
  add(args.dsink.has_value(), "dsink", verdict.dsink);
  std::size_t next = 0;
  for (std::size_t n = 0; n < args.operand_gradients.size(); ++n) {
    if (args.operand_gradients[n].data == nullptr) continue;
    add(true, std::string("grad ") + args.forward.operands[n].name, verdict.operands[next++]);
  }
  return result;
}

ForwardArgs with_dense_mask(const ForwardArgs& args, std::vector<std::uint8_t>& memory) {
  if (!args.prepared_mask) return args;
  const PreparedMask& prepared = *args.prepared_mask;
  const Tensor dense = Tensor::contiguous(nullptr, DType::kBool, prepared.shape);
  const launch::MaskTiles tiles(problem::canonical_operand(dense));
  const auto& [planes_batch, heads, rows, keys] = prepared.shape;
  memory.resize(static_cast<std::size_t>(planes_batch * heads * rows * keys));
  const auto* const bits = static_cast<const std::uint8_t*>(prepared.data);
  for (std::size_t at = 0; at < memory.size(); ++at) {
    const std::int64_t row = static_cast<std::int64_t>(at) / keys;
    const int key = static_cast<int>(static_cast<std::int64_t>(at) % keys);
    const std::uint8_t byte = bits[row * tiles.words_per_row * 4 + kernel::mask_byte(key)];
    memory[at] = byte >> key % 8 & 1;
  }
  ForwardArgs result = args;
  result.mask = dense;
  result.mask->data = memory.data();
  result.prepared_mask.reset();
  return result;
}

}  // namespace attnjit::check
