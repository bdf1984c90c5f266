#include "reference/outside_reads.hpp"

#include <doctest/doctest.h>

#include "instance/host_problem.hpp"

namespace attnjit::reference::outside_reads_test {
namespace {

constexpr std::int64_t kAll = std::int64_t{1} << 30;

instance::ProblemSpec spec_of(const char* score, const char* operand) {
  instance::ProblemSpec spec{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 33, .seqlen_kv = 47, .head_dim = 16};
  spec.score = score;
  spec.operands = {instance::parse_operand(operand)};
  return spec;
}

OutsideReads find(const instance::ProblemSpec& spec, std::int64_t most = kAll) {
  const instance::HostProblem host(spec, 1);
  return outside_reads(host.args(), most);
}

TEST_CASE("reads of an operand outside of its axes are found") {
  // j - i + 31 is -1 at the first key of the last row, and at most 77.
  const OutsideReads low = find(spec_of("s + rel[j - i + 31]", "rel=fp32:79"));
  REQUIRE(low.first);
  CHECK(low.first->operand == "rel");
  CHECK(low.first->axis == 0);
  CHECK(low.first->index == -1);
  CHECK(low.first->size == 79);
  CHECK(low.first->pair.query == 32);
  CHECK(low.first->pair.key == 0);
  CHECK(low.pairs == 2 * 4 * 33 * 47);
  CHECK(low.outside == 2 * 4);

  CHECK_FALSE(find(spec_of("s + rel[j - i + 32]", "rel=fp32:79")).first);
  CHECK(find(spec_of("s + rel[j - i + 32]", "rel=fp32:78")).first->index == 78);
}

TEST_CASE("an axis of size 1 serves every index") {
  CHECK_FALSE(find(spec_of("s + rel[b, j]", "rel=fp32:1,k")).first);
}

TEST_CASE("reads of pairs that the call drops do not count") {
  instance::ProblemSpec spec = spec_of("s + rel[i - j]", "rel=fp32:33");
  CHECK(find(spec).first);
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  CHECK_FALSE(find(spec).first);
  spec.causal = false;
  spec.diagonal = Diagonal::kUnspecified;
  spec.keep = "j <= i";
  CHECK_FALSE(find(spec).first);
}

TEST_CASE("the first and the last rows and keys are among a sample of the pairs") {
  const OutsideReads some = find(spec_of("s + rel[j - i + 31]", "rel=fp32:79"), 100);
  REQUIRE(some.first);
  CHECK(some.first->index == -1);
  CHECK(some.pairs < 1000);
}

TEST_CASE("a keep expression reads too, and packed sequences count for themselves") {
  instance::ProblemSpec spec = spec_of("s", "ids=int32:40");
  spec.score.clear();
  spec.keep = "ids[j] >= 0";
  const OutsideReads found = find(spec);
  REQUIRE(found.first);
  CHECK(found.first->operand == "ids");
  CHECK(found.first->index == 40);

  spec.packed = true;
  spec.cu_seqlens_q = {0, 10, 33};
  spec.cu_seqlens_kv = {0, 20, 47};
  CHECK_FALSE(find(spec).first);
  spec.cu_seqlens_kv = {0, 5, 47};
  REQUIRE(find(spec).first);
  CHECK(find(spec).first->pair.batch == 1);
}

}  // namespace
}  // namespace attnjit::reference::outside_reads_test
