#include "runtime/load/wgmma_verdict.hpp"

#include <fmt/format.h>

#include "runtime/load/plan_loader.hpp"

namespace attnjit::runtime {
namespace {

// Bytes stored and loaded. Sound kernels have some tens, in code that runs once for a tile of
// queries or in the threads that load; with a softcap up to 352, and take 0.36 to 0.51 of the time
// of path mma all the same (H100, 2026-11-27).
constexpr int kMostSpilled = 384;

// Of a kernel that is in no bundle and not on disk nothing is known, unless it may be compiled.
template <class Spec>
std::optional<compiler::Facts> facts_of(Engine& engine, const Spec& spec, std::size_t step,
                                        const codegen::Arch& arch,
                                        const problem::ProblemText& problem, Compiling compiling) {
  if (compiling == Compiling::kAllowed) {
    return facts(*get_kernels(engine, spec, arch, problem)[step]);
  }
  const cache::KernelKey key = engine.key(spec.steps[step].source, arch);
  const auto found = engine.cache().look_up(key, std::string(arch.name));
  return found ? facts(*found->entry) : std::nullopt;
}

}  // namespace

std::optional<std::string> why_slow(const compiler::Facts& facts) {
  if (const auto code = facts.serialization()) {
    return fmt::format("was serialised by NVRTC {} ({})", facts.nvrtc_version, *code);
  }
  const int spilled = facts.spill_store_bytes + facts.spill_load_bytes;
  if (spilled <= kMostSpilled) return std::nullopt;
  return fmt::format("spills {} bytes as NVRTC {} compiles it", spilled, facts.nvrtc_version);
}

template <class Spec>
std::optional<std::string> why_slow(Engine& engine, const Spec& spec, const codegen::Arch& arch,
                                    const problem::ProblemText& problem, Compiling compiling) {
  for (std::size_t step = 0; step < spec.steps.size(); ++step) {
    if (!spec.steps[step].wgmma) continue;
    const auto known = facts_of(engine, spec, step, arch, problem, compiling);
    const auto reason = known ? why_slow(*known) : std::nullopt;
    if (reason) return fmt::format("{} {}", codegen::describe_tile(spec.tunables), *reason);
  }
  return std::nullopt;
}

template std::optional<std::string> why_slow(Engine&, const launch::ForwardPlanSpec&,
                                             const codegen::Arch&, const problem::ProblemText&,
                                             Compiling);
template std::optional<std::string> why_slow(Engine&, const launch::BackwardPlanSpec&,
                                             const codegen::Arch&, const problem::ProblemText&,
                                             Compiling);

}  // namespace attnjit::runtime
