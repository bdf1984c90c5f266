#include "cli/input/cases.hpp"

#include <doctest/doctest.h>

#include "cli_fixtures.hpp"
#include "instance/host_problem.hpp"

namespace attnjit::cli {
namespace {

using test::error_of;

// Small problems that differ in all that a problem's canonical form depends on.
std::vector<instance::ProblemSpec> specs() {
  instance::ProblemSpec plain;
  plain.batch = 2;
  plain.heads_q = 4;
  plain.heads_kv = 2;
  plain.seqlen_q = 33;
  plain.seqlen_kv = 48;
  plain.head_dim = 32;
  instance::ProblemSpec bshd = plain;
  bshd.memory.layout = instance::Layout::kBshd;
  bshd.head_dim_v = 24;
  instance::ProblemSpec odd = plain;
  odd.head_dim = 33;
  odd.seqlen_kv = 47;
  odd.mask = "bgqk";
  odd.bias = "1hqk";
  odd.bias_dtype = DType::kFloat32;
  instance::ProblemSpec banded = plain;
  banded.causal = true;
  banded.window.left = 7;
  banded.diagonal = Diagonal::kBottomRight;
  banded.scale = 0.25f;
  banded.use_seqlens_q = banded.use_seqlens_kv = true;
  banded.mask = "b11k";
  instance::ProblemSpec no_lse = plain;
  no_lse.want_lse = false;
  no_lse.bias = "11q1";
  no_lse.dtype = DType::kFloat16;
  return {plain, bshd, odd, banded, no_lse};
}

TEST_CASE("a problem without tensors equals the one with tensors") {
  for (const instance::ProblemSpec& spec : specs()) {
    CAPTURE(instance::describe(spec));
    const instance::HostProblem host(spec, 1);
    CHECK(make_problem(spec) == problem::make_problem(host.args()));
  }
}

// Their backwards, with all that they may have.
std::vector<instance::ProblemSpec> backward_specs() {
  std::vector<instance::ProblemSpec> list = specs();
  for (instance::ProblemSpec& spec : list) {
    spec.backward = spec.want_lse = spec.want_dlse = true;
    spec.want_dbias = !spec.bias.empty();
    if (spec.bias == "11q1") spec.dbias_dtype = DType::kFloat32;
    spec.deterministic = spec.causal;
  }
  return list;
}

TEST_CASE("a backward without tensors equals the one with tensors") {
  for (const instance::ProblemSpec& spec : backward_specs()) {
    CAPTURE(instance::describe(spec));
    const instance::HostProblem host(spec, 1);
    CHECK(make_backward_problem(spec) == problem::make_problem(host.backward_args()));
  }
}

TEST_CASE("a problem is empty where its pass has nothing to write") {
  instance::ProblemSpec spec;
  spec.seqlen_q = 0;
  CHECK(is_empty(spec));
  spec.backward = true;
  CHECK_FALSE(is_empty(spec));  // dk and dv are 0
  spec.seqlen_kv = 0;
  CHECK(is_empty(spec));
}

TEST_CASE("tensor_bytes is what a HostProblem allocates, but for guards and lse") {
  std::vector<instance::ProblemSpec> list = specs();
  for (const instance::ProblemSpec& spec : backward_specs()) list.push_back(spec);
  for (const instance::ProblemSpec& spec : list) {
    CAPTURE(instance::describe(spec));
    const instance::HostProblem host(spec, 1);
    double allocated = 0;
    for (const auto& buffer : host.buffers())
      allocated += static_cast<double>(buffer.bytes().size());
    CHECK(tensor_bytes(spec) <= allocated);
    const double guards = 1024.0 * static_cast<double>(host.buffers().size());
    CHECK(tensor_bytes(spec) > allocated - guards - 2 * 4.0 * 2 * 4 * 33);
  }
}

TEST_CASE("limits of the library are unsupported, contradictions are invalid") {
  instance::ProblemSpec spec;
  spec.head_dim = 300;
  CHECK(error_of(ErrorKind::kUnsupported, [&] { make_problem(spec); }).find("1 to 256") !=
        std::string::npos);
  spec.head_dim = 64;
  spec.seqlen_q = spec.seqlen_kv = std::int64_t{1} << 31;
  error_of(ErrorKind::kUnsupported, [&] { make_problem(spec); });
  spec.batch = std::int64_t{1} << 40;
  CHECK(error_of(ErrorKind::kUnsupported, [&] { make_problem(spec); }).find("2^60") !=
        std::string::npos);
  spec.batch = 1;
  spec.heads_q = 3;
  spec.heads_kv = 2;
  error_of(ErrorKind::kInvalidProblem, [&] { make_problem(spec); });
}

}  // namespace
}  // namespace attnjit::cli
