#include "runtime/call/plan_table.hpp"

#include "problem/plan_key.hpp"

namespace attnjit::runtime {

template <class Pass>
auto BasicPlanTable<Pass>::find(const Key& key) const -> const Plan* {
  const Entry* const entry = find_entry(key);
  return entry == nullptr ? nullptr : entry->plan.load(std::memory_order_acquire);
}

template <class Pass>
auto BasicPlanTable<Pass>::find_or_make(const Key& key, const Make& make) -> const Plan& {
  Entry& entry = find_or_add(key);
  const std::lock_guard lock(entry.making);
  if (entry.owner == nullptr) {
    entry.owner = make();
    entry.plan.store(entry.owner.get(), std::memory_order_release);
  }
  return *entry.owner;
}

template <class Pass>
auto BasicPlanTable<Pass>::find_or_make_provisional(const Key& key, const Make& make)
    -> const Plan& {
  Entry& entry = find_or_add(key);
  const std::lock_guard lock(entry.making);
  if (entry.owner != nullptr) return *entry.owner;
  if (entry.provisional == nullptr) entry.provisional = make();
  return *entry.provisional;
}

template <class Pass>
std::size_t BasicPlanTable<Pass>::chain(const Key& key) {
  return (problem::hash(key.plan) ^ key.context_id) % kChains;
}

template <class Pass>
auto BasicPlanTable<Pass>::find_entry(const Key& key) const -> Entry* {
  Entry* entry = heads_[chain(key)].load(std::memory_order_acquire);
  while (entry != nullptr && !(entry->key == key)) entry = entry->next;
  return entry;
}

template <class Pass>
auto BasicPlanTable<Pass>::find_or_add(const Key& key) -> Entry& {
  const std::lock_guard lock(adding_);
  if (Entry* const entry = find_entry(key)) return *entry;
  std::atomic<Entry*>& head = heads_[chain(key)];
  Entry& added = entries_.emplace_back(key, head.load(std::memory_order_relaxed));
  head.store(&added, std::memory_order_release);  // readers see it complete
  return added;
}

template class BasicPlanTable<launch::ForwardPass>;
template class BasicPlanTable<launch::BackwardPass>;
template class BasicPlanTable<launch::MergePass>;
template class BasicPlanTable<launch::MaskPass>;

}  // namespace attnjit::runtime
