#include "cli/report/console.hpp"

#include <unistd.h>

#include "base/json.hpp"
#include "base/printable.hpp"

namespace attnjit::cli {

void Console::write(std::ostream& stream, std::string_view line) {
  stream << base::printable(line, "\n\t") << '\n';
}

void Console::print_json(const Json& object) {
  if (!json_) return;
  Json whole;
  whole["schema"] = 1;
  whole.update(object);
  // Names come from files and may hold any bytes.
  write(out_, base::dump_json(whole, 2));
}

void Console::error(std::string_view message) {
  write(err_, fmt::format("attnjit: error: {}", message));
}

bool Console::has_progress() const {
  return verbosity_ != Verbosity::kQuiet && ::isatty(STDERR_FILENO) != 0;
}

void Console::progress(std::size_t done, std::size_t total, std::string_view name) {
  if (!has_progress()) return;
  constexpr std::string_view kErase = "\r\x1b[K";
  err_ << kErase;
  if (!name.empty()) err_ << fmt::format("{}/{} {}", done, total, base::excerpt(name, 60));
  err_.flush();
}

}  // namespace attnjit::cli
