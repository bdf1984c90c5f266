#include "cli/work/tune/tune_messages.hpp"

#include "cli_fixtures.hpp"
#include "unit/tuner_fixtures.hpp"

namespace attnjit::test {
namespace {

using namespace cli;

template <class Message>
Message through_a_line(const TuneMessage& message) {
  const std::string line = to_line(message);
  CHECK(line.find('\n') == std::string::npos);
  return std::get<Message>(parse_message(line));
}

TEST_CASE("what tune and its worker say survives the way") {
  const TuneRequest request = parse_request(to_line(TuneRequest{"{\"a\": 1}\n", {"x", "y"}}));
  CHECK(request.problem == "{\"a\": 1}\n");
  CHECK(request.faulty == std::vector<std::string>{"x", "y"});

  CHECK(through_a_line<TuneBegins>(TuneBegins{{{"block_q", 64}}}).config["block_q"] == 64);
  CHECK(through_a_line<TuneLost>(TuneLost{"two\nlines"}).why == "two\nlines");
  const auto failure = through_a_line<TuneFailure>(TuneFailure{"none", ExitCode::kNoDevice});
  CHECK(failure.message == "none");
  CHECK(failure.code == ExitCode::kNoDevice);

  const tuner::Record record = make_record(tune_key());
  const auto answer = through_a_line<TuneAnswer>(TuneAnswer{.record = record,
                                                            .why_not_kept = "disk full",
                                                            .times = {{"q64", 12.5}, {"q32", 0}},
                                                            .rejected = 3,
                                                            .faulty = 1});
  CHECK(tuner::to_json(*answer.record) == tuner::to_json(record));
  CHECK(answer.why_not_kept == "disk full");
  REQUIRE(answer.times.size() == 2);
  CHECK(answer.times[0].tile == "q64");
  CHECK(answer.times[0].us == 12.5);
  CHECK(answer.rejected == 3);
  CHECK(answer.faulty == 1);
  const auto inconclusive = through_a_line<TuneAnswer>(TuneAnswer{.note = "out of memory"});
  CHECK_FALSE(inconclusive.record);
  CHECK_FALSE(inconclusive.why_not_kept);
  CHECK(inconclusive.note == "out of memory");
}

TEST_CASE("what is none of it is refused") {
  for (const char* line : {"", "pardon?", "[]", "{}", "{\"lost\": 1}", "{\"error\": \"x\"}",
                           "{\"error\": \"x\", \"exit\": 0}", "{\"error\": \"x\", \"exit\": 99}",
                           "{\"record\": {}, \"note\": \"\", \"times\": [], \"rejected\": 0}"}) {
    CAPTURE(std::string(line));
    error_of(ErrorKind::kInternal, [&] { parse_message(line); });
  }
  for (const char* line : {"", "3", "{}", "{\"problem\": 1, \"faulty\": []}"}) {
    CAPTURE(std::string(line));
    error_of(ErrorKind::kInternal, [&] { parse_request(line); });
  }
}

}  // namespace
}  // namespace attnjit::test
