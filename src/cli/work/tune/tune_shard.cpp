#include "cli/work/tune/tune_shard.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <variant>

#include "attnjit/error.hpp"
#include "cli/report/exit_code.hpp"
#include "cli/work/bench/bench_row.hpp"
#include "instance/call_args.hpp"
#include "instance/sequences.hpp"
#include "problem/plan_key.hpp"

namespace attnjit::cli {
namespace {

using AnyPlanKey = std::variant<problem::PlanKey, problem::BackwardPlanKey>;

// The plan of `job`; none for a problem that is refused, which costs nothing and fails by itself.
std::optional<AnyPlanKey> plan_of(const Case& job) try {
  if (job.spec.backward) return problem::plan_key(make_backward_problem(job.spec));
  return problem::plan_key(make_problem(job.spec));
} catch (const Error&) {
  return std::nullopt;
}

// Roughly the seconds that tuning takes: compiling the candidates, and 300 launches at 300 TFLOP/s.
double tuning_seconds(const Case& job) {
  const instance::ShapeCall call(job.spec);
  ForwardArgs args = call.forward();
  args.seqlens_q = args.seqlens_kv = nullptr;  // they have no memory; at most all rows are in use
  const instance::PackedBegins begins = instance::packed_begins(job.spec);
  if (args.cu_seqlens_q != nullptr) args.cu_seqlens_q = begins.q.data();
  if (args.cu_seqlens_kv != nullptr) args.cu_seqlens_kv = begins.kv.data();
  const double compiling = job.spec.backward ? 30 : 10;
  return compiling + count_work(args, job.spec.backward).flop / 1e12;
}

std::size_t read_number(const std::string& text, const std::string& flag) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) {
    usage_error("--shard: '{}'; expected I/N, two numbers, for instance 0/8", flag);
  }
  return number;
}

}  // namespace

Shard read_shard(const std::string& flag) {
  if (flag.empty()) return {};
  const std::size_t slash = std::min(flag.find('/'), flag.size());
  const std::string count = slash < flag.size() ? flag.substr(slash + 1) : "";
  const Shard shard{read_number(flag.substr(0, slash), flag), read_number(count, flag)};
  if (shard.index >= shard.count) {
    usage_error("--shard: '{}'; expected I/N with I from 0 to N - 1", flag);
  }
  return shard;
}

std::vector<std::size_t> deal(const std::vector<double>& costs, std::size_t count) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return costs[a] > costs[b]; });
  // More machines than jobs: the others have nothing to do.
  std::vector<double> loads(std::min(count, std::max<std::size_t>(costs.size(), 1)));
  std::vector<std::size_t> owners(costs.size());
  for (const std::size_t job : order) {
    const auto least = std::ranges::min_element(loads);
    *least += costs[job];
    owners[job] = static_cast<std::size_t>(least - loads.begin());
  }
  return owners;
}

std::vector<Case> share_of(const std::vector<Case>& cases, const Shard& shard) {
  std::map<AnyPlanKey, std::size_t> plans;
  std::vector<std::size_t> groups;
  std::vector<double> costs;
  for (const Case& job : cases) {
    const auto plan = plan_of(job);
    const std::size_t group =
        plan ? plans.emplace(*plan, costs.size()).first->second : costs.size();
    groups.push_back(group);
    if (group == costs.size()) costs.push_back(plan ? tuning_seconds(job) : 0);
  }
  const std::vector<std::size_t> owners = deal(costs, shard.count);
  std::vector<Case> share;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (owners[groups[i]] == shard.index) share.push_back(cases[i]);
  }
  return share;
}

}  // namespace attnjit::cli
