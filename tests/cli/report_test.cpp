#include <doctest/doctest.h>

#include <sstream>

#include "base/json.hpp"
#include "cli/report/console.hpp"
#include "cli/report/exit_code.hpp"
#include "cli/report/table.hpp"
#include "cli/work/runner.hpp"
#include "cli_fixtures.hpp"

namespace attnjit::cli {
namespace {

using enum ExitCode;

ExitCode combined(std::vector<ExitCode> entries) { return combine(entries); }

TEST_CASE("every kind of error has its exit code") {
  CHECK(exit_code(ErrorKind::kInvalidProblem) == kUsage);
  CHECK(exit_code(ErrorKind::kInvalidEnvironment) == kUsage);
  CHECK(exit_code(ErrorKind::kUnsupported) == kUnsupported);
  CHECK(exit_code(ErrorKind::kNoCompiler) == kNoCompiler);
  CHECK(exit_code(ErrorKind::kNoDevice) == kNoDevice);
  CHECK(exit_code(ErrorKind::kCompile) == kFailure);
  CHECK(exit_code(ErrorKind::kCuda) == kFailure);
  CHECK(exit_code(ErrorKind::kCache) == kFailure);
  CHECK(exit_code(ErrorKind::kInternal) == kFailure);
}

TEST_CASE("several entries end in one exit code") {
  CHECK(combined({}) == kDone);
  CHECK(combined({kDone, kDone}) == kDone);
  CHECK(combined({kUnsupported}) == kUnsupported);
  CHECK(combined({kUnsupported, kUnsupported}) == kUnsupported);
  CHECK(combined({kDone, kUnsupported}) == kSomeFailed);
  CHECK(combined({kFailure, kUnsupported}) == kSomeFailed);
  CHECK(combined({kDone, kVerification, kUnsupported}) == kVerification);
}

TEST_CASE("a table aligns its columns and keeps to its width") {
  Table table({{"name"}, {"n", true}});
  table.add({"a", "5"});
  table.add({"longer", "1234"});
  CHECK(table.text() ==
        "name       n\n"
        "------  ----\n"
        "a          5\n"
        "longer  1234");
  table.add({std::string(300, 'x'), "6"});
  std::istringstream lines(table.text());
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= Table::kMaxWidth);
  CHECK(table.text().find("xx..") != std::string::npos);
}

TEST_CASE("bytes are shown with the unit that suits them") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(98304) == "96.0 KiB");
  CHECK(human_bytes(1.5 * (1 << 30)) == "1.5 GiB");
}

TEST_CASE("a console writes either text or one JSON object") {
  std::ostringstream out;
  std::ostringstream err;
  Console text(out, err, false, Verbosity::kNormal);
  text.print("data {}", 1);
  text.print_json({{"data", 1}});
  text.note("note");
  CHECK(out.str() == "data 1\n");
  CHECK(err.str() == "note\n");

  out.str("");
  err.str("");
  Console json(out, err, true, Verbosity::kQuiet);
  json.print("data {}", 1);
  json.print_json({{"data", "\xff"}});
  json.note("note");
  json.error("trouble");
  const auto object = base::parse_json(out.str());
  CHECK(object.at("schema") == 1);
  CHECK(object.contains("data"));
  CHECK(err.str() == "attnjit: error: trouble\n");
}

TEST_CASE("no control character of a name reaches the terminal") {
  std::ostringstream out;
  std::ostringstream err;
  Console console(out, err, false, Verbosity::kNormal);
  console.print("a\x1b[2J\tb\nc");
  console.note("{}", "\x07");
  CHECK(out.str() == "a\\x1b[2J\tb\nc\n");
  CHECK(err.str() == "\\x07\n");
  Table table({{"name"}});
  table.add({"a\nb"});
  CHECK(table.text().ends_with("\na\\x0ab"));
}

TEST_CASE("--rows is all, a number, or what is affordable") {
  instance::ProblemSpec spec;
  spec.seqlen_q = 5000;
  spec.seqlen_kv = 100'000;
  CHECK(choose_sample(spec, "all").rows.count(spec.seqlen_q) == 5000);
  const auto some = choose_sample(spec, "20").rows.count(spec.seqlen_q);
  CHECK(some > 0);
  CHECK(some <= 20);
  const auto affordable = choose_sample(spec, "").rows.count(spec.seqlen_q);
  CHECK(affordable > 20);
  CHECK(affordable < 5000);
  for (const char* rows : {"0", "-1", "some", "5x"}) {
    CAPTURE(rows);
    test::error_of(ErrorKind::kInvalidEnvironment, [&] { choose_sample(spec, rows); });
  }
}

TEST_CASE("a backward is judged by heads, not by rows") {
  instance::ProblemSpec spec;
  spec.backward = true;
  spec.heads_q = spec.heads_kv = 64;
  spec.seqlen_q = spec.seqlen_kv = 4096;
  CHECK(choose_sample(spec, "all").planes.all);
  const auto affordable = choose_sample(spec, "").planes;
  CHECK_FALSE(affordable.all);
  CHECK(affordable.list.size() >= 2);
  const auto error =
      test::error_of(ErrorKind::kInvalidEnvironment, [&] { choose_sample(spec, "20"); });
  CHECK(error.find("judged by heads") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::cli
