#include <doctest/doctest.h>

#include <string>

#include "base/json.hpp"
#include "cli/work/bench/bench_machine.hpp"
#include "cli/work/bench/bench_row.hpp"
#include "instance/host_problem.hpp"

namespace attnjit::cli {
namespace {

instance::ProblemSpec spec_of(std::int64_t seqlen_q, std::int64_t seqlen_kv) {
  instance::ProblemSpec spec;
  spec.batch = 3;
  spec.heads_q = 4;
  spec.heads_kv = 2;
  spec.seqlen_q = seqlen_q;
  spec.seqlen_kv = seqlen_kv;
  spec.head_dim = 8;
  spec.head_dim_v = 16;
  return spec;
}

Work work_of(const instance::ProblemSpec& spec) {
  return count_work(instance::HostProblem(spec, 1).args());
}

// FLOP of `scores` scores in each plane of spec_of().
double flop(double scores) { return 2.0 * (8 + 16) * 3 * 4 * scores; }

TEST_CASE("work counts both products over all scores, and k and v once") {
  const Work work = work_of(spec_of(10, 20));
  CHECK(work.flop == flop(10 * 20));
  CHECK(work.kv_bytes == 3 * 2 * 20 * (8 + 16) * 2);
}

TEST_CASE("packed sequences of paged keys have the work of a batch") {
  instance::ProblemSpec spec = spec_of(10, 20);
  spec.page_size = 5;
  const Work batch = work_of(spec);
  CHECK(batch.flop == flop(10 * 20));
  CHECK(batch.kv_bytes == 3 * 2 * 20 * (8 + 16) * 2);
  spec.packed = true;
  spec.seqlen_q = 30;
  spec.cu_seqlens_q = {0, 10, 20, 30};
  CHECK(work_of(spec).flop == batch.flop);
  CHECK(work_of(spec).kv_bytes == batch.kv_bytes);
}

TEST_CASE("causal work is what the diagonal leaves") {
  instance::ProblemSpec spec = spec_of(10, 10);
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  CHECK(work_of(spec).flop == flop(55));
  spec = spec_of(2, 10);
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  CHECK(work_of(spec).flop == flop(9 + 10));
  spec.diagonal = Diagonal::kTopLeft;
  CHECK(work_of(spec).flop == flop(1 + 2));
  spec = spec_of(10, 2);
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  CHECK(work_of(spec).flop == flop(1 + 2));
}

TEST_CASE("a backward has five products to the forward's two") {
  const instance::HostProblem host(spec_of(10, 20), 1);
  CHECK(count_work(host.args(), true).flop == 2.5 * flop(10 * 20));
  Case job{"small backward", "", spec_of(10, 20)};
  CHECK_FALSE(problem_json(job).contains("pass"));
  job.spec.backward = job.spec.deterministic = true;
  CHECK(problem_json(job).at("pass") == "backward");
  CHECK(problem_json(job).at("dbias") == false);
  CHECK(problem_json(job).at("deterministic") == true);
}

TEST_CASE("windows and seqlens lower the work, masks and biases do not") {
  instance::ProblemSpec spec = spec_of(10, 10);
  spec.window = {1, 1};
  spec.diagonal = Diagonal::kTopLeft;
  CHECK(work_of(spec).flop == flop(2 + 8 * 3 + 2));
  spec = spec_of(10, 10);
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {10, 0, 5};
  CHECK(work_of(spec).flop == flop(10 * 10 + 10 * 0 + 10 * 5) / 3);
  spec = spec_of(10, 10);
  spec.mask = "bhqk";
  spec.bias = "11qk";
  CHECK(work_of(spec).flop == flop(10 * 10));
}

TEST_CASE("a result row names problem, time, rates and configuration") {
  Case job{"small", "", spec_of(10, 20)};
  job.spec.mask = "b11k";
  job.spec.causal = true;
  job.spec.diagonal = Diagonal::kBottomRight;
  Measurement measured;
  measured.round_ms = {0.5, 1.00000049, 2};
  measured.work = {2e9, 3e9};
  measured.workspace_bytes = 256;
  measured.tile = "q64 kv64 s2 w4 b2";
  measured.config_from = "configuration 0";
  CHECK(measured.spread() == doctest::Approx(3.0));
  const Json row = row_json(job, measured);
  CHECK(row.at("name") == "small");
  CHECK(row.at("problem") == instance::describe(job.spec));
  CHECK(row.at("heads_kv") == 2);
  CHECK(row.at("head_dim_v") == 16);
  CHECK(row.at("causal") == true);
  CHECK(row.at("diagonal") == "bottom-right");
  CHECK(row.at("mask") == "b11k");
  CHECK(row.at("ms") == 1.0);
  CHECK(row.at("round_ms") == Json{0.5, 1.0, 2.0});
  CHECK(row.at("tflops") == 2.0);
  CHECK(row.at("kv_tb_per_s") == 3.0);
  CHECK(row.at("workspace_bytes") == 256);
  CHECK(row.at("tile") == "q64 kv64 s2 w4 b2");
  CHECK(row.at("config_from") == "configuration 0");
  CHECK(problem_json({"plain", "", spec_of(1, 1)}).at("diagonal") == nullptr);
}

TEST_CASE("a report says when and where") {
  const std::string now = utc_now();
  CHECK(now.size() == std::string("2026-01-01T00:00:00Z").size());
  CHECK(now.back() == 'Z');
  cuda::DeviceInfo device;
  device.name = "Stub 9000";
  device.major = 9;
  device.sm_count = 3;
  CHECK(device_json(device) == Json{{"name", "Stub 9000"}, {"arch", "sm_90a"}, {"sms", 3}});
  CHECK(query_gpus().is_array());  // empty on a machine without nvidia-smi
}

}  // namespace
}  // namespace attnjit::cli
