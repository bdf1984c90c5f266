#include "check/call_cut.hpp"

#include <algorithm>
#include <concepts>
#include <map>
#include <string_view>
#include <type_traits>

#include "check/call_copy.hpp"
#include "dump/pages.hpp"
#include "problem/call_members.hpp"

namespace attnjit::check {
namespace {

constexpr std::int64_t kMaxOffset = std::int64_t{1} << 29;  // of diagonals, rows and keys

std::int64_t num_keys(const ForwardArgs& args) {
  return args.block_table != nullptr ? args.max_pages * args.k.shape[2] : args.k.shape[2];
}

// The kinds of a part's axes: elements of the batch, query heads, kv heads, rows, keys, pages, and
// others, which stay whole.
std::string_view axes_of(std::string_view part, const ForwardArgs& args) {
  static const std::map<std::string_view, std::string_view> kAxes = {
      {"q", "bhr."},         {"out", "bhr."},        {"dout", "bhr."},
      {"dq", "bhr."},        {"k", "bgk."},          {"v", "bgk."},
      {"dk", "bgk."},        {"dv", "bgk."},         {"mask", "bhrk"},
      {"bias", "bhrk"},      {"dbias", "bhrk"},      {"sink", ".h.."},
      {"dsink", ".h.."},     {"lse", "bh.r"},        {"row_max", "bh.r"},
      {"dlse", "bh.r"},      {"max_logits", ".h.."}, {"alibi_slopes", "bh.."},
      {"seqlens_q", "b..."}, {"seqlens_kv", "b..."}, {"block_table", "b..p"},
      {"tail_mask", "b..."}};
  if (dump::is_pool(args, part)) return ".g..";
  const auto found = kAxes.find(part);
  return found == kAxes.end() ? "...." : found->second;
}

bool same(const Range& a, const Range& b) { return a.begin == b.begin && a.end == b.end; }

// Cuts the axes of parts. One that a part has not, of size 1, stays.
class Cutter {
 public:
  Cutter(const ForwardArgs& args, const CallCut& cut)
      : args_(args),
        cut_(cut),
        all_(whole(args)),
        packed_(args.cu_seqlens_q != nullptr),
        group_(args.q.shape[1] / args.k.shape[1]) {}

  Tensor cut(std::string_view part, Tensor tensor) const {
    const std::string_view axes = axes_of(part, args_);
    // The rows and keys of a packed call's mask or bias are those of a sequence, or all keys.
    const bool of_sequence = packed_ && axes == "bhrk";
    const bool packs_keys = of_sequence && tensor.shape[0] == 1 && tensor.shape[2] == 1 &&
                            tensor.shape[3] == all_.keys.end;
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const bool along = axes[axis] == 'r' || (axes[axis] == 'k' && !packs_keys);
      const std::int64_t size = tensor.shape[axis];
      const Range range = of_sequence && along ? Range{0, std::min(size, cut_of(axes[axis]).size())}
                                               : range_of(axes[axis], size);
      if (size == 1) continue;
      tensor.shape[axis] = range.size();
      if (tensor.data == nullptr) continue;
      tensor.data = static_cast<std::byte*>(tensor.data) +
                    range.begin * tensor.strides[axis] * element_size(tensor.dtype);
    }
    return tensor;
  }

 private:
  const Range& cut_of(char kind) const { return kind == 'r' ? cut_.rows : cut_.keys; }

  Range range_of(char kind, std::int64_t size) const {
    const Range all{0, size};
    switch (kind) {
      case 'b':
        if (same(cut_.batch, all_.batch)) return all;
        // Elements that share planes have the first one.
        return size == all_.batch.end ? cut_.batch : Range{0, 1};
      case 'h':
        return size == args_.q.shape[1] ? query_heads() : cut_.heads_kv;
      case 'g':
        return cut_.heads_kv;
      case 'r':
      case 'k':
        return cut_of(kind);
      case 'p':
        return {0, (cut_.keys.end + args_.k.shape[2] - 1) / args_.k.shape[2]};
      default:
        return all;
    }
  }

  Range query_heads() const {
    const std::int64_t first = cut_.heads_kv.begin * group_;
    if (cut_.heads_kv.size() != 1) return {first, cut_.heads_kv.end * group_};
    return {first + cut_.group.begin, first + cut_.group.end};
  }

  const ForwardArgs& args_;
  const CallCut& cut_;
  const CallCut all_;
  const bool packed_;
  const std::int64_t group_;
};

void cut_lengths(const std::int32_t* lengths, std::int64_t elements, const Range& range) {
  if (lengths == nullptr) return;
  auto* const values = const_cast<std::int32_t*>(lengths);
  for (std::int64_t b = 0; b < elements; ++b) {
    values[b] = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(values[b] - range.begin, 0, range.size()));
  }
}

// Puts the diagonal and the offsets where they were, for the rows and keys that are left.
void move_origin(ForwardArgs& args, std::int64_t rows, std::int64_t keys, const CallCut& cut) {
  const std::int64_t corner = args.diagonal == Diagonal::kBottomRight ? keys - rows : 0;
  // Lengths, and packed sequences, have corners of their own.
  const bool fixed = args.seqlens_q == nullptr && args.seqlens_kv == nullptr;
  if (args.diagonal != Diagonal::kUnspecified && fixed) {
    args.diagonal = Diagonal::kTopLeft;
    args.diagonal_offset = std::clamp(
        args.diagonal_offset + corner + cut.rows.begin - cut.keys.begin, -kMaxOffset, kMaxOffset);
  }
  args.row_offset = std::clamp(args.row_offset + cut.rows.begin, -kMaxOffset, kMaxOffset);
  args.key_offset = std::clamp(args.key_offset + cut.keys.begin, -kMaxOffset, kMaxOffset);
}

// Whether the mask and bias of a packed call have the rows and keys of the sequence that is left:
// those past theirs are none.
bool holds_sequence(const std::optional<Tensor>& operand, const CallCut& cut) {
  if (!operand) return true;
  const auto holds = [](std::int64_t size, const Range& range) {
    return size == 1 || size == range.size();
  };
  return holds(operand->shape[2], cut.rows) && holds(operand->shape[3], cut.keys);
}

// Gives the tensors among the members of `args` their views.
template <class Args>
void set_tensors(Args& args, const Views& views) {
  base::for_each_field(args, [&](const char* name, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    if constexpr (std::same_as<Member, Tensor>) member = views.at(name);
    if constexpr (std::same_as<Member, std::optional<Tensor>>) {
      if (member) member = views.at(name);
    }
  });
}

}  // namespace

CallCut whole(const ForwardArgs& args) {
  return {.batch = {0, dump::num_elements(args)},
          .heads_kv = {0, args.k.shape[1]},
          .group = {0, args.q.shape[1] / args.k.shape[1]},
          .rows = {0, args.q.shape[2]},
          .keys = {0, num_keys(args)}};
}

std::optional<dump::HostCall> cut_call(const dump::HostCall& call, const CallCut& cut,
                                       unsigned jobs) {
  const ForwardArgs& before = call.call().forward_args();
  const CallCut all = whole(before);
  const bool packed = before.cu_seqlens_q != nullptr, paged = before.block_table != nullptr;
  if (before.prepared_mask || before.blocks || (packed && (paged || cut.batch.size() != 1)))
    return std::nullopt;
  if (before.tail_mask && !same(cut.rows, all.rows)) return std::nullopt;
  if (paged && cut.keys.begin != 0) return std::nullopt;
  if (cut.heads_kv.size() != 1 && !same(cut.group, all.group)) return std::nullopt;

  const Cutter cutter(before, cut);
  Views views;
  for (const dump::Part& part : call.call().parts()) {
    views[part.name] = cutter.cut(part.name, part.view);
  }
  dump::Call changed(call.call());
  ForwardArgs& forward = changed.members().forward;
  set_tensors(forward, views);
  if (changed.backward()) set_tensors(changed.members(), views);
  if (!same(cut.batch, all.batch)) forward.mask_order = forward.bias_order = {};
  if (paged) forward.max_pages = views.at("block_table").shape[3];
  if (packed) {
    if (!holds_sequence(forward.mask, cut) || !holds_sequence(forward.bias, cut)) {
      return std::nullopt;
    }
    forward.cu_seqlens_q = forward.cu_seqlens_kv = nullptr;
    forward.num_sequences = 0;
  }
  move_origin(forward, all.rows.size(), all.keys.size(), cut);
  dump::HostCall result = copy_call(changed, views);
  const ForwardArgs& after = result.call().forward_args();
  cut_lengths(after.seqlens_q, after.q.shape[0], cut.rows);
  cut_lengths(after.seqlens_kv, after.q.shape[0], cut.keys);
  write_forward(result, jobs);
  return result;
}

}  // namespace attnjit::check
