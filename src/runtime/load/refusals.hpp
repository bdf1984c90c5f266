#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cache/key.hpp"

namespace attnjit::runtime {

/// The kernels that the driver does not take even when they are compiled anew, and what was said
/// of them. Thread-safe.
class Refusals {
 public:
  std::optional<std::string> find(const cache::KernelKey& key) const {
    const std::scoped_lock lock(mutex_);
    const auto found = messages_.find(key);
    return found == messages_.end() ? std::nullopt : std::optional(found->second);
  }

  void add(const cache::KernelKey& key, const std::string& message) {
    const std::scoped_lock lock(mutex_);
    messages_.try_emplace(key, message);
  }

 private:
  mutable std::mutex mutex_;
  std::map<cache::KernelKey, std::string> messages_;
};

}  // namespace attnjit::runtime
