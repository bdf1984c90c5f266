#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "bench.hpp"

namespace attnjit::executor_test {

/// Tiles of the portable forward, a warp to 16 rows, of heads that stay alone.
inline std::string mma(int block_q, int block_kv, int stages = 1) {
  return fmt::format(
      R"({{"block_q": {}, "block_kv": {}, "num_stages": {}, "num_warps": {}, "pack_gqa": false}})",
      block_q, block_kv, stages, block_q / 16);
}

/// Those of the forward of Hopper.
inline std::string wgmma(int block_q, int block_kv, bool packs = false) {
  return fmt::format(
      R"({{"path": "wgmma", "block_q": {}, "block_kv": {}, "num_stages": 2,
          "pack_gqa": {}}})",
      block_q, block_kv, packs);
}

/// Runs forwards by tiles.
class TileBench {
 public:
  /// Expects a problem to be right with each of these tiles, on `sm_count` SMs where it is not 0.
  void expect_right(const instance::ProblemSpec& spec,
                    const std::vector<std::string>& configs = {"{}"}, int sm_count = 0) {
    CAPTURE(instance::describe(spec));
    codegen::Arch arch = codegen::find_arch("sm_90a");
    if (sm_count > 0) arch.sm_count = sm_count;
    for (const std::string& config : configs) {
      if (bench_.leaves_out()) continue;
      CAPTURE(config);
      CHECK(bench_.forward(spec, arch, config) == "");
    }
  }
  /// Expects the report of an entry in use that the pool has no page for: page `page` of a batch
  /// element or sequence.
  void expect_no_page(const instance::ProblemSpec& spec, std::int64_t element, std::int64_t page) {
    instance::HostProblem host(spec, 1);
    const ForwardArgs args = host.args();
    const_cast<std::int32_t*>(args.block_table)[element * args.block_table_stride + page] =
        static_cast<std::int32_t>(spec.num_pages());
    const std::string report = bench_.run_forward(host, codegen::find_arch("sm_80"));
    CAPTURE(report);
    CHECK(report.find("copy_async_16: reads 16 bytes, the first") != std::string::npos);
  }

 private:
  Bench bench_;
};

}  // namespace attnjit::executor_test
