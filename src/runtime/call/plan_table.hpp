#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "launch/plan.hpp"

namespace attnjit::runtime {

/// The plans of a process for one pass. A look-up takes no lock and does not allocate: an entry is
/// added at the head of a chain, and stays where it is for as long as the table lives. Thread-safe.
/// A child of fork() may look up and not make: threads that it does not have may hold the locks.
template <class Pass>
class BasicPlanTable {
 public:
  using Plan = launch::Plan<Pass>;
  struct Key {
    unsigned long long context_id = 0;  ///< kernels belong to the CUDA context they are loaded into
    typename Pass::Key plan;

    bool operator==(const Key&) const = default;
  };
  using Make = std::function<std::unique_ptr<Plan>()>;

  /// The plan of `key`, or null; a provisional one is not shown. It lives as long as the table.
  const Plan* find(const Key& key) const;

  /// The plan of `key`, made if there is none. One thread makes it, and others that ask for the
  /// same plan wait. What `make` throws reaches its caller, and the next call tries again.
  const Plan& find_or_make(const Key& key, const Make& make);

  /// The plan of `key`, or else one that stands in until find_or_make() makes it: what was captured
  /// with that goes on, for it lives as long as the table too. Otherwise as find_or_make().
  const Plan& find_or_make_provisional(const Key& key, const Make& make);

 private:
  struct Entry {
    Entry(const Key& its_key, Entry* next_entry) : key(its_key), next(next_entry) {}

    const Key key;
    Entry* const next;
    std::mutex making;
    std::unique_ptr<Plan> provisional;        // guarded by `making`
    std::unique_ptr<Plan> owner;              // guarded by `making`
    std::atomic<const Plan*> plan = nullptr;  // set once, to what `owner` holds
  };

  static std::size_t chain(const Key& key);
  Entry* find_entry(const Key& key) const;
  Entry& find_or_add(const Key& key);

  // A power of two, and more than a process has plans, for each is a compiled kernel.
  static constexpr std::size_t kChains = 1024;
  std::array<std::atomic<Entry*>, kChains> heads_{};
  std::mutex adding_;
  std::deque<Entry> entries_;  // guarded by `adding_`
};

using PlanTable = BasicPlanTable<launch::ForwardPass>;
using BackwardPlanTable = BasicPlanTable<launch::BackwardPass>;
using MergePlanTable = BasicPlanTable<launch::MergePass>;
using MaskPlanTable = BasicPlanTable<launch::MaskPass>;

}  // namespace attnjit::runtime
