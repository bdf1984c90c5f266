// Shares of a manifest, one per machine.
#include "cli/work/tune/tune_shard.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "command_line.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "unit/tuning_fixtures.hpp"

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

/// Machines of one kind that tune, one at a time, and have their kernels in common.
class Fleet {
 public:
  /// Writes the records of a machine that has none and tunes `cases`. Which number of warps is
  /// fastest depends on the bucket of the queries.
  std::string tune(const std::vector<cli::Case>& cases, const std::string& name) const {
    machine_.forget_records();
    runtime::Engine engine = machine_.start();
    runtime::ForwardTuner tuner(engine);
    for (const cli::Case& each : cases) {
      const problem::Problem problem = cli::make_problem(each.spec);
      const auto bucket = static_cast<unsigned>(problem::plan_key(problem).bucket_q);
      const unsigned fastest = 32u << std::bit_width(bucket) % 3;
      FakeDevice::milliseconds() = [fastest](const CUlaunchConfig& launch) {
        return launch.blockDimX == fastest ? 0.02f : 0.1f;
      };
      tuner.tune(*device_, problem);
    }
    std::string lines;
    for (const tuner::AnyRecord& record : engine.records().list()) lines += to_json(record) + '\n';
    write_file(command_line_.file(name), lines);
    return command_line_.file(name);
  }

  /// The winners by key of what `records merge` makes of `files`.
  std::map<std::string, std::string> merge(std::vector<std::string> files) const {
    const std::string merged = command_line_.file("merged");
    std::vector<std::string> arguments = {"records", "merge", "-o", merged};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome outcome = command_line_(arguments);
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    std::map<std::string, std::string> winners;
    std::istringstream lines(read_file(merged));
    for (std::string line; std::getline(lines, line);) {
      const base::Json record = base::parse_json(line);
      CHECK(winners.emplace(record.at("key").dump(), record.at("config").dump()).second);
    }
    return winners;
  }

 private:
  FakeDevice device_;
  Machine machine_;
  CommandLine command_line_;
};

TEST_CASE_FIXTURE(Fleet, "the merged records of all shares are those of one machine") {
  std::vector<cli::Case> cases;
  for (const std::int64_t length : {60, 40, 100, 200, 250, 500, 1000, 2000}) {
    cases.push_back(job(fmt::format("{} rows", length), length));
    cases.back().spec.heads_q = cases.back().spec.heads_kv = 1;
    cases.back().spec.head_dim = 12;  // rows are not aligned: configuration 0 is on path mma
  }
  const auto alone = merge({tune(cases, "alone")});
  CHECK(alone.size() == 6);  // 60 and 40 rows have a plan in common, and 200 and 250
  std::set<std::string> configs;
  for (const auto& [key, config] : alone) configs.insert(config);
  CHECK(configs.size() == 3);
  for (const std::size_t count : {3, 9}) {
    CAPTURE(count);
    std::vector<std::string> files;
    for (std::size_t index = count; index-- > 0;) {
      files.push_back(tune(cli::share_of(cases, {index, count}), fmt::format("share {}", index)));
    }
    CHECK(merge(files) == alone);
  }
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
