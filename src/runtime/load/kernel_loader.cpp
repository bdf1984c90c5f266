#include "runtime/load/kernel_loader.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "attnjit/error.hpp"

namespace attnjit::runtime {
namespace {

/// The sentence on a cubin that the driver does not take.
std::string complaint(const Engine& engine, const cuda::Driver& driver,
                      const codegen::Source& source, const cache::Entry& entry,
                      const problem::ProblemText& problem, const std::string& refusal) {
  const int version = driver.driver_version();
  return fmt::format(
      "kernel [{}] for {} of problem [{}]: the driver (CUDA {}.{}) does not take its cubin ({}: "
      "{})",
      source.title, entry.arch, problem.description, version / 1000, version % 1000 / 10,
      engine.origin(entry), refusal);
}

/// "13.0" of "13.0.88".
std::string release(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

std::string advice(const cache::Entry& entry) {
  const auto known = facts(entry);
  if (!known || known->nvrtc_version.empty()) return "update the driver";
  return fmt::format(
      "NVRTC {} made it, for drivers of CUDA {} or later: update the driver, or set "
      "ATTNJIT_NVRTC to an older NVRTC",
      known->nvrtc_version, release(known->nvrtc_version));
}

}  // namespace

std::unique_ptr<cuda::Library> load_kernel(Engine& engine, const cuda::Driver& driver,
                                           const cache::Entry& entry, const codegen::Source& source,
                                           const codegen::Arch& arch,
                                           const problem::ProblemText& problem) {
  cuda::LoadResult first = cuda::load_library(driver, entry.cubin, source.entry);
  if (first.library) return std::move(first.library);
  if (const auto known = engine.refusals().find(entry.key)) throw Error(ErrorKind::kCuda, *known);

  const std::string what = complaint(engine, driver, source, entry, problem, first.refusal);
  engine.log().warning("{}; it is compiled again", what);
  cache::SecondEntry second;  // locked until it has taken the place of `entry`
  try {
    second = engine.second_kernel(entry, source, arch, problem);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}, and there is no other: {}; {}", what, error.what(),
                                          advice(entry)));
  }
  const auto give_up = [&](const std::string& outcome) {
    const std::string message = fmt::format("{}, and {}; {}", what, outcome, advice(second.entry));
    engine.refusals().add(entry.key, message);
    throw Error(ErrorKind::kCuda, message);
  };
  if (second.entry.cubin == entry.cubin) give_up("compiled anew it is the same");
  cuda::LoadResult again = cuda::load_library(driver, second.entry.cubin, source.entry);
  if (!again.library)
    give_up(fmt::format("it does not take one that was compiled anew ({})", again.refusal));
  engine.cache().replace(std::move(second.entry));
  return std::move(again.library);
}

}  // namespace attnjit::runtime
