#include "cli/work/tune/tune_messages.hpp"

#include <cstdint>
#include <utility>

#include "base/fields_json.hpp"

namespace attnjit::cli {
namespace {

using base::from_json_value;
using base::Json;

Json to_json(const TuneBegins& begins) { return {{"begins", begins.config}}; }

Json to_json(const TuneLost& lost) { return {{"lost", lost.why}}; }

Json to_json(const TuneAnswer& answer) {
  Json times = Json::array();
  for (const CandidateTime& time : answer.times) times.push_back(base::to_json_value(time));
  return {{"record", answer.record ? Json(tuner::to_json(*answer.record)) : Json()},
          {"note", answer.note},
          {"why_not_kept", answer.why_not_kept ? Json(*answer.why_not_kept) : Json()},
          {"times", times},
          {"rejected", answer.rejected},
          {"faulty", answer.faulty}};
}

Json to_json(const TuneFailure& failure) {
  return {{"error", failure.message}, {"exit", static_cast<int>(failure.code)}};
}

std::optional<std::string> text_or_null(const Json& object, const char* name) {
  const Json& value = object.at(name);
  if (value.is_null()) return std::nullopt;
  return from_json_value<std::string>(value, name);
}

TuneAnswer answer_of(const Json& object) {
  TuneAnswer answer;
  if (const auto record = text_or_null(object, "record")) {
    answer.record = tuner::record_from_json(*record);
  }
  answer.why_not_kept = text_or_null(object, "why_not_kept");
  answer.note = from_json_value<std::string>(object.at("note"), "note");
  for (const Json& time : object.at("times")) {
    answer.times.push_back(from_json_value<CandidateTime>(time, "times"));
  }
  answer.rejected = from_json_value<std::uint64_t>(object.at("rejected"), "rejected");
  answer.faulty = from_json_value<std::uint64_t>(object.at("faulty"), "faulty");
  return answer;
}

ExitCode code_of(const Json& value) {
  const int code = from_json_value<int>(value, "exit");
  if (code < static_cast<int>(ExitCode::kFailure) || code > static_cast<int>(ExitCode::kNoDevice)) {
    base::refuse_json("exit", value, "an exit status of attnjit other than 0");
  }
  return static_cast<ExitCode>(code);
}

// What `read` makes of the object that `line` spells.
template <class Read>
auto parse(const char* what, std::string_view line, const Read& read) {
  try {
    return read(base::parse_json(line));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kInternal, fmt::format("{}: {}", what, error.what()));
  } catch (const Error& error) {
    throw Error(ErrorKind::kInternal, fmt::format("{}: {}", what, error.what()));
  }
}

}  // namespace

std::string to_line(const TuneRequest& request) {
  return base::dump_json({{"problem", request.problem}, {"faulty", request.faulty}});
}

std::string to_line(const TuneMessage& message) {
  return base::dump_json(std::visit([](const auto& each) { return to_json(each); }, message));
}

TuneRequest parse_request(std::string_view line) {
  return parse("a request to tune", line, [](const Json& object) {
    TuneRequest request;
    request.problem = from_json_value<std::string>(object.at("problem"), "problem");
    for (const Json& id : object.at("faulty")) {
      request.faulty.push_back(from_json_value<std::string>(id, "faulty"));
    }
    return request;
  });
}

TuneMessage parse_message(std::string_view line) {
  return parse("what the worker says", line, [](const Json& object) -> TuneMessage {
    if (object.contains("begins")) return TuneBegins{object["begins"]};
    if (object.contains("lost")) {
      return TuneLost{from_json_value<std::string>(object["lost"], "lost")};
    }
    if (object.contains("error")) {
      return TuneFailure{from_json_value<std::string>(object["error"], "error"),
                         code_of(object.at("exit"))};
    }
    return answer_of(object);
  });
}

}  // namespace attnjit::cli
