#pragma once
#include <regex>
#include <set>
#include <string>

namespace attnjit::test {

/// C++ without comments, #include and #pragma lines.
inline std::string code_of(const std::string& text) {
  static const std::regex kNoCode(R"(//[^\n]*|#(include|pragma)[^\n]*)");
  return std::regex_replace(text, kNoCode, "");
}

/// Every word of C++ text that could be a name.
inline std::set<std::string> identifiers(const std::string& text) {
  static const std::regex kName(R"(\b[A-Za-z_]\w*)");
  return {std::sregex_token_iterator(text.begin(), text.end(), kName),
          std::sregex_token_iterator()};
}

}  // namespace attnjit::test
