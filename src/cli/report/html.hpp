#pragma once
#include <string>
#include <string_view>

namespace attnjit::cli {

/// `text` as the text of an HTML element or attribute; control characters are written as "\x1b".
std::string escaped(std::string_view text);

}  // namespace attnjit::cli
