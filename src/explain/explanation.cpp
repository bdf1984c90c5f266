#include "explain/explanation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/fields_json.hpp"

namespace attnjit::explain {
namespace {

// "1.5 GB", "12 MB", "3.2 kB".
std::string size(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.3g} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.3g} MB", bytes / 1e6);
  return fmt::format("{:.3g} kB", bytes / 1e3);
}

// "1.23 ms", "45 us".
std::string time(double ms) {
  return ms >= 0.1 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.3g} us", 1e3 * ms);
}

// "as many pairs in 3.01 ms", "12 times the pairs in 1.42 ms".
std::string size_and_time(const NearRow& near) {
  const bool alike = near.pairs > 0.9 && near.pairs < 1.1;
  return fmt::format("{} in {}",
                     alike ? "as many pairs" : fmt::format("{:.2g} times the pairs", near.pairs),
                     time(near.ms));
}

std::string traffic(const Counts& counts) {
  std::vector<std::string> parts;
  for (const Traffic& each : counts.traffic) {
    const char* const how = each.name == "workspace" ? " (written and read)" : "";
    parts.push_back(fmt::format("{} {}{}", each.name, size(each.bytes), how));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// The share of the call's time that a resource is busy, in percent.
double percent(const Explanation& e, Resource resource) {
  return std::min(100.0, 1e5 * e.busy[static_cast<std::size_t>(resource)] / e.time_ms());
}

// The resources from the one that is busy longest on, with their shares of the time.
std::string resources(const Explanation& e) {
  std::array<Resource, kNumResources> order{};
  for (std::size_t n = 0; n < order.size(); ++n) order[n] = static_cast<Resource>(n);
  std::ranges::stable_sort(order, std::greater(), [&](Resource r) { return percent(e, r); });
  std::vector<std::string> parts;
  for (const Resource resource : order) {
    if (percent(e, resource) < 0.5) continue;
    parts.push_back(fmt::format("{} {:.0f} %", name(resource), percent(e, resource)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string rows(const Gain& g) {
  return fmt::format("as {} and {} differ", g.before->name, g.after->name);
}

// "mask: 0.1 ms (5 %) by counts, 0.2 ms as A and B differ". What saves time is a share of the time
// without it.
std::string cost(const Explanation& e, const Gain& g) {
  const double whole = e.expected_ms + (g.counted < 0 ? -g.counted : 0.0);
  std::string text =
      fmt::format("{}: {} ({:.0f} %) by counts", g.what, time(e.scale() * std::abs(g.counted)),
                  100 * std::abs(g.counted) / whole);
  if (g.by_rows) {
    const bool other_way = (*g.by_rows < 0) != (g.counted < 0);
    text += fmt::format(", {}{} {}", other_way ? "the opposite, " : "",
                        time(e.scale() * std::abs(*g.by_rows)), rows(g));
  }
  return text;
}

// "0.2 to 0.15 ms by counts, to 0.16 ms as A and B differ; takes 1 ms once, which 3 calls save".
std::string action(const Explanation& e, const Gain& g) {
  const double now = e.time_ms();
  std::string text =
      fmt::format("{}: {} to {} by counts", g.what, time(now), time(now - e.scale() * g.counted));
  if (g.by_rows) text += fmt::format(", to {} {}", time(now - e.scale() * *g.by_rows), rows(g));
  if (g.once_ms > 0) {
    const double calls = std::ceil(g.once_ms / (e.scale() * g.most()));
    text += fmt::format("; takes {} once, which {}", time(g.once_ms),
                        calls > 1 ? fmt::format("{:.0f} calls save", calls) : "one call saves");
  }
  return text;
}

void add_times(std::vector<std::string>& list, const Explanation& e) {
  if (e.own) {
    list.push_back(fmt::format("time       {} on {} as measured ({}, {}); {} by the model",
                               time(e.own->ms), e.device, e.own->name, e.own->date,
                               time(e.expected_ms)));
  } else {
    list.push_back(fmt::format("time       {} on {}, which may be off by {:.0f} %",
                               time(e.expected_ms), e.device, 100 * e.error));
  }
  std::vector<std::string> near;
  for (const NearRow& row : e.nearest)
    near.push_back(fmt::format("{} ({})", row.name, size_and_time(row)));
  list.push_back(fmt::format("by         {}", fmt::join(near, ", ")));
  constexpr double kAlone = 60;
  const Resource most = binding(e.busy);
  list.push_back(
      percent(e, most) < kAlone
          ? fmt::format("binds      no resource alone: {}; tiles wait for each other", resources(e))
          : fmt::format("binds      {}", resources(e)));
}

base::Json row_json(const NearRow& near) {
  return {{"name", near.name}, {"date", near.date}, {"ms", near.ms}, {"pairs", near.pairs}};
}

base::Json gains_json(const std::vector<Gain>& gains) {
  base::Json list = base::Json::array();
  for (const Gain& g : gains) {
    list.push_back({{"what", g.what},
                    {"counted_ms", g.counted},
                    {"by_rows_ms", g.by_rows ? base::Json(*g.by_rows) : base::Json()},
                    {"before", g.before ? row_json(*g.before) : base::Json()},
                    {"after", g.after ? row_json(*g.after) : base::Json()},
                    {"once_ms", g.once_ms}});
  }
  return list;
}

}  // namespace

std::vector<std::string> assumptions(const problem::Problem& problem, const Values& values) {
  std::vector<std::string> list;
  if (problem.packed && values.cu_seqlens_q.empty()) {
    list.push_back("sequences are taken to be equally long: cu_seqlens is not read");
  }
  if (problem.has_seqlens_q || problem.has_seqlens_kv) {
    list.push_back("all rows and keys are taken to be in use: lengths are not read");
  }
  const bool drops = problem.mask.extent != problem::Extent::kAbsent || problem.blocks.exist();
  if (drops && !values.kept_tiles) {
    list.push_back("every tile is taken to keep a pair: masks and lists of blocks are not read");
  }
  if (problem.keep && !problem.blocks.exist()) {
    list.push_back("every tile is taken to keep a pair of the keep expression");
  }
  return list;
}

std::vector<std::string> lines(const Explanation& e) {
  std::vector<std::string> list{
      e.name, fmt::format("problem    {}", e.problem),
      fmt::format("kernels    {}; {}: {}", fmt::join(e.counts.kernels, ", "), e.tile, e.from)};
  if (!e.why.empty()) list.push_back(fmt::format("because    {}", e.why));
  if (e.expected_ms > 0) {
    add_times(list, e);
  } else {
    list.push_back(fmt::format("time       unknown: there are no rates of {}", e.device));
  }
  const Counts& c = e.counts;
  list.push_back(
      fmt::format("counts     {:.4g} pairs in whole tiles, {:.0f} % of them kept, {:.4g} GFLOP, "
                  "{:.4g} exponentials",
                  c.pairs.walked, 100 * c.pairs.kept / std::max(c.pairs.walked, 1.0),
                  c.tensor_flop / 1e9, c.exponentials));
  list.push_back(fmt::format("memory     {} moved: {}", size(c.memory_bytes()), traffic(c)));
  if (c.idle >= 0.1) {
    list.push_back(fmt::format(
        "idle       {:.0f} % of the device: too few tiles; more heads or batch elements in a call "
        "take little longer",
        100 * c.idle));
  }
  for (const Gain& g : e.costs) {
    list.push_back((g.counted < 0 ? "saves      " : "costs      ") + cost(e, g));
  }
  if (!e.cheap.empty()) {
    list.push_back(fmt::format("costs      less than a hundredth: {}", fmt::join(e.cheap, ", ")));
  }
  for (const Gain& g : e.actions) list.push_back("try        " + action(e, g));
  if (e.expected_ms > 0 && e.actions.empty()) {
    list.emplace_back(
        "try        nothing: no change of the call that is known here gains a hundredth");
  }
  for (const std::string& each : e.assumed) list.push_back("assumed    " + each);
  return list;
}

base::Json to_json(const Explanation& e) {
  base::Json traffic = base::Json::object(), busy = base::Json::object();
  for (const Traffic& each : e.counts.traffic) traffic[each.name] = each.bytes;
  for (std::size_t i = 0; i < e.busy.size(); ++i) {
    busy[name(static_cast<Resource>(i))] = 1e3 * e.busy[i];
  }
  base::Json nearest = base::Json::array();
  for (const NearRow& near : e.nearest) nearest.push_back(row_json(near));
  return {{"name", e.name},
          {"problem", e.problem},
          {"device", e.device},
          {"tile", e.tile},
          {"config_from", e.from},
          {"why", e.why},
          {"kernels", e.counts.kernels},
          {"expected_ms", e.expected_ms},
          {"binds", e.expected_ms > 0 ? base::Json(name(binding(e.busy))) : base::Json()},
          {"resource_ms", std::move(busy)},
          {"kept_pairs", e.counts.pairs.kept},
          {"bytes", std::move(traffic)},
          {"profile", base::to_json_value(e.profile)},
          {"nearest", std::move(nearest)},
          {"error", e.error},
          {"measured", e.own ? row_json(*e.own) : base::Json()},
          {"costs", gains_json(e.costs)},
          {"costs_little", e.cheap},
          {"actions", gains_json(e.actions)},
          {"assumed", e.assumed}};
}

}  // namespace attnjit::explain
