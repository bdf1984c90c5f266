#include "codegen/arch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "attnjit/error.hpp"

namespace attnjit::codegen {
namespace {

constexpr int kKiB = 1024;

constexpr Arch kArchs[] = {
    {"sm_80", 163 * kKiB, 164 * kKiB, false, false, 108},
    {"sm_86", 99 * kKiB, 100 * kKiB, false, false, 84},
    {"sm_87", 163 * kKiB, 164 * kKiB, false, false, 16},
    {"sm_89", 99 * kKiB, 100 * kKiB, false, false, 128},
    {"sm_90a", 227 * kKiB, 228 * kKiB, true, true, 132},
    {"sm_100", 227 * kKiB, 228 * kKiB, false, true, 148},
    {"sm_103", 227 * kKiB, 228 * kKiB, false, true, 148},
    {"sm_110", 227 * kKiB, 228 * kKiB, false, true, 20},
    {"sm_120", 99 * kKiB, 100 * kKiB, false, true, 170},
    {"sm_121", 99 * kKiB, 100 * kKiB, false, true, 48},
};

}  // namespace

std::span<const Arch> archs() { return kArchs; }

const Arch& find_arch(std::string_view name) {
  const auto* found = std::ranges::find(kArchs, name, &Arch::name);
  if (found != std::end(kArchs)) return *found;
  std::string known;
  for (const Arch& arch : kArchs)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", arch.name);
  throw Error(ErrorKind::kUnsupported,
              fmt::format("architecture {} is not supported; expected one of {}", name, known));
}

}  // namespace attnjit::codegen
