#include "base/printable.hpp"

#include <fmt/format.h>

#include <iterator>

namespace attnjit::base {
namespace {

bool is_control(unsigned char byte) { return byte < 0x20 || byte == 0x7f; }

// U+0080 to U+009F in UTF-8 are control characters too.
bool is_upper_control(unsigned char lead, unsigned char next) {
  return lead == 0xc2 && next >= 0x80 && next <= 0x9f;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (is_control(byte) && kept.find(text[i]) == std::string_view::npos) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", byte);
    } else if (is_upper_control(byte, next)) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", next);
      ++i;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

std::string excerpt(std::string_view text, std::size_t most) {
  if (text.size() <= most) return printable(text);
  std::size_t end = most;
  while (end > 0 && continues_character(text[end])) --end;
  return printable(text.substr(0, end)) + "...";
}

}  // namespace attnjit::base
