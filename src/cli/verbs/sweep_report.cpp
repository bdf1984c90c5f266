#include "cli/verbs/sweep_report.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/fields_json.hpp"
#include "cli/report/kept.hpp"
#include "cli/report/table.hpp"
#include "runtime/call/counters.hpp"

namespace attnjit::cli {
namespace {

// The place where a kernel was, or what became of it, as --json has it.
const char* from(SweptKernel::State state) {
  switch (state) {
    case SweptKernel::State::kListed:
      break;
    case SweptKernel::State::kCompiled:
      return "compiled";
    case SweptKernel::State::kCached:
      return "cache";
    case SweptKernel::State::kBundled:
      return "bundle";
    case SweptKernel::State::kMissing:
      return "missing";
    case SweptKernel::State::kFailed:
      return "failed";
  }
  return "";
}

std::string state_text(const SweepRow& row, const SweptKernel& kernel) {
  if (kernel.state == SweptKernel::State::kFailed) return "FAILED";
  if (kernel.state == SweptKernel::State::kMissing) return "MISSING";
  return row.first ? from(kernel.state) : "same kernel";
}

bool is_there(const SweptKernel& kernel) {
  return kernel.state == SweptKernel::State::kCompiled ||
         kernel.state == SweptKernel::State::kCached ||
         kernel.state == SweptKernel::State::kBundled;
}

int spill_bytes(const compiler::Facts& facts) {
  return facts.spill_store_bytes + facts.spill_load_bytes;
}

double shared_bytes(const SweptKernel& kernel) {
  return static_cast<double>(kernel.step.spec.shared_bytes) + kernel.facts->static_shared_bytes;
}

// Registers, spills, shared memory, size and time, as far as they are known.
std::vector<std::string> numbers(const SweptKernel& kernel) {
  std::vector<std::string> cells(5, "-");
  if (kernel.facts) {
    cells[0] = fmt::to_string(kernel.facts->registers);
    cells[1] = fmt::to_string(spill_bytes(*kernel.facts));
    cells[2] = fmt::format("{:.1f}", shared_bytes(kernel) / 1024);
  }
  if (is_there(kernel)) {
    cells[3] = fmt::format("{:.1f}", static_cast<double>(kernel.cubin_bytes) / 1024);
  }
  if (kernel.state == SweptKernel::State::kCompiled) {
    cells[4] = fmt::format("{:.0f}", kernel.compile_ms);
  }
  return cells;
}

std::vector<std::string> cells(const SweepRow& row, const SweptKernel& kernel) {
  const std::string& entry = kernel.step.spec.source.entry;
  std::vector<std::string> start = {row.problem, std::string(kernel.arch->name),
                                    entry.empty() ? "-" : entry,
                                    kernel.step.tile.empty() ? "-" : kernel.step.tile};
  std::ranges::move(numbers(kernel), std::back_inserter(start));
  start.push_back(state_text(row, kernel));
  return start;
}

std::size_t count_unkept(const Sweep& sweep) {
  return static_cast<std::size_t>(std::ranges::count_if(
      sweep.kernels, [](const SweptKernel& kernel) { return kernel.why_not_kept.has_value(); }));
}

Table make_table(const Sweep& sweep) {
  Table table({{"problem"},
               {"arch"},
               {"kernel"},
               {"tile"},
               {"regs", true},
               {"spill B", true},
               {"shared KiB", true},
               {"cubin KiB", true},
               {"ms", true},
               {"from"}});
  for (const SweepRow& row : sweep.rows) table.add(cells(row, sweep.kernels[row.kernel]));
  return table;
}

Json kernel_json(const SweptKernel& kernel) {
  Json object = {{"arch", kernel.arch->name}, {"problems", Json::array()}};
  if (!kernel.step.spec.source.entry.empty()) {
    object["entry"] = kernel.step.spec.source.entry;
    object["title"] = kernel.step.spec.source.title;
    object["tile"] = kernel.step.tile;
    object["shared_bytes"] = kernel.step.spec.shared_bytes;
    object["key"] = kernel.step.key.text();
  }
  object["from"] = from(kernel.state);
  if (!is_there(kernel)) {
    object["error"] = kernel.error;
    return object;
  }
  object["cubin_bytes"] = kernel.cubin_bytes;
  if (kernel.state == SweptKernel::State::kCompiled) object["compile_ms"] = kernel.compile_ms;
  if (kernel.facts) object["facts"] = base::parse_json(compiler::to_json(*kernel.facts));
  return object;
}

void print_json(const Sweep& sweep, const Counters& counters, Console& console) {
  Json kernels = Json::array();
  for (const SweptKernel& kernel : sweep.kernels) kernels.push_back(kernel_json(kernel));
  for (const SweepRow& row : sweep.rows) kernels[row.kernel]["problems"].push_back(row.problem);
  console.print_json({{"kernels", kernels},
                      {"compiled", sweep.count(SweptKernel::State::kCompiled)},
                      {"cached", sweep.count(SweptKernel::State::kCached)},
                      {"bundled", sweep.count(SweptKernel::State::kBundled)},
                      {"missing", sweep.count(SweptKernel::State::kMissing)},
                      {"failed", sweep.count(SweptKernel::State::kFailed)},
                      {"not_kept", count_unkept(sweep)},
                      {"counters", base::to_json_value(counters)}});
}

void print_text(const Sweep& sweep, Console& console) {
  console.print("{}", make_table(sweep).text());
  std::set<std::string> versions;
  for (const SweptKernel& kernel : sweep.kernels) {
    if (!kernel.facts) continue;
    if (!kernel.facts->nvrtc_version.empty()) versions.insert(kernel.facts->nvrtc_version);
    for (const std::string& warning : kernel.facts->warnings) {
      console.print("warning: [{}] for {}: {}", kernel.step.spec.source.title, kernel.arch->name,
                    warning);
    }
  }
  for (const std::string& version : versions) console.print("NVRTC {}", version);
  const auto more = [](std::size_t count, const char* what) {
    return count == 0 ? "" : fmt::format(", {} {}", count, what);
  };
  console.print("{} kernels: {} compiled, {} from cache, {} failed{}{}{}", sweep.kernels.size(),
                sweep.count(SweptKernel::State::kCompiled),
                sweep.count(SweptKernel::State::kCached), sweep.count(SweptKernel::State::kFailed),
                more(sweep.count(SweptKernel::State::kBundled), "from bundles"),
                more(sweep.count(SweptKernel::State::kMissing), "missing"),
                more(count_unkept(sweep), "not kept"));
}

}  // namespace

ExitCode report_sweep(const Sweep& sweep, Session& session) {
  print_text(sweep, session.console());
  print_json(sweep, runtime::counters(session.engine()), session.console());
  std::vector<ExitCode> codes;
  for (const SweepRow& row : sweep.rows) {
    const SweptKernel& kernel = sweep.kernels[row.kernel];
    codes.push_back(kernel.code);
    if (kernel.code != ExitCode::kDone && row.first) {
      session.console().error(
          fmt::format("{} on {}: {}", row.problem, kernel.arch->name, kernel.error));
    }
  }
  return combine(codes);
}

ExitCode report_kept_sweep(const Sweep& sweep, Session& session) {
  const ExitCode code = report_sweep(sweep, session);
  Kept kept;
  for (const SweptKernel& kernel : sweep.kernels) {
    if (kernel.code == ExitCode::kDone) kept.add(kernel.why_not_kept);
  }
  kept.report("kernels are", session.console());
  return kept.missing() == 0 ? code : kept.code();
}

}  // namespace attnjit::cli
