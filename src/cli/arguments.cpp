#include "cli/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/input/problem_options.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/version.hpp"

namespace attnjit::cli {
namespace {

/// Everything that flags are read into. The verbs' closures share it.
struct Flags {
  CommonOptions common;
  WorkloadOptions workload;
  EmitOptions emit;
  RunOptions run;
  ReplayOptions replay;
  BenchOptions bench;
  TuneOptions tune;
  WarmupOptions warmup;
  RecordsOptions records;
  CacheOptions cache;
  ExportOptions bundle_export;
  std::string bundle_import;
};

void add_common(CLI::App& verb, CommonOptions& options) {
  verb.add_flag("--json", options.json, "Write one JSON object to stdout");
  auto* quiet = verb.add_flag("-q,--quiet", options.quiet, "Nothing but errors on stderr");
  verb.add_flag("-v,--verbose", options.verbose, "More on stderr")->excludes(quiet);
}

void add_jobs(CLI::App& verb, CommonOptions& options) {
  verb.add_option("--jobs", options.jobs, "Threads (ATTNJIT_JOBS)")->check(CLI::Range(1, 1024));
}

void add_problem(CLI::App& verb, WorkloadOptions& options,
                 const char* manifest_names = "--manifest") {
  add_problem_flags(verb, options.problem);
  verb.add_option(manifest_names, options.manifest,
                  "File of problems, JSON or JSON lines, instead of the flags above");
}

void add_path(CLI::App& verb, WorkloadOptions& options) {
  verb.add_option("--path", options.path,
                  "Main loops: auto (default), mma, wgmma, single_tile or shared_bias");
}

void add_archs(CLI::App& verb, WorkloadOptions& options, const char* help) {
  verb.add_option("--arch", options.archs, help)->delimiter(',');
}

void add_config(CLI::App& verb, WorkloadOptions& options) {
  verb.add_option("--config", options.config,
                  "Members of the kernel's config, as a JSON object or a file that holds one");
}

void add_target(CLI::App& verb, WorkloadOptions& options) {
  add_archs(verb, options, "sm_80, sm_90a, ...; default: the first GPU's");
  add_config(verb, options);
}

using Run = std::function<ExitCode(Session&)>;

/// Adds a verb; `chosen` becomes `run` when the command line names it.
CLI::App& add_verb(CLI::App& parent, const char* name, const char* help, Run run, Run& chosen,
                   Flags& flags) {
  CLI::App* verb = parent.add_subcommand(name, help);
  add_common(*verb, flags.common);
  verb->callback([run = std::move(run), &chosen] { chosen = run; });
  return *verb;
}

void add_replay(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  const Run run = [flags](Session& session) { return replay(flags->replay, session); };
  ReplayOptions& options = flags->replay;
  CLI::App& verb =
      add_verb(app, "replay", "Run the calls of a dump again and judge them", run, chosen, *flags);
  add_jobs(verb, flags->common);
  verb.add_option("dump", options.dump, "The folder of ATTNJIT_DUMP_CALLS, or a file in it")
      ->required();
  verb.add_option("--on", options.on, "gpu, cpu, or auto (default): a GPU where there is one");
  verb.add_option("--arch", options.arch, "On the CPU: whose kernels to run, default the call's");
  verb.add_option(
      "--path", options.path,
      "Main loops in place of the call's: auto, mma, wgmma, single_tile or shared_bias");
  verb.add_option(
      "--config", options.config,
      "Configuration in place of the call's, as a JSON object or a file that holds one");
  verb.add_flag("--shrink", options.shrink, "Look for the smallest call that fails like it");
  verb.add_option("-o,--output", options.output, "Folder that gets the calls which --shrink finds");
}

void add_bench(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  const Run run = [flags](Session& session) {
    flags->bench.workload = flags->workload;
    return bench(flags->bench, session);
  };
  CLI::App& verb =
      add_verb(app, "bench", "Time problems on the GPU and write results", run, chosen, *flags);
  add_problem(verb, flags->workload, "--shapes,--manifest");
  add_path(verb, flags->workload);
  add_jobs(verb, flags->common);
  verb.add_option("--filter", flags->bench.filter, "Only problems with this in their name");
  verb.add_option("-o,--output", flags->bench.output, "File of results to write, JSON");
  verb.add_option("--git", flags->bench.git,
                  "Commit to name in the results: \"$(git describe --always --dirty)\"");
  verb.add_flag("--roofline", flags->bench.roofline,
                "With shares of the tensor peak and of copy bandwidth, at the clock of the row");
  verb.add_flag("--profile", flags->bench.profile,
                "With ten counters of the main kernel, by Nsight Compute (ncu)");
  verb.add_option("--html", flags->bench.html, "File for a page of the rows and their rooflines");
  verb.add_option("--peers", flags->bench.peers,
                  "Files of bench/peers.py, whose times --html shows beside; repeat it");
}

void add_tune(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  const Run run = [flags](Session& session) {
    flags->tune.workload = flags->workload;
    return tune(flags->tune, session);
  };
  CLI::App& verb = add_verb(app, "tune", "Measure which configuration is fastest, and keep records",
                            run, chosen, *flags);
  add_problem(verb, flags->workload);
  add_jobs(verb, flags->common);
  verb.add_flag("--force", flags->tune.force, "Measure problems again that have a record");
  verb.add_flag(
      "--stale", flags->tune.stale,
      "Measure problems again whose record is of another library, NVRTC or configuration 0");
  verb.add_option("--shard", flags->tune.shard,
                  "I/N: tune share I (from 0) of N of the manifest, equal ones by estimated cost");
  verb.add_option("--html", flags->tune.html, "File for a page of the candidates' times");

  CLI::App& worker =
      add_verb(app, "tune-worker", "What tune starts to measure in", tune_worker, chosen, *flags);
  add_jobs(worker, flags->common);
  worker.group("");  // hidden
}

void add_warmup(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  const Run run = [flags](Session& session) {
    flags->warmup.workload = flags->workload;
    return warmup(flags->warmup, session);
  };
  CLI::App& verb = add_verb(app, "warmup", "Compile the kernels of problems, without a GPU", run,
                            chosen, *flags);
  add_problem(verb, flags->workload);
  add_archs(verb, flags->workload, "sm_80, sm_90a, ...; default: the manifest's");
  add_jobs(verb, flags->common);
  verb.add_flag("--check", flags->warmup.check, "Compile nothing; exit 4 when one is missing");
}

void add_records(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  CLI::App* group =
      app.add_subcommand("records", "Look at tuning records, or carry them elsewhere");
  group->require_subcommand(1);
  const auto add = [&](const char* name, RecordsVerb verb, const char* help) -> CLI::App& {
    const Run run = [flags, verb](Session& session) {
      flags->records.verb = verb;
      return records(flags->records, session);
    };
    return add_verb(*group, name, help, run, chosen, *flags);
  };
  const auto add_files = [&](CLI::App& verb) {
    verb.add_option("files", flags->records.files, "Files of records, JSON lines")->required();
  };
  const auto add_output = [&](CLI::App& verb) {
    verb.add_option("-o,--output", flags->records.output, "File to write, default stdout");
  };
  add("ls", RecordsVerb::kList, "List the records of the cache directory")
      .add_flag("--shipped", flags->records.shipped,
                "List the records too that came with the library");
  add("show", RecordsVerb::kShow, "Print one record")
      .add_option("id", flags->records.id, "The id of a record, or its first digits")
      ->required();
  add_output(add("export", RecordsVerb::kExport, "Write all records as JSON lines"));
  add_files(add("import", RecordsVerb::kImport, "Take records over; the less noisy one stays"));
  CLI::App& merge = add("merge", RecordsVerb::kMerge, "Join files of records into one");
  add_files(merge);
  add_output(merge);
}

void add_bundles(CLI::App& group, const std::shared_ptr<Flags>& flags, Run& chosen) {
  const Run run_export = [flags](Session& session) {
    flags->bundle_export.workload = flags->workload;
    return cache_export(flags->bundle_export, session);
  };
  CLI::App& write = add_verb(group, "export", "Write kernels and tuning records into a bundle",
                             run_export, chosen, *flags);
  write.add_option("file", flags->bundle_export.file, "The bundle, FILE.atkb")->required();
  write.add_option("--manifest", flags->workload.manifest,
                   "Only members that its problems need; exit 4 when one is missing");
  add_archs(write, flags->workload, "Only for these; default all, or the manifest's");

  const Run run_import = [flags](Session& session) {
    return cache_import(flags->bundle_import, session);
  };
  add_verb(group, "import", "Copy the members of a bundle into the cache directory", run_import,
           chosen, *flags)
      .add_option("file", flags->bundle_import, "The bundle")
      ->required();
}

void add_cache(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  CLI::App* group = app.add_subcommand("cache", "Look at the kernels on disk, or remove them");
  group->require_subcommand(1);
  const auto add = [&](const char* name, CacheVerb verb, const char* help) -> CLI::App& {
    const Run run = [flags, verb](Session& session) {
      flags->cache.verb = verb;
      return cache(flags->cache, session);
    };
    return add_verb(*group, name, help, run, chosen, *flags);
  };
  add("path", CacheVerb::kPath, "Print the directory");
  add("ls", CacheVerb::kList, "List the kernels");
  add("show", CacheVerb::kShow, "Print the facts of one kernel")
      .add_option("key", flags->cache.key, "The key of a kernel, or its first digits")
      ->required();
  add("stat", CacheVerb::kStat, "Count kernels and records, and print the limits");
  add("verify", CacheVerb::kVerify, "Read every kernel and record and check it");
  add("gc", CacheVerb::kCollect,
      "Remove what killed writers left, and above the limits the least recently used kernels");
  add("clear", CacheVerb::kClear, "Remove all kernels");
  add_bundles(*group, flags, chosen);
}

void add_verbs(CLI::App& app, const std::shared_ptr<Flags>& flags, Run& chosen) {
  add_verb(app, "doctor", "Show what was found on this machine, and how to get what is missing",
           doctor, chosen, *flags);
  const Run run_plan = [flags](Session& session) { return plan(flags->workload, session); };
  CLI::App& plan_verb =
      add_verb(app, "plan", "Which kernels a problem runs, with which configuration and why",
               run_plan, chosen, *flags);
  add_problem(plan_verb, flags->workload);
  add_path(plan_verb, flags->workload);
  add_target(plan_verb, flags->workload);

  const Run run_explain = [flags](Session& session) { return explain(flags->workload, session); };
  CLI::App& explain_verb =
      add_verb(app, "explain", "Where a problem's time goes, and what would make it faster",
               run_explain, chosen, *flags);
  add_problem(explain_verb, flags->workload);

  const Run run_emit = [flags](Session& session) {
    flags->emit.workload = flags->workload;
    return emit(flags->emit, session);
  };
  CLI::App& emit_verb =
      add_verb(app, "emit", "Write a kernel as source or binary, or compile and tell its facts",
               run_emit, chosen, *flags);
  add_problem(emit_verb, flags->workload);
  add_path(emit_verb, flags->workload);
  add_target(emit_verb, flags->workload);
  add_jobs(emit_verb, flags->common);
  emit_verb.add_option("--format", flags->emit.format,
                       "cuda, stub, ptx, cubin or facts; default cuda, for --manifest facts");
  emit_verb.add_option("-o,--output", flags->emit.output, "File to write, default stdout");
  emit_verb.add_option("--step", flags->emit.step,
                       "Kernel of the plan, by number or name; default attn_fwd or attn_bwd_dkv");

  const Run run_run = [flags](Session& session) {
    flags->run.workload = flags->workload;
    return run(flags->run, session);
  };
  CLI::App& run_verb =
      add_verb(app, "run", "Run problems on random inputs and compare with the reference", run_run,
               chosen, *flags);
  add_problem(run_verb, flags->workload);
  add_path(run_verb, flags->workload);
  add_archs(run_verb, flags->workload, "On the CPU: whose kernels to run, default sm_90a");
  add_config(run_verb, flags->workload);
  add_jobs(run_verb, flags->common);
  run_verb.add_option("--on", flags->run.on,
                      "gpu, cpu, or auto (default): a GPU where there is one");
  run_verb.add_option("--rows", flags->run.rows,
                      "Query rows to check: a number, or all (a backward: always all); default: as "
                      "many as take seconds");
  run_verb.add_flag("--time", flags->run.time,
                    "On a GPU: time the problems as well, as bench does");
  add_replay(app, flags, chosen);
  add_bench(app, flags, chosen);
  add_tune(app, flags, chosen);
  add_warmup(app, flags, chosen);
  add_records(app, flags, chosen);
  add_cache(app, flags, chosen);
}

std::string version() {
  const std::string_view built_from = checkout();
  if (built_from.empty()) return "attnjit " ATTNJIT_VERSION;
  return fmt::format("attnjit {} ({})", ATTNJIT_VERSION, built_from);
}

// "a, b, c" of the verbs of `group` that help shows; empty where it is a verb itself.
std::string verbs_of(const CLI::App& group) {
  std::string names;
  for (const CLI::App* verb : group.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_group().empty()) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", verb->get_name());
  }
  return names;
}

// What `verb` lacks of what it needs; nullopt where that is something else.
std::optional<std::string> missing(const CLI::App& verb) {
  if (const std::string verbs = verbs_of(verb); !verbs.empty()) {
    return fmt::format("expected one of {}", verbs);
  }
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_required() || option->count() != 0) continue;
    std::string name = option->get_name();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    return fmt::format("{} is missing: {}", name, option->get_description());
  }
  return std::nullopt;
}

// The arguments that no verb takes, in the order of the command line. CLI11 lists them backwards.
std::string unexpected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  return fmt::format("unexpected argument{} {}", words.size() == 1 ? "" : "s",
                     fmt::join(words, " "));
}

// A wrong first word would otherwise be reported as a missing one.
std::string message(const CLI::App& app, const CLI::Error& error, int argc,
                    const char* const* argv) {
  const CLI::App* verb = &app;
  std::string words;  // " cache show"
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().front();
    words += ' ' + verb->get_name();
  }
  std::string text = error.what();
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool exceeds = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (verb == &app && argc > 1 && argv[1][0] != '-') {
    text = fmt::format("'{}' is not a verb; {}", argv[1], missing(app).value_or(""));
  } else if (lacks || exceeds) {
    text = exceeds ? unexpected(app) : missing(*verb).value_or(text);
    if (!words.empty()) text = fmt::format("{}: {}", words.substr(1), text);
  }
  return fmt::format("attnjit: error: {}; attnjit{} --help lists the options\n", text, words);
}

}  // namespace

Parsed parse_arguments(int argc, const char* const* argv) {
  const auto flags = std::make_shared<Flags>();
  Run chosen;
  CLI::App app("Attention kernels, specialised at run time", "attnjit");
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  app.failure_message(
      [&](const CLI::App*, const CLI::Error& error) { return message(app, error, argc, argv); });
  add_verbs(app, flags, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool done = app.exit(error) == 0;
    return {std::nullopt, done ? ExitCode::kDone : ExitCode::kUsage};
  }
  return {Command{flags->common, chosen}, ExitCode::kDone};
}

}  // namespace attnjit::cli
