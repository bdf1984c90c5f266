#pragma once
#include <fmt/format.h>

#include <string>

namespace attnjit::executor_test {

/// The tunables of a backward whose dk, dv and dq come from the kernel of Hopper.
inline std::string wgmma_backward(int block_q, int num_stages = 2, bool split = false) {
  return fmt::format(
      R"({{"dq_method": "add", "split": {}, "dkv": {{"path": "wgmma", "block_q": {},
          "block_kv": 128, "num_stages": {}, "num_warps": 16, "query_warps": 1, "min_blocks": 1,
          "late": false, "fresh": "none"}}}})",
      split, block_q, num_stages);
}

}  // namespace attnjit::executor_test
