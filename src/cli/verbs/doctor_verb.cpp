
#include "base/json.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/doctor/machine_report.hpp"

namespace attnjit::cli {
namespace {

void print_text(const std::vector<Section>& sections, Console& console) {
  console.print("attnjit {}", ATTNJIT_VERSION);
  for (const Section& section : sections) {
    console.print("\n{}", section.title);
    for (const auto& [name, value] : section.lines) console.print("  {:<24}  {}", name, value);
  }
  console.print("\nwhat to do");
  bool nothing = true;
  for (const Section& section : sections) {
    for (const std::string& advice : section.advice) {
      console.print("  * {}: {}", section.title, advice);
      nothing = false;
    }
  }
  if (nothing) console.print("  nothing: all is as it should be");
}

void print_json(const std::vector<Section>& sections, Console& console) {
  Json object = {{"version", ATTNJIT_VERSION}};
  Json advice = Json::array();
  for (const Section& section : sections) {
    Json lines = Json::object();
    for (const auto& [name, value] : section.lines) lines[name] = value;
    object[section.title] = lines;
    for (const std::string& text : section.advice) {
      advice.push_back({{"section", section.title}, {"text", text}});
    }
  }
  object["what_to_do"] = advice;
  console.print_json(object);
}

}  // namespace

ExitCode doctor(Session& session) {
  const std::vector<Section> sections = {compiler_section(session), executor_section(session),
                                         driver_section(session),   cache_section(session),
                                         bundle_section(session),   environment_section(session),
                                         counter_section(session)};
  print_text(sections, session.console());
  print_json(sections, session.console());
  return ExitCode::kDone;
}

}  // namespace attnjit::cli
