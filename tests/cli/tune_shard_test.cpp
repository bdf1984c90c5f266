// Shares of a manifest, one per machine.
#include "cli/work/tune_shard.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace attnjit::test {
namespace {

cli::Case job(const std::string& name, std::int64_t length, bool backward = false) {
  cli::Case made{name, "", {}};
  made.spec.heads_q = made.spec.heads_kv = 8;
  made.spec.seqlen_q = made.spec.seqlen_kv = length;
  made.spec.head_dim = 128;
  made.spec.backward = backward;
  return made;
}

std::vector<std::string> names_of(const std::vector<cli::Case>& cases) {
  std::vector<std::string> names;
  for (const cli::Case& each : cases) names.push_back(each.name);
  return names;
}

TEST_CASE("jobs are dealt so that all are busy for as long") {
  std::vector<double> costs;
  for (int i = 0; i < 400; ++i) costs.push_back(10 + i * 7919 % 101);
  for (const std::size_t count : {1, 2, 7, 16}) {
    const auto owners = cli::deal(costs, count);
    std::vector<double> loads(count);
    for (std::size_t i = 0; i < costs.size(); ++i) loads[owners[i]] += costs[i];
    const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / double(count);
    for (const double load : loads) CHECK(load <= 1.02 * mean);
  }
  CHECK(cli::deal({5, 1, 1, 3}, 2) == std::vector<std::size_t>{0, 1, 1, 1});
  CHECK(cli::deal({}, 3).empty());
  CHECK(cli::deal({1, 1}, std::size_t{1} << 60) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("packed sequences are as dear as a batch of them, with pages and without") {
  constexpr std::int32_t kRows = 32768;
  cli::Case batch = job("batch", kRows), packed = job("packed", 4 * kRows);
  batch.spec.batch = packed.spec.batch = 4;
  packed.spec.packed = true;
  packed.spec.cu_seqlens_q = {0, kRows, 2 * kRows, 3 * kRows, 4 * kRows};
  cli::Case paged = packed;
  paged.name = "paged";
  paged.spec.seqlen_kv = kRows;
  paged.spec.page_size = 16;
  packed.spec.cu_seqlens_kv = packed.spec.cu_seqlens_q;
  // 16 times as many scores as a sequence of theirs.
  const std::vector<cli::Case> cases = {packed, job("long", 4 * kRows), paged, batch};
  CHECK(names_of(cli::share_of(cases, {0, 2})) == std::vector<std::string>{"long"});
}

TEST_CASE("each problem is in one share, beside those of its plan") {
  // 1000 and 1024 keys are one bucket: tuning the first tunes the second.
  const std::vector<cli::Case> cases = {
      job("a", 1000), job("b", 1024),       job("c", 4096),          job("d", 16384),
      job("e", 2048), job("f", 4096, true), job("no such head", -1), job("g", 300)};
  for (const std::size_t count : {1, 2, 3, 20}) {
    std::multiset<std::string> found;
    for (std::size_t index = 0; index < count; ++index) {
      const auto names = names_of(cli::share_of(cases, {index, count}));
      found.insert(names.begin(), names.end());
      const std::set<std::string> share(names.begin(), names.end());
      CHECK(share.contains("a") == share.contains("b"));
    }
    CHECK(found.size() == cases.size());
    CHECK(std::set(found.begin(), found.end()).size() == cases.size());
  }
  CHECK(names_of(cli::share_of(cases, {})) == names_of(cases));
}

TEST_CASE("--shard takes I/N, of a manifest") {
  CHECK(cli::read_shard("2/3").index == 2);
  CHECK(cli::read_shard("2/3").count == 3);
  for (const char* wrong : {"3/3", "1", "-1/2", "a/b", "1/", "0/0", "1/2/3"}) {
    CAPTURE(wrong);
    CHECK_THROWS(cli::read_shard(wrong));
  }
  const Outcome outcome = CommandLine()({"tune", "--shard", "0/2"}, {{"DISABLE_AUTOTUNE", "0"}});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("--shard shares out a manifest; add --manifest FILE") !=
        std::string::npos);
}

}  // namespace
}  // namespace attnjit::test
