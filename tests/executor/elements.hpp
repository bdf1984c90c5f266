#pragma once
#include <array>
#include <cstdint>
#include <numeric>

#include "block.hpp"

namespace attnjit::executor {

/// Elements 1, 2, 3 ... and maps of them.
struct Elements {
  alignas(128) std::array<std::uint16_t, 16384> data;
  CUtensorMap map;
  CUtensorMap out_map;
  alignas(128) std::array<std::uint16_t, 16384> out{};
  GlobalMemory memory;

  Elements() {
    std::iota(data.begin(), data.end(), std::uint16_t{1});
    memory.add("k", view_of(data.data(), {1, 1, 1, 16384}), 2, TensorRole::kInput);
    memory.add("out", view_of(out.data(), {1, 1, 1, 16384}), 2, TensorRole::kOutput);
  }
};

}  // namespace attnjit::executor
