#pragma once
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "bench.hpp"
#include "changed_templates.hpp"

namespace attnjit::executor_test {

/// A kernel's text with one thing changed.
struct Mutation {
  std::string file;
  std::string before;
  std::string after;
};

/// The problem and the configuration that a mutated kernel runs.
struct Run {
  instance::ProblemSpec spec;
  std::string config = "{}";
};

class Mutations {
 public:
  /// Expects the kernels of `run` to be right as they are, and to lead to a report that has all of
  /// `parts` once `mutation` is made.
  void expect_report(const Mutation& mutation, const Run& run,
                     const std::vector<std::string>& parts) {
    CAPTURE(mutation.before);
    CAPTURE(mutation.after);
    CHECK(report_of(original_, run) == "");
    Bench changed(changed_templates(mutation.file, mutation.before, mutation.after));
    const std::string report = report_of(changed, run);
    CAPTURE(report);
    for (const std::string& part : parts) {
      CAPTURE(part);
      CHECK(report.find(part) != std::string::npos);
    }
  }

 private:
  std::string report_of(Bench& bench, const Run& run) const {
    return run.spec.backward ? bench.backward(run.spec, arch_, run.config)
                             : bench.forward(run.spec, arch_, run.config);
  }

  // The combine step overlaps the forward there.
  const codegen::Arch& arch_ = codegen::find_arch("sm_90a");
  Bench original_;
};

}  // namespace attnjit::executor_test
