#include "compiler/log_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "attnjit/error.hpp"

namespace attnjit::compiler {
namespace {

// Echoed source lines are indented, so that a comment cannot pass for a message at column 0.
constexpr std::string_view kPtxas = "ptxas";
constexpr std::string_view kFunction = "Function properties for ";

bool contains(std::string_view line, std::string_view text) {
  return line.find(text) != std::string_view::npos;
}

/// The number that stands before `unit`, as in "16 bytes stack frame"; 0 without one.
int number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

/// Whether the line carries a code such as "(C7510)".
bool has_code(std::string_view line) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = line.find("(C"); at != std::string_view::npos;
       at = line.find("(C", at + 1)) {
    const std::string_view code = line.substr(at + 2, 5);
    if (code.size() == 5 && code[4] == ')' && std::all_of(code.begin(), code.end() - 1, digit)) {
      return true;
    }
  }
  return false;
}

bool worth_keeping(std::string_view line) {
  if (line.starts_with(kPtxas)) return contains(line, " warning ") || has_code(line);
  return !line.starts_with(' ') && contains(line, ": warning ");
}

void read_resources(std::string_view line, Facts& facts) {
  if (contains(line, " bytes stack frame")) {
    facts.stack_bytes = number_before(line, " bytes stack frame");
    facts.spill_store_bytes = number_before(line, " bytes spill stores");
    facts.spill_load_bytes = number_before(line, " bytes spill loads");
  } else if (contains(line, ": Used ")) {
    facts.registers = number_before(line, " registers");
    facts.static_shared_bytes = number_before(line, " bytes smem");
  }
}

}  // namespace

Facts parse_log(std::string_view log, std::string_view entry) {
  Facts facts;
  bool found = false;
  bool in_entry = false;  // the lines from here on speak of `entry`
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    if (worth_keeping(line)) facts.warnings.emplace_back(line);
    if (!line.starts_with(kPtxas)) continue;
    if (const std::size_t at = line.find(kFunction); at != std::string_view::npos) {
      in_entry = line.substr(at + kFunction.size()) == entry;
      found = found || in_entry;
    } else if (in_entry) {
      read_resources(line, facts);
    }
  }
  if (!found) {
    throw Error(ErrorKind::kInternal,
                fmt::format("the compiler's log reports no kernel named '{}'", entry));
  }
  return facts;
}

}  // namespace attnjit::compiler
