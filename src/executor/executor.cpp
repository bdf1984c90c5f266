#include "executor/executor.hpp"

#include <fmt/format.h>

#include <atomic>
#include <span>
#include <utility>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "base/parallel.hpp"
#include "executor/diagnosis.hpp"
#include "executor/primitives.hpp"
#include "executor/residents.hpp"
#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

constexpr const char* kArch = "host";  // in the cache, where cubins have "sm_90a"
constexpr const char* kPrimitives = "attnjit/executor/";

std::string metadata(const codegen::Source& source) {
  const base::Json meta = {{"schema", 1},
                           {"library", ATTNJIT_VERSION},
                           {"title", source.title},
                           {"entry", source.entry}};
  return meta.dump();
}

cache::CompilerIdentity identity_of(HostCompiler& compiler) {
  const auto id = [&compiler] { return std::string(compiler.id()); };
  return {id, id};
}

}  // namespace

Executor::Executor(Options options, base::Log& log)
    : log_(log),
      jit_(options.jit),
      jobs_(options.jobs),
      templates_(options.templates.with(primitives())),
      compiler_(std::move(options.compiler)),
      cache_(std::move(options.cache), identity_of(compiler_), log) {}

std::string Executor::host_source(const codegen::Source& source) const try {
  return codegen::flatten(source.stub, templates_, kPrimitives) +
         fmt::format(
             "\nATTNJIT_EXPORT void attnjit_execute(void* const* parameters) {{\n"
             "  attnjit::kernel::ptx::call(::{}, parameters);\n}}\n",
             source.entry);
} catch (const Error& error) {
  // The plan was made from the same templates, so only a stand-in can be missing.
  const std::string what = error.what();
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} cannot run on the CPU: {}, which would stand in for the header of "
                          "that name under attnjit/ptx/; docs/internals/executor.md tells how to "
                          "add it",
                          source.entry, what.substr(0, what.find(';'))));
}

std::shared_ptr<const HostKernel> Executor::kernel(const codegen::Source& source) {
  const std::string text = host_source(source);
  const cache::KernelKey key = cache::make_key(text, source.entry, kArch, HostCompiler::options());
  {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(key);
    if (found != loaded_.end()) return found->second;
  }
  const auto entry = cache_.get(key, kArch, [&] { return build(source, text); });
  auto loaded = std::make_shared<const HostKernel>(entry->cubin);
  const std::lock_guard lock(mutex_);
  return loaded_.emplace(key, std::move(loaded)).first->second;
}

cache::Entry Executor::build(const codegen::Source& source, const std::string& text) {
  const std::string what = fmt::format("kernel [{}] for the CPU", source.title);
  if (jit_ == base::JitPolicy::kForbid) {
    throw Error(ErrorKind::kCache,
                fmt::format("{} is not in the cache and ATTNJIT_JIT=forbid; run the problem once "
                            "with this cache where compiling is allowed",
                            what));
  }
  if (jit_ == base::JitPolicy::kWarn) log_.warning("compiling {}", what);
  log_.info("compiling {}", what);
  try {
    cache::Entry entry;
    entry.meta_json = metadata(source);
    entry.cubin = compiler_.compile(text);
    return entry;
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{}: {}", what, diagnose(error.what(), text, templates_)));
  }
}

void Executor::run(const launch::StepSpec& step, unsigned blocks, void* const* parameters,
                   GlobalMemory& memory) {
  const auto host = kernel(step.source);
  const Launch launch{step.source.entry, host->function(),  parameters,     blocks,
                      step.threads,      step.shared_bytes, step.min_blocks};
  memory.begin_kernel(step.overlaps);
  std::atomic<unsigned> next = 0;
  std::atomic<bool> failed = false;
  const unsigned threads = std::min(jobs_, blocks);
  // One thread has a second block to overtake the first; those of several are out of order by
  // themselves.
  const int residents = threads == 1 ? 2 : 1;
  base::parallel_for(threads, jobs_, [&](std::size_t) {
    Residents at_work(launch, memory, next, residents);
    try {
      while (!failed && at_work.go_on(threads == 1)) {
      }
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

}  // namespace attnjit::executor
