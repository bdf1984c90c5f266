#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace attnjit::base {

/// `text` with control characters, but for those of `kept`, written as "\x1b": a name out of a file
/// neither commands a terminal nor begins a line of its own.
std::string printable(std::string_view text, std::string_view kept = "");

/// printable() of the first `most` bytes of `text`, and "..." where it is longer: what a message
/// repeats of its input. Cuts no character of UTF-8 in two.
std::string excerpt(std::string_view text, std::size_t most = 100);

}  // namespace attnjit::base
