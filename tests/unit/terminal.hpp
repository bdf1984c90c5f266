#pragma once
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace attnjit::test {

/// A terminal that is stderr while it lives.
class Terminal {
 public:
  Terminal() : reader_(::posix_openpt(O_RDWR | O_NOCTTY)), stderr_(::dup(STDERR_FILENO)) {
    REQUIRE(reader_ >= 0);
    REQUIRE(::grantpt(reader_) == 0);
    REQUIRE(::unlockpt(reader_) == 0);
    const int writer = ::open(::ptsname(reader_), O_RDWR | O_NOCTTY);
    REQUIRE(writer >= 0);
    ::dup2(writer, STDERR_FILENO);
    ::close(writer);
  }
  ~Terminal() {
    ::dup2(stderr_, STDERR_FILENO);
    ::close(stderr_);
    ::close(reader_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The text that was written up to and with `end`.
  std::string read_to(std::string_view end) const {
    ::alarm(60);
    std::string text;
    while (!text.ends_with(end)) {
      char byte = 0;
      if (::read(reader_, &byte, 1) != 1) break;
      text += byte;
    }
    ::alarm(0);
    return text;
  }

 private:
  int reader_;
  int stderr_;
};

}  // namespace attnjit::test
