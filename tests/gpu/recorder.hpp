#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/templates.hpp"
#include "launch/forward_plan_spec.hpp"

namespace attnjit::gpu_test {

/// The operands that each thread of attn_fwd hands to the matrix instruction, in the order in which
/// it does. For each thread and product (Q K^T, then P V) a slot of words: how many calls, and of
/// each call the four words of A and the two of B.
class Recorder {
 public:
  static constexpr int kProducts = 2;
  static constexpr int kWords = 6;

  /// For the kernels of `config` in a launch of `grid` on up to `seqlen_kv` keys.
  Recorder(const kernel::ForwardMmaConfig& config, const launch::ForwardGrid& grid, int seqlen_kv)
      : threads_per_block_(config.num_threads()),
        threads_(static_cast<std::size_t>(grid.blocks()) * threads_per_block_) {
    // A block's share of the tiles; of each, either product takes 16 columns of a head and 8 keys,
    // or the other way round, at a time. V has a group of ones besides.
    const int columns = std::max(config.padded_head_dim(), config.padded_head_dim_v() + 16);
    const int tiles = kernel::ceil_div(kernel::ceil_div(seqlen_kv, config.block_kv), grid.splits);
    const int calls = tiles * config.row_tiles() * (config.block_kv / 8) * (columns / 16);
    slot_words_ = 1 + static_cast<std::size_t>(calls) * kWords;
  }

  std::size_t words() const { return threads_ * kProducts * slot_words_; }
  std::size_t threads() const { return threads_; }

  /// The slot of `thread`, counted through all blocks, in a buffer of words().
  std::span<const std::uint32_t> slot(std::span<const std::uint32_t> buffer, std::size_t thread,
                                      int product) const {
    return buffer.subspan((thread * kProducts + static_cast<std::size_t>(product)) * slot_words_,
                          slot_words_);
  }

  /// Templates whose forward records into `buffer`, words() zeros in the memory that the kernels
  /// run on. The address is part of the text: one text does for a GPU and for the CPU executor.
  codegen::TemplateSet templates(const void* buffer) const {
    std::string forward = codegen::TemplateSet().text(kForward);
    replace(forward, "#include \"attnjit/ptx/matrix.cuh\"", "#include \"attnjit/recorder.cuh\"");
    replace(forward, "ptx::multiply_accumulate<kConfig.dtype>(scores",
            "record_multiply<0, kConfig.dtype>(scores");
    replace(forward, "ptx::multiply_accumulate<kConfig.dtype>(out",
            "record_multiply<1, kConfig.dtype>(out");
    const std::string header =
        fmt::format(kHeader, fmt::arg("threads", threads_per_block_),
                    fmt::arg("address", reinterpret_cast<std::uintptr_t>(buffer)),
                    fmt::arg("products", kProducts), fmt::arg("slot_words", slot_words_));
    const codegen::TemplateFile files[] = {{kForward, forward}, {"attnjit/recorder.cuh", header}};
    return codegen::TemplateSet().with(files);
  }

 private:
  static constexpr const char* kForward = "attnjit/forward/mma/kernel.cuh";
  static constexpr const char* kHeader = R"(
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/thread.cuh"
namespace attnjit::kernel {{
template <int kProduct, DType kDType>
ATTNJIT_DEVICE void record_multiply(float (&c)[4], const ptx::FragmentA& a,
                                    const uint32 (&b)[2]) {{
  const uint64 thread = uint64{{ptx::block_index()}} * {threads} + ptx::thread_index();
  uint32* const slot = reinterpret_cast<uint32*>({address}ull) +
                       (thread * {products} + kProduct) * {slot_words};
  uint32* const call = slot + 1 + 6 * slot[0]++;
  for (int i = 0; i < 4; ++i) call[i] = a.word[i];
  for (int i = 0; i < 2; ++i) call[4 + i] = b[i];
  ptx::multiply_accumulate<kDType>(c, a, b);
}}
}}  // namespace attnjit::kernel
)";

  // Every `before` in `text`, of which there is at least one.
  static void replace(std::string& text, const std::string& before, const std::string& after) {
    std::size_t place = text.find(before);
    REQUIRE(place != std::string::npos);
    for (; place != std::string::npos; place = text.find(before, place + after.size())) {
      text.replace(place, before.size(), after);
    }
  }

  int threads_per_block_;
  std::size_t threads_;
  std::size_t slot_words_ = 0;
};

}  // namespace attnjit::gpu_test
