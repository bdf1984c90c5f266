#pragma once
#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runtime/load/engine.hpp"
#include "unit/backward_fixtures.hpp"

namespace attnjit::test {

/// A problem whose generated sources are kept in tests/golden, so that a change shows them.
struct GoldenProblem {
  std::string name;
  std::string arch;
  Sizes sizes;
  std::function<void(ForwardArgs&)> add;  ///< mask, bias and options; may be empty
};

inline void make_causal(ForwardArgs& args) {
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
}

/// Packs eight sequences into the rows of batch 1.
inline void pack(ForwardArgs& args) {
  args.num_sequences = 8;
  args.cu_seqlens_q = fake_address<std::int32_t>(7);
  args.cu_seqlens_kv = fake_address<std::int32_t>(8);
}

/// A prepared mask of that pattern.
inline PreparedMask prepared_mask(const ForwardArgs& args, std::string_view pattern) {
  return {.data = fake_address(9), .shape = mask(args, pattern).shape, .for_backward = true};
}

/// File names under tests/golden and what they must hold: the generated part of every kernel,
/// stubs/NAME_ARCH.ENTRY.cu, and one source, of stub and templates, as codegen flattens it.
using GoldenFiles = std::map<std::string, std::string>;

inline void add_kernels(const std::string& problem, const auto& steps, GoldenFiles& files) {
  for (const auto& step : steps) {
    const codegen::Source& source = step.source;
    files[fmt::format("stubs/{}.{}.cu", problem, source.entry)] = source.stub;
    if (source.entry == std::string_view("mask_to_bits")) {
      files.try_emplace("flattened_mask_to_bits.cu", source.text);
    }
  }
}

}  // namespace attnjit::test
