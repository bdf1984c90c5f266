#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/exit_code.hpp"
#include "cli/work/planning.hpp"
#include "compiler/facts.hpp"

namespace attnjit::cli {

/// One distinct kernel of a sweep and what became of it.
struct SweptKernel {
  /// kListed: not asked for yet. kCompiled: by this process. kCached: it was on disk,
  /// kBundled: in a bundle.
  enum class State { kListed, kCompiled, kCached, kBundled, kMissing, kFailed };

  PlannedStep step;
  const codegen::Arch* arch = nullptr;
  problem::ProblemText problem;  ///< the first that needs it

  State state = State::kListed;
  std::optional<compiler::Facts> facts;  ///< nullopt too where its metadata does not hold them
  std::size_t cubin_bytes = 0;
  double compile_ms = 0;                    ///< of kCompiled: waiting for a lock included
  std::optional<std::string> why_not_kept;  ///< why it is in no file, if it was compiled or found
  std::string error;
  ExitCode code = ExitCode::kDone;
};

/// A step of a problem on an architecture; several may need the same kernel.
struct SweepRow {
  std::string problem;  ///< the name of its case
  std::size_t kernel = 0;
  bool first = true;  ///< no row before it needs this kernel
};

struct Sweep {
  std::vector<SweepRow> rows;
  std::vector<SweptKernel> kernels;

  std::size_t count(SweptKernel::State state) const;
};

/// Makes the plans of a case on an architecture.
using MakePlans = std::function<std::vector<Planned>(const Case&, const codegen::Arch&)>;

/// Plans every case on every architecture and lists the kernels, each once. With a `step`, only
/// the steps that pick_step() picks. A case that cannot be planned becomes a failed kernel without
/// a source.
Sweep list_kernels(const std::vector<Case>& cases, const std::vector<const codegen::Arch*>& archs,
                   const MakePlans& make_plans, const std::string& step = "");

/// Gives the kernels of `sweep` that `before` has too the results that they have there.
void keep_results(const Sweep& before, Sweep& sweep);

/// The kernels of `sweep` in the order in which threads compile them soonest: those with the most
/// shared memory, whose tiles are the largest, take longest, and none of them should be the last.
std::vector<std::size_t> compile_order(const Sweep& sweep);

/// Gets every listed kernel from the cache or the compiler, on the environment's number of threads.
void compile_all(Sweep& sweep, Session& session);

/// Looks every listed kernel up in bundles and on disk and compiles nothing: those that are not
/// there are missing.
void look_up_all(Sweep& sweep, Session& session);

}  // namespace attnjit::cli
