#include "runtime/call/call_table.hpp"

#include <algorithm>
#include <new>
#include <span>

#include "problem/call_shape.hpp"

namespace attnjit::runtime {

namespace {

ForwardArgs& forward_of(ForwardArgs& args) { return args; }
ForwardArgs& forward_of(BackwardArgs& args) { return args.forward; }

}  // namespace

template <class Pass>
std::uint64_t CallTable<Pass>::tag_of(unsigned long long context_id,
                                      const typename Pass::Args& args) {
  return (problem::shape_hash(args) ^ context_id) | (std::uint64_t{1} << 63);
}

template <class Pass>
auto CallTable<Pass>::at(std::size_t place) const -> const Call& {
  return *std::launder(reinterpret_cast<const Call*>(places_[place].bytes));
}

template <class Pass>
auto CallTable<Pass>::find(unsigned long long context_id, const typename Pass::Args& args) const
    -> const Call* {
  const std::uint64_t tag = tag_of(context_id, args);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const std::size_t place = place_of(tag, turn);
    const std::uint64_t found = tags_[place].load(std::memory_order_acquire);
    if (found == kFree) return nullptr;
    if (found != tag) continue;
    const Call& call = at(place);
    if (call.context_id == context_id && problem::same_shape(call.args, args)) return &call;
  }
  return nullptr;
}

template <class Pass>
bool CallTable<Pass>::has_place(unsigned long long context_id,
                                const typename Pass::Args& args) const {
  const std::uint64_t tag = tag_of(context_id, args);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    if (tags_[place_of(tag, turn)].load(std::memory_order_relaxed) == kFree) return true;
  }
  return false;
}

template <class Pass>
void CallTable<Pass>::keep(const Call& call) {
  const std::uint64_t tag = tag_of(call.context_id, call.args);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const std::size_t place = place_of(tag, turn);
    std::uint64_t found = kFree;
    if (tags_[place].compare_exchange_strong(found, kTaken, std::memory_order_acquire)) {
      Call& kept = *::new (places_[place].bytes) Call(call);
      std::span<const Operand>& operands = forward_of(kept.args).operands;
      const auto end = std::ranges::copy(operands, kept.operands.begin()).out;
      operands = {kept.operands.begin(), end};
      if constexpr (Pass::kGradients) {
        std::span<const Tensor>& gradients = kept.args.operand_gradients;
        const auto last = std::ranges::copy(gradients, kept.operand_gradients.begin()).out;
        gradients = {kept.operand_gradients.begin(), last};
      }
      for (Operand& operand : std::span(kept.operands.begin(), end)) {
        operand.name = expr::kept_name(operand.name);
      }
      tags_[place].store(tag, std::memory_order_release);  // readers see it complete
      return;
    }
    // Another thread may have been faster.
    if (found == tag && find(call.context_id, call.args) != nullptr) return;
  }
}

template class CallTable<launch::ForwardPass>;
template class CallTable<launch::BackwardPass>;

}  // namespace attnjit::runtime
