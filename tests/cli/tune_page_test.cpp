#include "cli/report/tune_page.hpp"

#include "cli/report/tile_cell.hpp"
#include "command_line.hpp"
#include "unit/tuner_fixtures.hpp"

namespace attnjit::test {
namespace {

using cli::TunedProblem;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TunedProblem tuned() {
  const tuner::Record record = make_record(tune_key());
  return {.name = "prefill",
          .state = "gain",
          .record = record,
          .times = {{codegen::describe_tile(cli::config_zero(record)), 100},
                    {"slow tile", 200},
                    {codegen::describe_tile(record.config), 80.5},
                    {"silent tile", 0}},
          .rejected = 3,
          .known_faulty = 1,
          .faults = {{.config = "bad tile", .why = "signal 11 (Segmentation fault)"}}};
}

TEST_CASE("a page marks configuration 0, the winner and what is faulty") {
  const std::string page = cli::tune_page({.device = "NVIDIA H200",
                                           .driver = 13010,
                                           .date = "2026-11-22T16:00:00Z",
                                           .before = {"0, 1980 MHz"},
                                           .after = {"0, 1755 MHz"}},
                                          {tuned()});
  for (const char* part :
       {"NVIDIA H200", "CUDA 13.1", "1980 MHz", "1755 MHz", "2026-11-22T16:00:00Z", "<h2>prefill",
        "80.5 us, gain 19.5 % (gain)", "faulty: signal 11", "3 more were rejected, 1 were known"}) {
    CHECK_MESSAGE(holds(page, part), part);
  }
  CHECK(count(page, "class=\"zero\"") == 1);
  CHECK(count(page, "class=\"winner\"") == 1);
  CHECK(holds(page, "width:100.0%"));
  CHECK(holds(page, "width:50.0%"));
  CHECK_FALSE(holds(page, "<script"));
  CHECK_FALSE(holds(page, "http"));
}

TEST_CASE("a record of an earlier run has two times, and where nothing won one is both") {
  TunedProblem recorded = tuned();
  recorded.state = "recorded";
  recorded.times.clear();
  const std::string page = cli::tune_page({}, {recorded});
  CHECK(count(page, "class=\"bar\"") == 2);
  std::get<tuner::Record>(*recorded.record).verdict = "no_gain";
  std::get<tuner::Record>(*recorded.record).config =
      cli::config_zero(std::get<tuner::Record>(*recorded.record));
  CHECK(count(cli::tune_page({}, {recorded}), "class=\"winner\"") == 1);
}

TEST_CASE("a page escapes names and messages") {
  const std::string page = cli::tune_page(
      {.device = "<b>\"&'"}, {{.name = "</h2><script>\x1b[2J", .state = "same", .text = "<i>"},
                              {.name = "x", .state = "failed", .text = "a < b"}});
  CHECK(holds(page, "&lt;b&gt;&quot;&amp;&#39;"));
  CHECK(holds(page, "&lt;/h2&gt;&lt;script&gt;\\x1b[2J"));
  CHECK(holds(page, "the record of &lt;i&gt;"));
  CHECK(holds(page, "failed: a &lt; b"));
  CHECK_FALSE(holds(page, "<script"));
}

}  // namespace
}  // namespace attnjit::test
