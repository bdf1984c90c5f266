#include "runtime/load/engine.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::runtime {
namespace {

compiler::NvrtcSearch nvrtc_search(const base::Environment& environment) {
  compiler::NvrtcSearch search;
  if (environment.nvrtc_path) search.explicit_path = environment.nvrtc_path->string();
  for (const auto& directory : environment.cuda_directories) {
    search.directories.push_back(directory.string());
  }
  return search;
}

cache::KernelCacheOptions cache_options(const base::Environment& environment,
                                        const cache::BundlePath& bundles) {
  cache::KernelCacheOptions options;
  options.directory = environment.cache_directory;
  options.lock_directory = environment.lock_directory;
  options.bundles = &bundles;
  options.limits.bytes = environment.cache_max_bytes;
  return options;
}

codegen::TemplateSet load_templates(const std::filesystem::path& root) try {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    file.exceptions(std::ios::failbit | std::ios::badbit);
    std::string text(std::istreambuf_iterator<char>(file), {});
    files.emplace(entry.path().lexically_relative(root).generic_string(), std::move(text));
  }
  return codegen::TemplateSet(std::move(files));
} catch (const std::system_error& error) {
  throw Error(ErrorKind::kInvalidEnvironment,
              fmt::format("ATTNJIT_TEMPLATE_DIR: cannot read {}: {}; set it to a copy of "
                          "attnjit's templates, or unset it",
                          root.string(), error.code().message()));
}

// An NVRTC that is missing must not hide kernels that are on disk already.
template <class Ask>
std::string id_or_none(const Ask& ask) {
  try {
    return ask();
  } catch (const Error&) {
    return "";
  }
}

cache::CompilerIdentity identity_of(compiler::Compiler& compiler) {
  return {[&compiler] { return id_or_none([&] { return compiler.likely_id(); }); },
          [&compiler] { return id_or_none([&] { return compiler.id(); }); }};
}

std::string metadata(const codegen::Source& source, const compiler::Facts& facts) {
  base::Json meta;
  meta["schema"] = 1;
  meta["library"] = ATTNJIT_VERSION;
  meta["title"] = source.title;
  meta["entry"] = source.entry;
  meta["source_sha256"] = base::hex(base::sha256(source.text));
  meta["source_bytes"] = source.text.size();
  meta["facts"] = base::parse_json(compiler::to_json(facts));
  return meta.dump();
}

/// `problems`: a family, or a plan key.
template <class Tunables, class Problems>
void expect_fit(const Tunables& config, const Problems& problems, const codegen::Arch& arch) {
  if (const auto rule = codegen::why_unfit(config, problems, arch)) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("config {}: {}", codegen::describe_tile(config), *rule));
  }
}

}  // namespace

Engine::Engine(base::Environment environment, base::Log::Sink sink, Spaces spaces,
               std::optional<codegen::Path> path, std::string_view shipped)
    : environment_(std::move(environment)),
      log_(environment_.log_level, std::move(sink)),
      templates_(environment_.template_directory ? load_templates(*environment_.template_directory)
                                                 : codegen::TemplateSet()),
      bundles_(environment_.bundle_path, log_),
      watch_(log_),
      compiler_(nvrtc_search(environment_), environment_.dump_directory.value_or("")),
      cache_(cache_options(environment_, bundles_), identity_of(compiler_), log_),
      spaces_(std::move(spaces)),
      path_(path),
      records_(environment_.cache_directory, environment_.lock_directory, log_, &bundles_, shipped),
      faults_(environment_.cache_directory, log_) {
  for (const std::string& note : environment_.notes) log_.info("{}", note);
  if (environment_.cache_trouble) log_.warning("{}", *environment_.cache_trouble);
}

launch::ForwardPlanSpec Engine::plan(const problem::Problem& problem, const codegen::Arch& arch,
                                     const std::optional<codegen::ForwardTunables>& config) {
  const problem::PlanKey key = problem::plan_key(problem);
  if (config) expect_fit(*config, key, arch);
  return plan(key.family, arch, config.value_or(tuner::config_zero(key, arch)));
}

launch::BackwardPlanSpec Engine::plan(const problem::BackwardProblem& problem,
                                      const codegen::Arch& arch,
                                      const std::optional<codegen::BackwardTunables>& config) {
  const problem::BackwardPlanKey key = problem::plan_key(problem);
  if (config) expect_fit(*config, key, arch);
  return plan(key.family, arch, config.value_or(tuner::config_zero(key, arch)));
}

launch::ForwardPlanSpec Engine::plan(const problem::Family& family, const codegen::Arch& arch,
                                     const codegen::ForwardTunables& config) {
  expect_fit(config, family, arch);
  return launch::make_forward_plan_spec(family, config, arch, templates_);
}

launch::BackwardPlanSpec Engine::plan(const problem::BackwardFamily& family,
                                      const codegen::Arch& arch,
                                      const codegen::BackwardTunables& config) {
  expect_fit(config, family, arch);
  return launch::make_backward_plan_spec(family, config, arch, templates_);
}

cache::KernelKey Engine::key(const codegen::Source& source, const codegen::Arch& arch) const {
  const std::string name(arch.name);
  return cache::make_key(source.text, source.entry, name, compiler::code_options(name));
}

std::shared_ptr<const cache::Entry> Engine::kernel(const codegen::Source& source,
                                                   const codegen::Arch& arch,
                                                   const problem::ProblemText& problem) {
  return fetch(source, arch, problem).entry;
}

cache::Fetched Engine::fetch(const codegen::Source& source, const codegen::Arch& arch,
                             const problem::ProblemText& problem) {
  return cache_.fetch(key(source, arch), std::string(arch.name),
                      [&] { return build(source, arch, problem); });
}

cache::SecondEntry Engine::second_kernel(const cache::Entry& refused, const codegen::Source& source,
                                         const codegen::Arch& arch,
                                         const problem::ProblemText& problem) {
  return cache_.second_entry(refused, [&] {
    if (environment_.jit == base::JitPolicy::kForbid) {
      throw Error(ErrorKind::kCache, "ATTNJIT_JIT=forbid lets none be compiled");
    }
    return build(source, arch, problem);
  });
}

std::string Engine::origin(const cache::Entry& entry) const {
  if (const auto bundle = bundles_.locate(entry.key, entry.arch)) return bundle->string();
  const auto path = cache_.store().path_of(entry.key, entry.arch, entry.compiler_id);
  return path ? path->string() : "kept in memory only";
}

cache::Entry Engine::build(const codegen::Source& source, const codegen::Arch& arch,
                           const problem::ProblemText& problem) {
  const std::string what = fmt::format("kernel [{}] for {} of problem [{}]", source.title,
                                       arch.name, problem.description);
  if (environment_.jit == base::JitPolicy::kForbid) {
    const std::string advice =
        problem.manifest_line.empty()
            ? fmt::format(
                  "add {} to an entry of a manifest and run attnjit warmup --arch {} with it, or "
                  "make the call once where compiling is allowed, with this cache",
                  problem.manifest_member, arch.name)
            : fmt::format(
                  "add the problem to a manifest and run attnjit warmup --arch {} with it: {}",
                  arch.name, problem.manifest_line);
    throw Error(ErrorKind::kCache,
                fmt::format("{} is in no bundle and not in the cache, and ATTNJIT_JIT=forbid; {}",
                            what, advice));
  }
  if (environment_.jit == base::JitPolicy::kWarn) log_.warning("compiling {}", what);
  log_.info("compiling {}", what);
  const CompileWatch::Running running(watch_, "compiling " + what);
  try {
    compiler::Compiled compiled =
        compiler_.compile(source.text, source.entry, std::string(arch.name));
    cache::Entry entry;
    entry.meta_json = metadata(source, compiled.facts);
    entry.cubin = std::move(compiled.cubin);
    return entry;
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", what, error.what()));
  }
}

std::optional<compiler::Facts> facts(const cache::Entry& entry) {
  const auto meta = base::try_parse_json(entry.meta_json);
  if (!meta.is_object() || !meta.contains("facts")) return std::nullopt;
  try {
    return compiler::facts_from_json(base::dump_json(meta["facts"]));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace attnjit::runtime
