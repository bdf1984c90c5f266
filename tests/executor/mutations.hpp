#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <set>
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

/// Whether mutations are only looked for in the templates, and nothing runs. So CI learns that a
/// slow mutation has lost its text.
inline bool only_texts() { return std::getenv("ATTNJIT_MUTATION_TEXTS") != nullptr; }

class Mutations {
 public:
  Mutations() = default;
  /// On a device of that many SMs.
  explicit Mutations(int sm_count) { arch_.sm_count = sm_count; }

  /// Expects the kernels of `run` to be right as they are, and to lead to a report that has all of
  /// `parts` once `mutation` is made. In CI an eighth of the mutations of a case run, as of
  /// problems; of the others it is checked that the templates have their text.
  void expect_report(const Mutation& mutation, const Run& run,
                     const std::vector<std::string>& parts) {
    CAPTURE(mutation.before);
    CAPTURE(mutation.after);
    const codegen::TemplateSet templates =
        changed_templates(mutation.file, mutation.before, mutation.after);
    if (only_texts() || original_.leaves_out()) return;
    if (right_.insert(instance::describe(run.spec) + run.config).second) {
      CHECK(report_of(original_, run) == "");
    }
    Bench changed(templates);
    const std::string report = report_of(changed, run);
    CAPTURE(report);
    for (const std::string& part : parts) {
      CAPTURE(part);
      CHECK(report.find(part) != std::string::npos);
    }
  }
  /// Expects the fence of wgmma ahead of `products` in `file` to be asked for.
  void expect_fence(const std::string& file, const std::string& products, const Run& run) {
    expect_report({file, "ptx::wgmma_fence();\n    " + products, products}, run,
                  {"begins a group of products: wgmma_fence is missing"});
  }

 private:
  std::string report_of(Bench& bench, const Run& run) const {
    return run.spec.backward ? bench.backward(run.spec, arch_, run.config)
                             : bench.forward(run.spec, arch_, run.config);
  }

  // The combine step overlaps the forward there.
  codegen::Arch arch_ = codegen::find_arch("sm_90a");
  Bench original_;
  std::set<std::string> right_;  // runs that the kernels have done as they are
};

class OneSmMutations : public Mutations {
 public:
  OneSmMutations() : Mutations(1) {}
};

}  // namespace attnjit::executor_test
