#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attnjit/forward.hpp"

namespace attnjit::reference {

inline bool is_paged(const ForwardArgs& args) { return args.block_table != nullptr; }

/// Lk: that of k, or as many keys as a row of the block table names.
inline std::int64_t num_keys(const ForwardArgs& args) {
  return is_paged(args) ? args.max_pages * args.k.shape[2] : args.k.shape[2];
}

/// The page of key `key` of a batch element. Throws Error(kInvalidProblem) for an entry that the
/// pool has no page for.
std::int64_t page_of(const ForwardArgs& args, std::int64_t batch, std::int64_t key);

/// A paged call as one that is not: keys in use are copied, and others are zeros.
class UnpagedCall {
 public:
  explicit UnpagedCall(const ForwardArgs& args);

  const ForwardArgs& args() const { return args_; }

 private:
  ForwardArgs args_;
  std::vector<std::byte> k_, v_;
};

}  // namespace attnjit::reference
