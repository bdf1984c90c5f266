#pragma once
#include <fmt/format.h>

#include <string>

namespace attnjit::executor_test {

/// The tunables of a backward whose dk, dv and dq come from the kernel of Hopper.
inline std::string wgmma_backward(int block_q, int num_stages = 2, bool split = false) {
  return fmt::format(
      R"({{"dq_method": "add", "split": {}, "dkv": {{"path": "wgmma", "block_q": {},
          "block_kv": 128, "num_stages": {}}}}})",
      split, block_q, num_stages);
}

/// The same where the first keys store dq for others to add to.
inline std::string store_backward(int block_q) {
  std::string config = wgmma_backward(block_q);
  return config.replace(config.find("add"), 3, "first_stores");
}

/// The same where thread blocks take all keys of a kv head.
inline std::string plane_backward(int block_q) {
  std::string config = wgmma_backward(block_q);
  return config.replace(config.find("add"), 3, "own_kv_head");
}

/// The same as `config` with a way to dbias of its own: "add" or "per_plane".
inline std::string with_dbias(std::string config, const std::string& method) {
  return config.insert(1, fmt::format(R"("dbias_method": "{}", )", method));
}

/// The tunables of a backward of wide heads, whose dk and dv come from one kernel of Hopper and dq
/// from another.
inline std::string wide_backward(int num_stages = 2, bool split = false) {
  constexpr const char* kTile = R"("path": "wgmma", "block_kv": 64)";
  return fmt::format(
      R"({{"dq_method": "kernel", "split": {}, "dkv": {{{}, "block_q": 64, "num_stages": {}}},
          "dq": {{{}, "block_q": 128, "num_stages": 2}}}})",
      split, kTile, num_stages, kTile);
}

}  // namespace attnjit::executor_test
