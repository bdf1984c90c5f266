// Sinks, softcaps, slopes, diagonals and batch groups at their extremes: in both passes, on each
// path of the GPU.
#include <limits>
#include <memory>
#include <vector>

#include "gpu.hpp"
#include "runtime/call/dispatcher.hpp"

namespace attnjit {
namespace {

using codegen::Path;
using gpu_test::all_cores;
using gpu_test::causal;
using instance::HostProblem;
using instance::ProblemSpec;
using tensor::MaskKind;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The paths of a GPU, which outlives it. Whatever a case asks for, each path serves a part of it.
class Paths {
 public:
  explicit Paths(gpu_test::Gpu& gpu) : gpu_(gpu) {
    add(Path::kMma);
    if (codegen::find_arch(cuda::current_device(*gpu.driver).arch()).wgmma) add(Path::kWgmma);
  }
  ~Paths() {
    for (const Served& path : paths_) {
      CAPTURE(base::word(path.path));
      CHECK(path.forwards > 0);
      CHECK(path.backwards > 0);
    }
  }

  /// Expects a forward to be right, and a backward with every gradient there is, by kernels that
  /// may use atomics and by those that may not.
  void expect_right(ProblemSpec spec) {
    expect_forward(spec);
    spec.backward = spec.want_dlse = true;
    spec.want_dbias = !spec.bias.empty();
    spec.want_dsink = spec.use_sink;
    for (const bool deterministic : {false, true}) {
      spec.deterministic = deterministic;
      for (Served& path : paths_) {
        path.backwards += expect(path, spec, [&](HostProblem& problem) {
          return gpu_test::run_backward(*path.dispatcher, *gpu_.driver, problem,
                                        reference::Planes::every(), all_cores());
        });
      }
    }
  }
  void expect_forward(const ProblemSpec& spec) {
    for (Served& path : paths_) {
      path.forwards += expect(path, spec, [&](HostProblem& problem) {
        return gpu_test::run(*path.dispatcher, *gpu_.driver, problem, reference::Rows::every(),
                             all_cores());
      });
    }
  }

 private:
  struct Served {
    Path path;
    std::unique_ptr<runtime::Dispatcher> dispatcher;
    int forwards = 0, backwards = 0;
  };

  void add(Path path) {
    paths_.push_back(
        {path, std::make_unique<runtime::Dispatcher>(base::process_environment(), base::Log::Sink{},
                                                     nullptr, runtime::Engine::Spaces{}, path)});
  }

  // Whether the path serves the problem, which is right then; mma serves all.
  template <class Run>
  bool expect(const Served& path, const ProblemSpec& spec, Run run) {
    CAPTURE(base::word(path.path));
    CAPTURE(instance::describe(spec));
    HostProblem problem(spec, all_cores());
    try {
      const auto verdict = run(problem);
      INFO(verdict.text);
      CHECK(verdict.pass);
      return true;
    } catch (const Error& error) {
      if (path.path == Path::kMma || error.kind() != ErrorKind::kUnsupported) throw;
      return false;
    }
  }

  gpu_test::Gpu& gpu_;
  std::vector<Served> paths_;
};

// Rows of 304 keys are aligned, and 200 rows end within a tile.
ProblemSpec layer(std::int64_t head_dim) {
  return {.batch = 2,
          .heads_q = 8,
          .heads_kv = 2,
          .seqlen_q = 200,
          .seqlen_kv = 304,
          .head_dim = head_dim};
}

ProblemSpec with_mask(ProblemSpec spec, const char* pattern, MaskKind kind) {
  spec.mask = pattern;
  spec.mask_kind = kind;
  return spec;
}

TEST_CASE("features: sinks of none, 80, -1e30 and of size, with live rows and dead ones") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  for (const std::int64_t head_dim : {64, 128, 256}) {
    ProblemSpec spec = layer(head_dim);
    spec.use_sink = true;
    spec.sinks = {0.5f, -kInfinity, 80.0f, -1e30f};
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
      spec.sink_dtype = dtype;
      paths.expect_right(spec);
      paths.expect_right(with_mask(spec, "b1qk", MaskKind::kDeadRows));
    }
    paths.expect_right(causal(spec, Diagonal::kBottomRight));
  }
}

TEST_CASE("features: sinks where every key is masked, or there is none") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  for (const std::int64_t head_dim : {64, 128, 256}) {
    ProblemSpec spec = layer(head_dim);
    spec.use_sink = true;
    for (const std::vector<float>& sinks :
         {std::vector{-kInfinity}, {80.0f}, {-1e30f}, {0.5f, -kInfinity, 80.0f, -1e30f}}) {
      spec.sinks = sinks;
      paths.expect_right(with_mask(spec, "b1qk", MaskKind::kAllFalse));
      paths.expect_right(with_mask(spec, "b11k", MaskKind::kAllFalse));
    }
    spec.seqlen_kv = 0;
    paths.expect_right(spec);
  }
}

TEST_CASE("features: sinks of a few rows over split keys") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  ProblemSpec spec = layer(128);
  spec.use_sink = true;
  spec.sinks = {-kInfinity, 80.0f, -1e30f, 0.5f};
  spec.seqlen_q = 2;
  spec.seqlen_kv = 8192;
  paths.expect_right(spec);
  paths.expect_right(with_mask(spec, "b11k", MaskKind::kAllFalse));
}

TEST_CASE("features: softcaps of 1e-3 and 1e4") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const float softcap : {1e-3f, 1e4f}) {
      ProblemSpec spec = layer(head_dim);
      spec.softcap = softcap;
      for (const char* bias : {"", "b11k", "1hqk"}) {
        spec.bias = bias;
        paths.expect_right(spec);
      }
      spec.bias.clear();
      paths.expect_right(causal(spec, Diagonal::kTopLeft));
      spec.scale = 2.0f;
      paths.expect_right(spec);
    }
  }
}

TEST_CASE("features: slopes of ALiBi that are 0 and negative") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const char* alibi : {"h", "bh"}) {
      ProblemSpec spec = layer(head_dim);
      spec.alibi = alibi;
      spec.slopes = {0.0f, -0.25f, 0.5f, -3.0f, -1e-3f};
      for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
        spec.diagonal = diagonal;
        paths.expect_right(spec);
        paths.expect_right(causal(spec, diagonal));
      }
      spec.slopes = {0.0f};
      paths.expect_right(spec);
    }
  }
}

TEST_CASE("features: a diagonal that moves, off the tensors as well") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  for (const std::int64_t head_dim : {64, 128}) {
    ProblemSpec spec = layer(head_dim);
    spec.poison_dropped_keys = true;
    for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
      for (const std::int64_t offset : {-400, -61, 1, 77, 400, 1 << 29, -(1 << 29)}) {
        spec.diagonal_offset = offset;
        paths.expect_right(causal(spec, diagonal));
        ProblemSpec window = spec;
        window.diagonal = diagonal;
        window.window = {90, 20};
        paths.expect_right(window);
      }
    }
  }
}

TEST_CASE("features: planes of mask and bias that batch elements share in groups") {
  ATTNJIT_NEED_GPU(gpu);
  Paths paths(gpu);
  for (const std::int64_t head_dim : {32, 128}) {
    ProblemSpec spec = layer(head_dim);
    spec.batch = 6;
    for (const char* bias :
         {"shqk/2", "s1qk/3", "sh1k/3", "sgqk/2", "s11k/2", "shq1/3", "phqk/3x1", "p11k/2x1"}) {
      spec.bias = bias;
      spec.mask.clear();
      paths.expect_right(spec);
      paths.expect_right(with_mask(spec, "b11k", MaskKind::kScattered));
    }
    spec.bias.clear();
    for (const char* mask : {"s1qk/3", "shqk/2", "s11k/2", "p1qk/3x1", "ph1k/2x1"}) {
      paths.expect_right(with_mask(spec, mask, MaskKind::kBlocks));
      paths.expect_right(with_mask(spec, mask, MaskKind::kDeadBatch));
    }
  }
}

}  // namespace
}  // namespace attnjit
