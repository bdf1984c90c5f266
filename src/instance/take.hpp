#pragma once
#include <algorithm>
#include <string_view>

namespace attnjit::instance {

/// The text before `separator`, which it takes off `rest` with that; all without one.
inline std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return head;
}

}  // namespace attnjit::instance
