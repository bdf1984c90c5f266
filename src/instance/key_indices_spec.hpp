#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "attnjit/tensor.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {

struct ProblemSpec;

/// Random selections of keys. Their text is FILL:NUMBER[/AXES[/DTYPE]]: "topk:2048" selects as many
/// different keys in a random order for each kv head of each batch element, "topk:2048/1g/int64"
/// for each kv head alone. Where there are fewer keys, the rest of the indices is -1. Fill `faulty`
/// adds what the contract forgives: indices that name no key, and repeated ones.
struct KeyIndicesSpec {
  bool is_faulty = false;
  std::int64_t number = 0;
  std::string axes = "bg";  ///< b or 1, then g or 1
  DType dtype = DType::kInt32;
};

/// Throws Error(kInvalidProblem) that says what is expected.
KeyIndicesSpec parse_key_indices(std::string_view text);

/// The indices of a problem of `spec`, which has some, whose lines are spec.memory.row_padding
/// elements apart; without memory.
Tensor key_indices_view(const ProblemSpec& spec);

/// Writes the indices of keys below `num_keys`.
void fill_key_indices(const Tensor& indices, std::int64_t num_keys, bool is_faulty,
                      tensor::Random random);

}  // namespace attnjit::instance
