// Scores of the forward far from the reference that rows of the max-free softmax begin with.
#include "gpu.hpp"
#include "score_offsets.hpp"

namespace attnjit {
namespace {

TEST_CASE("scores up to 60 log2 units from the softmax's reference, of all keys or of some") {
  ATTNJIT_NEED_GPU(gpu);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t head_dim : {64, 128, 256}) {
      for (const char* bias : {"", "1hqk"}) {
        const instance::ProblemSpec spec{.dtype = dtype,
                                         .batch = 2,
                                         .heads_q = 2,
                                         .seqlen_q = 150,
                                         .seqlen_kv = 400,
                                         .head_dim = head_dim,
                                         .bias = bias};
        CAPTURE(instance::describe(spec));
        test::for_each_move([&](double offset, test::MovedKeys keys) {
          CAPTURE(offset);
          CAPTURE(static_cast<int>(keys));
          instance::HostProblem problem(spec, 1);
          test::move_scores(problem, offset, keys);
          gpu_test::run_on_mirror(*gpu.driver, problem,
                                  [&](check::DeviceMirror& mirror, CUstream stream) {
                                    gpu.context.forward(mirror.args(), stream);
                                  });
          CHECK(test::judge_moved(problem, gpu_test::all_cores()) == "");
        });
      }
    }
  }
}

}  // namespace
}  // namespace attnjit
