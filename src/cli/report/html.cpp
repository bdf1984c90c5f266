#include "cli/report/html.hpp"

#include "base/printable.hpp"

namespace attnjit::cli {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : base::printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace attnjit::cli
