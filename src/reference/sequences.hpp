#pragma once
#include <cstdint>
#include <vector>

#include "attnjit/forward.hpp"
#include "reference/paged.hpp"

namespace attnjit::reference {

/// One of the sequences of a packed call.
struct Sequence {
  std::int64_t index = 0;
  std::int64_t q_begin = 0, kv_begin = 0;  ///< its first row and key in the tensors
  ForwardArgs call;  ///< its own attention, of batch 1 and without lse, paged where the whole call
                     ///< is; mask and bias may have other lengths than q and k

  std::int64_t rows() const { return call.q.shape[2]; }
  std::int64_t keys() const { return num_keys(call); }
};

inline bool is_packed(const ForwardArgs& args) { return args.cu_seqlens_q != nullptr; }

/// `tensor` [1, H, T, D] from row `begin` on, `size` rows of it.
Tensor rows_of(Tensor tensor, std::int64_t begin, std::int64_t size);

/// Whether a mask or bias of packed sequences has the keys of all of them in one row.
bool packs_keys(const Tensor& operand, const ForwardArgs& args);

/// All sequences of a packed call. Rows and keys past the last one belong to none.
std::vector<Sequence> split_sequences(const ForwardArgs& args);

}  // namespace attnjit::reference
