#include "check/call_features.hpp"

#include <concepts>
#include <type_traits>
#include <vector>

#include "check/call_copy.hpp"
#include "check/call_verdict.hpp"
#include "problem/call_members.hpp"

namespace attnjit::check {
namespace {

using dump::Call;

// Resets members; whether one of them was there.
template <class... Members>
bool reset(Members&... members) {
  const bool there = (static_cast<bool>(members) || ...);
  ((members = {}), ...);
  return there;
}

ForwardArgs& forward_of(Call& call) { return call.members().forward; }

bool drop_operand_gradients(Call& call) {
  const bool there = !call.members().operand_gradients.empty();
  call.set_gradients({});
  return there;
}

bool drop_expressions(Call& call) {
  call.set_gradients({});
  call.set_operands({});
  return reset(forward_of(call).score, forward_of(call).keep);
}

bool drop_bias(Call& call) {
  forward_of(call).bias_order = {};
  call.members().dbias.reset();
  return reset(forward_of(call).bias);
}

bool drop_mask(Call& call) {
  forward_of(call).mask_order = {};
  return reset(forward_of(call).mask, forward_of(call).prepared_mask);
}

bool drop_sink(Call& call) {
  call.members().dsink.reset();
  return reset(forward_of(call).sink);
}

bool drop_band(Call& call) {
  ForwardArgs& args = forward_of(call);
  const bool there = args.causal || args.window.left >= 0 || args.window.right >= 0;
  args.causal = false;
  args.window = {};
  return there;
}

// Pages have lengths.
bool drop_lengths(Call& call) {
  ForwardArgs& args = forward_of(call);
  return args.block_table != nullptr ? reset(args.seqlens_q)
                                     : reset(args.seqlens_q, args.seqlens_kv);
}

// The scale among them, which then is the default.
bool drop_scalars(Call& call) {
  bool there = false;
  base::for_each_field(static_cast<ScoreOptions&>(forward_of(call)), [&](const char*,
                                                                         auto& member) {
    if constexpr (std::same_as<std::remove_reference_t<decltype(member)>, std::optional<float>>) {
      there = reset(member) || there;
    }
  });
  return there;
}

constexpr CallFeature kFeatures[] = {
    {"gradients of operands", drop_operand_gradients},
    {"dbias", [](Call& call) { return reset(call.members().dbias); }},
    {"dsink", [](Call& call) { return reset(call.members().dsink); }},
    {"dlse", [](Call& call) { return reset(call.members().dlse); }},
    {"expressions", drop_expressions},
    {"bias", drop_bias},
    {"mask", drop_mask},
    {"sink", drop_sink},
    {"slopes", [](Call& call) { return reset(forward_of(call).alibi_slopes); }},
    {"band", drop_band},
    {"scalars", drop_scalars},
    {"lists of blocks", [](Call& call) { return reset(forward_of(call).blocks); }},
    {"tail mask", [](Call& call) { return reset(forward_of(call).tail_mask); }},
    {"lengths", drop_lengths},
    {"lse", [](Call& call) { return !call.backward() && reset(forward_of(call).lse); }},
    {"maxima",
     [](Call& call) { return reset(forward_of(call).row_max, forward_of(call).max_logits); }},
    {"offsets",
     [](Call& call) { return reset(forward_of(call).row_offset, forward_of(call).key_offset); }}};

}  // namespace

std::span<const CallFeature> call_features() { return kFeatures; }

std::optional<dump::HostCall> drop_feature(const dump::HostCall& call, const CallFeature& feature,
                                           unsigned jobs) {
  Call changed(call.call());
  if (!feature.drop(changed)) return std::nullopt;
  std::optional<dump::HostCall> result = copy_call(changed, views_of(call.call()));
  write_forward(*result, jobs);
  return result;
}

std::optional<dump::HostCall> with_plain_mask(const dump::HostCall& call, unsigned jobs) {
  if (!call.call().forward_args().prepared_mask) return std::nullopt;
  std::vector<std::uint8_t> memory;
  Call changed(call.call());
  forward_of(changed).mask = with_dense_mask(call.call().forward_args(), memory).mask;
  forward_of(changed).prepared_mask.reset();
  std::optional<dump::HostCall> result = copy_call(changed, views_of(changed));
  write_forward(*result, jobs);
  return result;
}

}  // namespace attnjit::check
