#pragma once
#include <cstdint>
#include <vector>

#include "attnjit/forward.hpp"

namespace attnjit::reference {

/// The number of times that each key of a call is selected.
class KeyCounts {
 public:
  /// Of args.key_indices in host memory. Those of batch element b are those of first_batch + b.
  explicit KeyCounts(const ForwardArgs& args, std::int64_t first_batch = 0);

  std::int64_t at(std::int64_t batch, std::int64_t head_kv, std::int64_t key) const;

 private:
  std::int64_t batches_, heads_, num_keys_, first_batch_;
  std::vector<std::int32_t> counts_;  // [batches][heads][keys]
};

/// The number of key indices outside of 0 ... Lk - 1, but for -1.
std::int64_t faulty_key_indices(const ForwardArgs& args);

}  // namespace attnjit::reference
