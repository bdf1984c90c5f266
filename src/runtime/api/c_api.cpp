// The C API over the C++ one: conversions, and exceptions turned into statuses.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attnjit.h"
#include "attnjit/attnjit.hpp"
#include "expr/expr.hpp"
#include "runtime/api/c_status.hpp"
#include "runtime/api/c_structs.hpp"

struct attnjit_context {
  explicit attnjit_context(const attnjit::ContextOptions& options) : context(options) {}
  attnjit::Context context;
};

namespace attnjit::runtime {
namespace {

// Sizes of the first version of each struct, up to the end of its last member then.
constexpr std::size_t kForwardArgsV1 = offsetof(attnjit_forward_args, window_right) + 8;
constexpr std::size_t kBackwardArgsV1 = offsetof(attnjit_backward_args, dbias) + 8;
constexpr std::size_t kMergeLseArgsV1 = offsetof(attnjit_merge_lse_args, lse) + 8;
constexpr std::size_t kPrepareMaskArgsV1 = offsetof(attnjit_prepare_mask_args, memory) + 8;
constexpr std::size_t kContextOptionsV1 = offsetof(attnjit_context_options, log_data) + 8;
constexpr std::size_t kOperandV1 = offsetof(attnjit_operand, tensor) + sizeof(attnjit_tensor);
constexpr std::size_t kBlockListsV1 = offsetof(attnjit_block_lists, num_kv_blocks) + 8;
constexpr std::size_t kCountersV1 = offsetof(attnjit_counters, record_hits) + 8;

// The two texts that outlive a call; they belong to the thread that made them.
thread_local std::string last_error, last_explanation;

attnjit_status fail(attnjit_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

template <class Call>
attnjit_status guarded(Call call) noexcept {
  try {
    call();
    return ATTNJIT_OK;
  } catch (const Error& error) {
    return fail(status(error.kind()), error.what());
  } catch (const InvalidArgument& error) {
    return fail(ATTNJIT_INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail(ATTNJIT_INTERNAL, error.what());
  } catch (...) {
    return fail(ATTNJIT_INTERNAL, "an exception of an unknown type");
  }
}

Tensor tensor(const attnjit_tensor& t) {
  return {t.data,
          static_cast<DType>(t.dtype),
          {t.shape[0], t.shape[1], t.shape[2], t.shape[3]},
          {t.strides[0], t.strides[1], t.strides[2], t.strides[3]}};
}

std::optional<Tensor> tensor(const attnjit_tensor* t) {
  return t == nullptr ? std::nullopt : std::optional(tensor(*t));
}

PreparedMask prepared_mask(const attnjit_prepared_mask& m) {
  return {m.data, {m.shape[0], m.shape[1], m.shape[2], m.shape[3]}, m.for_backward != 0};
}

BlockLists block_lists(const attnjit_block_lists* pointer) {
  const auto c = read_struct("blocks", pointer, kBlockListsV1);
  return {.block_q = c.block_q,
          .block_kv = c.block_kv,
          .indices = tensor(c.indices),
          .counts = tensor(c.counts),
          .full_indices = tensor(c.full_indices),
          .full_counts = tensor(c.full_counts),
          .num_kv_blocks = c.num_kv_blocks};
}

// The operands of a call, which its arguments point to.
class Operands {
 public:
  std::span<const Operand> read(const attnjit_forward_args& c) {
    if (c.num_operands < 0 || c.num_operands > expr::kMaxOperands) {
      throw InvalidArgument(
          fmt::format("num_operands: {}; expected 0 to {}", c.num_operands, expr::kMaxOperands));
    }
    if (c.num_operands == 0) return {};
    const auto* next = reinterpret_cast<const std::byte*>(&not_null("operands", c.operands));
    for (std::int64_t n = 0; n < c.num_operands; ++n) {
      const auto* const pointer = reinterpret_cast<const attnjit_operand*>(next);
      const auto operand = read_struct("operands", pointer, kOperandV1);
      list_.push_back({operand.name, operand.rank, tensor(operand.tensor)});
      next += pointer->struct_size;  // those of another version of the library differ in size
    }
    return list_;
  }
  std::span<const Tensor> read_gradients(const attnjit_tensor* first) {
    if (first == nullptr) return {};
    for (std::size_t n = 0; n < list_.size(); ++n) gradients_.push_back(tensor(first[n]));
    return gradients_;
  }

 private:
  std::vector<Operand> list_;
  std::vector<Tensor> gradients_;
};

ForwardArgs forward_args(const attnjit_forward_args* pointer, Operands& operands,
                         const char* what = "args") {
  const auto c = read_struct(what, pointer, kForwardArgsV1);
  ForwardArgs args;
  args.q = tensor(c.q);
  args.k = tensor(c.k);
  args.v = tensor(c.v);
  args.out = tensor(c.out);
  args.mask = tensor(c.mask);
  args.bias = tensor(c.bias);
  args.sink = tensor(c.sink);
  args.alibi_slopes = tensor(c.alibi_slopes);
  if (c.prepared_mask != nullptr) args.prepared_mask = prepared_mask(*c.prepared_mask);
  args.mask_order = {c.mask_inner, c.mask_cycle};
  args.bias_order = {c.bias_inner, c.bias_cycle};
  args.lse = c.lse;
  args.row_max = c.row_max;
  args.max_logits = c.max_logits;
  args.seqlens_q = c.seqlens_q;
  args.seqlens_kv = c.seqlens_kv;
  args.cu_seqlens_q = c.cu_seqlens_q;
  args.cu_seqlens_kv = c.cu_seqlens_kv;
  args.num_sequences = c.num_sequences;
  args.block_table = c.block_table;
  args.block_table_stride = c.block_table_stride;
  args.max_pages = c.max_pages;
  args.tail_mask = tensor(c.tail_mask);
  if (c.has_scale != 0) args.scale = c.scale;
  args.softcap = c.softcap;
  args.causal = c.causal != 0;
  args.diagonal = static_cast<Diagonal>(c.diagonal);
  args.diagonal_offset = c.diagonal_offset;
  args.row_offset = c.row_offset;
  args.key_offset = c.key_offset;
  if (c.has_window != 0) args.window = {c.window_left, c.window_right};
  args.score = Expression::from_handle(c.score);
  args.keep = Expression::from_handle(c.keep);
  args.operands = operands.read(c);
  if (c.blocks != nullptr) args.blocks = block_lists(c.blocks);
  args.key_indices = tensor(c.key_indices);
  return args;
}

BackwardArgs backward_args(const attnjit_backward_args* pointer, Operands& operands) {
  const auto c = read_struct("args", pointer, kBackwardArgsV1);
  BackwardArgs args;
  args.forward = forward_args(c.forward, operands, "forward");
  args.dout = tensor(c.dout);
  args.dlse = c.dlse;
  args.dq = tensor(c.dq);
  args.dk = tensor(c.dk);
  args.dv = tensor(c.dv);
  args.dbias = tensor(c.dbias);
  args.dsink = tensor(c.dsink);
  args.operand_gradients = operands.read_gradients(c.operand_gradients);
  args.deterministic = c.deterministic != 0;
  return args;
}

MergeLseArgs merge_lse_args(const attnjit_merge_lse_args* pointer) {
  const auto c = read_struct("args", pointer, kMergeLseArgsV1);
  return {.parts = tensor(c.parts),
          .part_stride = c.part_stride,
          .num_parts = c.num_parts,
          .part_lses = c.part_lses,
          .carry = tensor(c.carry),
          .carry_lse = c.carry_lse,
          .out = tensor(c.out),
          .lse = c.lse};
}

PrepareMaskArgs prepare_mask_args(const attnjit_prepare_mask_args* pointer) {
  const auto c = read_struct("args", pointer, kPrepareMaskArgsV1);
  return {.mask = tensor(c.mask), .for_backward = c.for_backward != 0, .memory = c.memory};
}

std::optional<std::string> text(const char* c) {
  return c == nullptr ? std::nullopt : std::optional<std::string>(c);
}

ContextOptions context_options(const attnjit_context_options* pointer) {
  if (pointer == nullptr) return {};
  const auto c = read_struct("options", pointer, kContextOptionsV1);
  ContextOptions options{text(c.cache_directory), text(c.nvrtc_path), {}};
  if (c.log != nullptr) {
    options.log = [log = c.log, data = c.log_data](std::string_view message) {
      log(data, std::string(message).c_str());
    };
  }
  return options;
}

Context& context_of(attnjit_context* context) { return not_null("context", context).context; }

}  // namespace
}  // namespace attnjit::runtime

using namespace attnjit::runtime;

const char* attnjit_version() { return ATTNJIT_VERSION; }

const char* attnjit_status_name(int status) {
  static constexpr const char* kNames[] = {
      "ok",          "invalid argument", "invalid problem", "invalid environment",
      "unsupported", "no compiler",      "compile failed",  "no device",
      "CUDA failed", "cache failed",     "internal error"};
  static_assert(std::size(kNames) == ATTNJIT_INTERNAL + 1);
  const bool known = status >= 0 && status < static_cast<int>(std::size(kNames));
  return known ? kNames[status] : "unknown status";
}

const char* attnjit_last_error() { return last_error.c_str(); }

attnjit_status attnjit_context_create(const attnjit_context_options* options,
                                      attnjit_context** context) {
  return guarded([&] {
    attnjit_context*& result = not_null("context", context);
    result = nullptr;
    result = new attnjit_context(context_options(options));
  });
}

void attnjit_context_destroy(attnjit_context* context) { delete context; }

attnjit_status attnjit_context_counters(const attnjit_context* context,
                                        attnjit_counters* counters) {
  return guarded([&] {
    const attnjit::Counters now = not_null("context", context).context.counters();
    const std::size_t size = struct_size("counters", not_null("counters", counters), kCountersV1);
    const attnjit_counters result{size,
                                  now.plans,
                                  now.compiles,
                                  now.disk_hits,
                                  now.corrupt,
                                  now.write_failures,
                                  now.tunes,
                                  now.timing_launches,
                                  now.record_hits,
                                  now.memory_hits,
                                  now.bundle_hits,
                                  now.lock_timeouts};
    // Members that the caller has no room for are left out; those that only it knows are zero.
    std::memset(counters, 0, size);
    std::memcpy(counters, &result, std::min(size, sizeof result));
  });
}

attnjit_status attnjit_expression_create(const attnjit_context* context, const char* text,
                                         const attnjit_expression** expression) {
  return guarded([&] {
    const attnjit_expression*& result = not_null("expression", expression);
    result = nullptr;
    const attnjit::Context& maker = not_null("context", context).context;
    const attnjit::Expression made = maker.expression(&not_null("text", text));
    result = static_cast<const attnjit_expression*>(made.handle());
  });
}

attnjit_status attnjit_forward(attnjit_context* context, const attnjit_forward_args* args,
                               CUstream_st* stream, void* workspace, std::size_t workspace_bytes) {
  return guarded([&] {
    Operands operands;
    context_of(context).forward(forward_args(args, operands), stream, {workspace, workspace_bytes});
  });
}

attnjit_status attnjit_prepare_forward(attnjit_context* context, const attnjit_forward_args* args) {
  return guarded([&] {
    Operands operands;
    context_of(context).prepare_forward(forward_args(args, operands));
  });
}

attnjit_status attnjit_forward_workspace_size(attnjit_context* context,
                                              const attnjit_forward_args* args,
                                              std::size_t* bytes) {
  return guarded([&] {
    std::size_t& result = not_null("bytes", bytes);
    Operands operands;
    result = context_of(context).forward_workspace_size(forward_args(args, operands));
  });
}

attnjit_status attnjit_backward(attnjit_context* context, const attnjit_backward_args* args,
                                CUstream_st* stream, void* workspace, std::size_t workspace_bytes) {
  return guarded([&] {
    Operands operands;
    context_of(context).backward(backward_args(args, operands), stream,
                                 {workspace, workspace_bytes});
  });
}

attnjit_status attnjit_prepare_backward(attnjit_context* context,
                                        const attnjit_backward_args* args) {
  return guarded([&] {
    Operands operands;
    context_of(context).prepare_backward(backward_args(args, operands));
  });
}

attnjit_status attnjit_backward_workspace_size(attnjit_context* context,
                                               const attnjit_backward_args* args,
                                               std::size_t* bytes) {
  return guarded([&] {
    std::size_t& result = not_null("bytes", bytes);
    Operands operands;
    result = context_of(context).backward_workspace_size(backward_args(args, operands));
  });
}

attnjit_status attnjit_merge_lse(attnjit_context* context, const attnjit_merge_lse_args* args,
                                 CUstream_st* stream) {
  return guarded([&] { context_of(context).merge_lse(merge_lse_args(args), stream); });
}

attnjit_status attnjit_prepared_mask_size(attnjit_context* context,
                                          const attnjit_prepare_mask_args* args,
                                          std::size_t* bytes) {
  return guarded([&] {
    std::size_t& result = not_null("bytes", bytes);
    result = context_of(context).prepared_mask_size(prepare_mask_args(args));
  });
}

attnjit_status attnjit_prepare_mask(attnjit_context* context, const attnjit_prepare_mask_args* args,
                                    CUstream_st* stream, attnjit_prepared_mask* prepared_mask) {
  return guarded([&] {
    attnjit_prepared_mask& result = not_null("prepared_mask", prepared_mask);
    const attnjit::PreparedMask made =
        context_of(context).prepare_mask(prepare_mask_args(args), stream);
    result = {made.data, {}, made.for_backward ? 1 : 0};
    std::copy(made.shape.begin(), made.shape.end(), result.shape);
  });
}

attnjit_status attnjit_explain_forward(attnjit_context* context, const attnjit_forward_args* args,
                                       const char** json) {
  return guarded([&] {
    const char*& result = not_null("json", json);
    Operands operands;
    last_explanation = context_of(context).explain(forward_args(args, operands));
    result = last_explanation.c_str();
  });
}

attnjit_status attnjit_explain_backward(attnjit_context* context, const attnjit_backward_args* args,
                                        const char** json) {
  return guarded([&] {
    const char*& result = not_null("json", json);
    Operands operands;
    last_explanation = context_of(context).explain(backward_args(args, operands));
    result = last_explanation.c_str();
  });
}
