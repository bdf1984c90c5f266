#pragma once
#include <string>

#include "mutations.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test {

/// Expects problems to be right in both passes and on both paths.
class BothPasses : public Mutations {
 public:
  static constexpr const char* kWgmma =
      R"({"path":"wgmma","block_q":64,"block_kv":64,"num_stages":2})";

  /// The backward of a problem; a bias that may have a gradient gets one.
  static instance::ProblemSpec gradients(instance::ProblemSpec spec) {
    spec.backward = spec.want_dlse = true;
    spec.want_dbias = !spec.bias.empty() && spec.key_indices.empty();
    return spec;
  }

  void expect_right(const instance::ProblemSpec& spec, const std::string& config = "{}") {
    if (bench_.leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    const codegen::Arch& arch = codegen::find_arch("sm_90a");
    CHECK((spec.backward ? bench_.backward(spec, arch, config)
                         : bench_.forward(spec, arch, config)) == "");
  }
  /// Both passes, by turns on the one path and on the other.
  void expect_both_right(const instance::ProblemSpec& spec) {
    const bool first = turn_++ % 2 == 0;
    expect_right(spec, first ? kWgmma : "{}");
    expect_right(gradients(spec), first ? "{}" : wgmma_backward(64));
  }

 protected:
  Bench bench_;

 private:
  int turn_ = 0;
};

}  // namespace attnjit::executor_test
