#include "runtime/call/call_dumper.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <exception>
#include <string>

#include "base/fields_json.hpp"
#include "cuda/memory.hpp"
#include "dump/folder.hpp"
#include "dump/writer.hpp"
#include "runtime/load/plan_loader.hpp"

namespace attnjit::runtime {
namespace {

// Empty where kernels come from a cache alone.
std::string compiler_of(Engine& engine) try {
  return engine.compiler().likely_id();
} catch (const Error&) {
  return "";
}

// The circumstances of call `number`.
template <class Pass>
dump::Origin origin_of(Engine& engine, const cuda::Driver& driver, const launch::Plan<Pass>& plan,
                       const typename Pass::Problem& problem, std::int64_t number) {
  const cuda::DeviceInfo device = cuda::current_device(driver);
  return {.library = ATTNJIT_VERSION,
          .problem = problem::describe(problem),
          .manifest_line = problem::manifest_line(problem),
          .config = base::dump_json(base::to_json_value(plan.spec().tunables)),
          .device = device.name,
          .arch = std::string(arch_of(device).name),
          .driver = driver.driver_version(),
          .compiler = compiler_of(engine),
          .number = number};
}

}  // namespace

CallDumper::CallDumper(Engine& engine) : engine_(engine), dumps_(engine.environment().call_dumps) {
  if (!dumps_) return;
  if (const auto why = dump::why_no_folder(dumps_->directory)) {
    warn("folder", fmt::format("{} gets no calls: {}; name a folder that only you can write to",
                               dumps_->directory.string(), *why));
    return;
  }
  active_ = true;
}

template <class Pass>
void CallDumper::run(const cuda::Driver& driver, const launch::Plan<Pass>& plan,
                     const typename Pass::Problem& problem, const typename Pass::Args& args,
                     Stream stream, bool captured, const std::function<void()>& launch) {
  if (captured) {
    warn("capture", "calls in a stream capture are not kept: their tensors are not there yet");
    return launch();
  }
  const std::optional<std::int64_t> number = take_number();
  if (!number) return launch();
  const dump::Fetch fetch = [&driver, stream](void* to, const void* from, std::size_t bytes) {
    cuda::copy_to_host(driver, to, from, bytes, stream);
  };
  std::optional<dump::CallWriter> writer;
  // Whether `write` has written a file.
  const auto try_to = [&](const char* what, const auto& write) {
    try {
      const base::WriteResult result = write();
      if (result.ok()) return true;
      warn(what,
           fmt::format("call {}: {} cannot be written ({})", *number, what, result.message()));
    } catch (const std::exception& error) {
      warn(what, fmt::format("call {}: {} cannot be read: {}", *number, what, error.what()));
    }
    return false;
  };
  const bool written = try_to("its inputs", [&]() -> base::WriteResult {
    writer.emplace(dumps_->directory, dump::call_name(*number), dump::Call(args), fetch);
    if (!take_bytes(writer->bytes())) return {EFBIG, "limit of 4 GiB"};
    return writer->write_call(origin_of(engine_, driver, plan, problem, *number));
  });
  launch();
  if (written) try_to("its results", [&] { return writer->write_results(); });
}

std::optional<std::int64_t> CallDumper::take_number() {
  const std::uint64_t number = calls_.fetch_add(1) + 1;
  if (number >= dumps_->calls) active_ = false;
  if (number > dumps_->calls) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

bool CallDumper::take_bytes(std::uint64_t bytes) {
  return bytes <= kMaxBytes && bytes_.fetch_add(bytes) <= kMaxBytes - bytes;
}

void CallDumper::warn(const char* key, const std::string& message) {
  engine_.log().warn_once(fmt::format("dump of calls: {}", key),
                          fmt::format("ATTNJIT_DUMP_CALLS: {}", message));
}

template void CallDumper::run(const cuda::Driver&, const launch::ForwardPlan&,
                              const problem::Problem&, const ForwardArgs&, CUstream, bool,
                              const std::function<void()>&);
template void CallDumper::run(const cuda::Driver&, const launch::BackwardPlan&,
                              const problem::BackwardProblem&, const BackwardArgs&, CUstream, bool,
                              const std::function<void()>&);

}  // namespace attnjit::runtime
