#include "explain/changes.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <type_traits>

namespace attnjit::explain {
namespace {

using explain::forward_of;  // beside those of arguments
using problem::Extent;

constexpr std::int64_t kVectorBytes = 16;

// An address that is aligned as memory of allocators is, for code that looks at addresses alone.
void* aligned_address() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

ForwardArgs& forward_of(ForwardArgs& args) { return args; }
ForwardArgs& forward_of(BackwardArgs& args) { return args.forward; }

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// Lays `tensor` out in its own order of axes, with rows that begin at multiples of 16 bytes. Axes
// that are broadcast stay so.
void align_rows(Tensor& tensor) {
  const std::int64_t row = round_up(tensor.shape[3], kVectorBytes / element_size(tensor.dtype));
  std::int64_t stride = row;
  tensor.data = aligned_address();
  tensor.strides[3] = 1;
  for (const int axis : {2, 1, 0}) {
    auto& place = tensor.strides[static_cast<std::size_t>(axis)];
    if (place == 0 && tensor.shape[static_cast<std::size_t>(axis)] != 1) continue;
    place = stride;
    stride *= tensor.shape[static_cast<std::size_t>(axis)];
  }
}

// Elements of a mask or bias in memory, its broadcast axes counted once.
std::int64_t elements(const Tensor& tensor) {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.strides[axis] != 0) count *= tensor.shape[axis];
  }
  return count;
}

std::string megabytes(double bytes) { return fmt::format("{:.4g} MB", bytes / 1e6); }

// The list of changes of one call.
template <class Args>
class Changes {
 public:
  explicit Changes(const Args& args) : args_(args) {}

  template <class Edit>
  void add(std::string what, Edit edit, double once_bytes = 0) {
    Change<Args> change{std::move(what), args_, once_bytes};
    edit(change.args);
    list_.push_back(std::move(change));
  }
  std::vector<Change<Args>> take() { return std::move(list_); }

 private:
  const Args& args_;
  std::vector<Change<Args>> list_;
};

void drop_dbias(ForwardArgs&) {}
void drop_dbias(BackwardArgs& args) { args.dbias.reset(); }
bool has_dbias(const ForwardArgs&) { return false; }
bool has_dbias(const BackwardArgs& args) { return args.dbias.has_value(); }
void drop_dsink(ForwardArgs&) {}
void drop_dsink(BackwardArgs& args) { args.dsink.reset(); }

template <class Args>
std::vector<Change<Args>> without_features_of(const Args& args) {
  Changes<Args> changes(args);
  Args copy = args;
  const ForwardArgs& f = forward_of(copy);
  if (f.mask || f.prepared_mask) {
    changes.add("mask", [](Args& a) {
      forward_of(a).mask.reset();
      forward_of(a).prepared_mask.reset();
      forward_of(a).mask_order = {};
    });
  }
  if (f.bias) {
    changes.add(has_dbias(args) ? "bias with its gradient" : "bias", [](Args& a) {
      forward_of(a).bias.reset();
      forward_of(a).bias_order = {};
      drop_dbias(a);
    });
  }
  if (f.causal || f.window.left >= 0 || f.window.right >= 0) {
    const bool window = f.window.left >= 0 || f.window.right >= 0;
    const char* const what = !f.causal ? "window" : window ? "causal window" : "causal mask";
    changes.add(what, [](Args& a) {
      forward_of(a).causal = false;
      forward_of(a).window = {};
    });
  }
  if (f.softcap.value_or(0) != 0) {
    changes.add("softcap", [](Args& a) { forward_of(a).softcap.reset(); });
  }
  if (f.alibi_slopes) {
    changes.add("slopes of ALiBi", [](Args& a) { forward_of(a).alibi_slopes.reset(); });
  }
  if (f.sink) {
    changes.add("sinks", [](Args& a) {
      forward_of(a).sink.reset();
      drop_dsink(a);
    });
  }
  if (f.blocks) changes.add("lists of blocks", [](Args& a) { forward_of(a).blocks.reset(); });
  if constexpr (std::is_same_v<Args, BackwardArgs>) {
    if (args.dbias) changes.add("gradient of the bias alone", [](Args& a) { drop_dbias(a); });
    if (args.deterministic) {
      changes.add("deterministic gradients", [](Args& a) { a.deterministic = false; });
    }
  }
  return changes.take();
}

// Widens rows of q, k, v, results and gradients to whole vectors, and leaves the scale as it was.
void pad_head_dims(ForwardArgs& args, float scale) {
  args.scale = scale;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.out}) t->shape[3] = round_up(t->shape[3], 8);
}
void pad_head_dims(BackwardArgs& args, float scale) {
  pad_head_dims(args.forward, scale);
  for (Tensor* t : {&args.dout, &args.dq, &args.dk, &args.dv}) {
    t->shape[3] = round_up(t->shape[3], 8);
  }
}

void align_results(ForwardArgs& args) { align_rows(args.out); }
void align_results(BackwardArgs& args) {
  for (Tensor* t : {&args.forward.out, &args.dout, &args.dq, &args.dk, &args.dv}) align_rows(*t);
}

bool is_aligned(const problem::Problem& problem) { return problem.aligned; }
bool is_aligned(const problem::BackwardProblem& problem) { return problem.aligned; }

// Adds layouts of a mask or bias that kernels read faster.
template <class Args>
void add_layout(Changes<Args>& changes, const char* name,
                std::optional<Tensor> ForwardArgs::*member, const problem::Operand& canonical,
                const Tensor& tensor, std::int64_t batch) {
  if (canonical.extent == Extent::kPerPair && !canonical.vectorized) {
    const std::int64_t row = round_up(tensor.shape[3], kVectorBytes / element_size(tensor.dtype));
    changes.add(fmt::format("pass the {} with rows of 16 bytes: pad its last axis to {} elements "
                            "and slice it, at an address that is a multiple of 16",
                            name, row),
                [=](Args& a) { align_rows(*(forward_of(a).*member)); });
  }
  if (canonical.num_batches == batch && batch > 1) {
    const double bytes = static_cast<double>(elements(tensor) * element_size(tensor.dtype));
    changes.add(
        fmt::format("if all batch elements have the same {}, pass size 1 on its batch axis: "
                    "{} instead of {}",
                    name, megabytes(bytes / static_cast<double>(batch)), megabytes(bytes)),
        [=](Args& a) {
          (forward_of(a).*member)->shape[0] = 1;
          if (member == &ForwardArgs::mask) forward_of(a).mask_order = {};
          if (member == &ForwardArgs::bias) {
            forward_of(a).bias_order = {};
            if constexpr (std::is_same_v<Args, BackwardArgs>) {
              if (a.dbias) a.dbias->shape[0] = 1;
            }
          }
        });
  }
}

template <class Args>
void prepare(Args& args, const problem::Operand& mask, bool backward) {
  ForwardArgs& f = forward_of(args);
  f.prepared_mask = PreparedMask{
      aligned_address(), {mask.num_batches, mask.num_heads, mask.queries, mask.keys}, backward};
  f.mask.reset();
}

template <class Args, class Problem>
std::vector<Change<Args>> actions_of(const Args& args, const Problem& any) {
  Changes<Args> changes(args);
  const problem::Problem& p = forward_of(any);
  Args copy = args;
  const ForwardArgs& f = forward_of(copy);
  const auto align = [](Args& a) {
    ForwardArgs& forward = forward_of(a);
    for (Tensor* t : {&forward.q, &forward.k, &forward.v}) align_rows(*t);
    align_results(a);
  };
  if (p.head_dim % 8 != 0 || p.head_dim_v % 8 != 0) {
    changes.add(fmt::format("pad the columns of q and k to {} and of v to {} with zeros, with "
                            "scale={:.6g}",
                            round_up(p.head_dim, 8), round_up(p.head_dim_v, 8), p.scale),
                [&](Args& a) {
                  pad_head_dims(a, p.scale);
                  align(a);
                });
  } else if (!is_aligned(any)) {
    changes.add(
        "pass q, k, v and results at addresses and with strides that are multiples of 16 bytes",
        align);
  }
  if (f.mask) add_layout(changes, "mask", &ForwardArgs::mask, p.mask, *f.mask, p.batch);
  if (f.bias) add_layout(changes, "bias", &ForwardArgs::bias, p.bias, *f.bias, p.batch);
  constexpr bool kBackward = std::is_same_v<Args, BackwardArgs>;
  if (f.mask && p.mask.extent == Extent::kPerPair && p.mask.keys > 1) {
    const double once = static_cast<double>(elements(*f.mask)) * (1 + (kBackward ? 2 : 1) / 8.0);
    changes.add(
        "prepare the mask once for all calls that share it (prepare_mask)",
        [&p](Args& a) { prepare(a, p.mask, kBackward); }, once);
  }
  if (f.mask && p.mask.extent == Extent::kPerKey && !p.packed && !f.seqlens_kv) {
    changes.add("if the mask only cuts sequences short, pass their lengths as seqlens_kv instead",
                [](Args& a) {
                  forward_of(a).mask.reset();
                  forward_of(a).mask_order = {};
                  forward_of(a).seqlens_kv = static_cast<const std::int32_t*>(aligned_address());
                });
  }
  if (f.bias && p.bias.extent == Extent::kPerPair && p.bias.dtype == DType::kFloat32) {
    changes.add(fmt::format("pass the bias in {} instead of fp32", problem::name(p.dtype)),
                [dtype = p.dtype](Args& a) {
                  forward_of(a).bias->dtype = dtype;
                  align_rows(*forward_of(a).bias);
                  if constexpr (kBackward) {
                    if (a.dbias) a.dbias->dtype = dtype;
                  }
                });
  }
  if constexpr (kBackward) {
    if (args.deterministic) {
      changes.add("ask for gradients that are not deterministic",
                  [](Args& a) { a.deterministic = false; });
    }
  }
  return changes.take();
}

}  // namespace

std::vector<Change<ForwardArgs>> without_features(const ForwardArgs& args) {
  return without_features_of(args);
}
std::vector<Change<BackwardArgs>> without_features(const BackwardArgs& args) {
  return without_features_of(args);
}
std::vector<Change<ForwardArgs>> actions(const ForwardArgs& args, const problem::Problem& problem) {
  return actions_of(args, problem);
}
std::vector<Change<BackwardArgs>> actions(const BackwardArgs& args,
                                          const problem::BackwardProblem& problem) {
  return actions_of(args, problem);
}

}  // namespace attnjit::explain
