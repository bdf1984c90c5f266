#pragma once
#include <string>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/planning.hpp"
#include "compiler/facts.hpp"

namespace attnjit::cli {

/// One distinct kernel of a sweep and what became of it.
struct SweptKernel {
  enum class State { kCompiled, kCached, kFailed };

  PlannedStep step;
  const codegen::Arch* arch = nullptr;
  std::string problem;  ///< the first that needs it, described

  State state = State::kFailed;
  compiler::Facts facts;
  std::size_t cubin_bytes = 0;
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

/// Plans every case on every architecture and lists the kernels, each once. With a `step`, only
/// the steps that pick_step() picks. A case that cannot be planned becomes a failed kernel without
/// a source.
Sweep list_kernels(const std::vector<Case>& cases, const std::vector<const codegen::Arch*>& archs,
                   Planner& planner, const std::string& step);

/// Gets every listed kernel from the cache or the compiler, on the environment's number of threads.
void compile_all(Sweep& sweep, Session& session);

}  // namespace attnjit::cli
