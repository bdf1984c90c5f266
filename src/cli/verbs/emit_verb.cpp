#include <unistd.h>

#include <iterator>
#include <span>
#include <string_view>

#include "base/json.hpp"
#include "cli/input/words.hpp"
#include "cli/report/output_file.hpp"
#include "cli/verbs/sweep_report.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/planning.hpp"

namespace attnjit::cli {
namespace {

enum class Format { kCuda, kStub, kPtx, kCubin, kFacts };

constexpr Word<Format> kFormats[] = {{"cuda", Format::kCuda},
                                     {"stub", Format::kStub},
                                     {"ptx", Format::kPtx},
                                     {"cubin", Format::kCubin},
                                     {"facts", Format::kFacts}};

// The bytes of one kernel in one of its forms.
std::string contents(Format format, const Planned& planned, const PlannedStep& step,
                     Session& session) {
  const codegen::Source& source = step.spec.source;
  runtime::Engine& engine = session.engine();
  switch (format) {
    case Format::kCuda:
      return source.text;
    case Format::kStub:
      return source.stub;
    case Format::kPtx:
      return engine.compiler().ptx(source.text, source.entry, std::string(planned.arch->name));
    case Format::kCubin: {
      const auto entry =
          engine.kernel(source, *planned.arch, {planned.problem, planned.manifest_line});
      return {reinterpret_cast<const char*>(entry->cubin.data()), entry->cubin.size()};
    }
    case Format::kFacts:
      break;
  }
  throw Error(ErrorKind::kInternal, "facts have no contents to write");
}

void check_output(Format format, const EmitOptions& options, Console& console) {
  if (format != Format::kCubin || !options.output.empty()) return;
  if (console.json()) {
    usage_error("--format cubin: JSON cannot hold a cubin; add -o FILE");
  }
  if (::isatty(STDOUT_FILENO) != 0) {
    usage_error("--format cubin: not written to a terminal; add -o FILE or redirect stdout");
  }
}

void report(const std::string& bytes, const EmitOptions& options, std::string_view format,
            const Planned& planned, const PlannedStep& step, Console& console) {
  Json object = {{"format", format},
                 {"arch", planned.arch->name},
                 {"entry", step.spec.source.entry},
                 {"title", step.spec.source.title},
                 {"key", step.key.text()},
                 {"bytes", bytes.size()}};
  if (options.output.empty() && !console.json()) {
    console.out() << bytes;
  } else if (options.output.empty()) {
    object["text"] = bytes;
  } else {
    write_file(options.output, bytes);
    object["file"] = options.output;
    console.note("{}: {} bytes, {} of [{}] for {}", options.output, bytes.size(), format,
                 step.spec.source.title, planned.arch->name);
  }
  console.print_json(object);
}

// Compiles every kernel of the workload and tells what the compiler says of each.
ExitCode emit_facts(const Workload& workload, const EmitOptions& options, Session& session) {
  if (!options.output.empty()) {
    usage_error("-o goes with --format cuda, stub, ptx and cubin; redirect stdout to keep facts");
  }
  Planner planner(session.engine(), read_config(options.workload.config), session.device_classes(),
                  read_path(options.workload.path));
  const auto make_plan = [&](const Case& job, const codegen::Arch& arch) {
    return std::vector<Planned>{planner.plan(job, arch)};
  };
  Sweep sweep =
      list_kernels(workload.cases, choose_archs(workload, session), make_plan, options.step);
  compile_all(sweep, session);
  return report_sweep(sweep, session);
}

}  // namespace

ExitCode emit(const EmitOptions& options, Session& session) {
  const Workload workload = load_workload(options.workload, session.console());
  const std::string name = !options.format.empty()  ? options.format
                           : workload.from_manifest ? "facts"
                                                    : "cuda";
  const Format format = choose("--format", name, kFormats);
  if (format == Format::kFacts) return emit_facts(workload, options, session);

  check_output(format, options, session.console());
  const auto archs = choose_archs(workload, session);
  if (workload.cases.size() * archs.size() != 1) {
    usage_error(
        "--format {} writes one kernel, of one problem for one architecture; {} problems "
        "and {} architectures were given; narrow them down or use --format facts",
        name, workload.cases.size(), archs.size());
  }
  Planner planner(session.engine(), read_config(options.workload.config), session.device_classes(),
                  read_path(options.workload.path));
  const Planned planned = planner.plan(workload.cases.front(), *archs.front());
  const PlannedStep& step = pick_step(planned, options.step);
  report(contents(format, planned, step, session), options, name, planned, step, session.console());
  return ExitCode::kDone;
}

}  // namespace attnjit::cli
