#include "base/temporary_name.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <random>

namespace attnjit::base {
namespace {

constexpr std::string_view kSuffix = ".tmp";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::size_t kRandomDigits = 16;

constexpr std::string_view kUnknownHost = "unknown";

/// The host's name and the PID namespace, for a process is known by its number in one alone, with
/// nothing in it that a path gives a meaning to.
std::string host_name() {
  std::array<char, 65> name{};
  struct stat space;
  const bool known =
      ::gethostname(name.data(), name.size() - 1) == 0 && ::stat("/proc/self/ns/pid", &space) == 0;
  if (!known) return std::string(kUnknownHost);
  std::string text = fmt::format("{}-{}", name.data(), space.st_ino);
  for (char& c : text) {
    if (c == '/' || c == '.') c = '-';
  }
  return text;
}

}  // namespace

std::string temporary_name() {
  std::random_device random;
  return fmt::format("{}.{}.{:08x}{:08x}{}", host_name(), ::getpid(), random(), random(), kSuffix);
}

std::optional<Writer> writer_of(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const std::size_t random = name.rfind('.');
  const std::size_t number = random == 0 ? name.npos : name.rfind('.', random - 1);
  if (random == name.npos || number == name.npos) return std::nullopt;
  const std::string_view digits = name.substr(random + 1);
  const std::string_view process = name.substr(number + 1, random - number - 1);
  Writer writer{std::string(name.substr(0, number)), 0};
  const auto [rest, error] =
      std::from_chars(process.data(), process.data() + process.size(), writer.process);
  const bool whole = error == std::errc{} && rest == process.data() + process.size();
  const bool hex =
      digits.size() == kRandomDigits && digits.find_first_not_of(kHexDigits) == digits.npos;
  return whole && hex && writer.process > 0 ? std::optional(writer) : std::nullopt;
}

bool has_ended(const Writer& writer) {
  if (writer.host == kUnknownHost || writer.host != host_name()) return false;
  return ::kill(writer.process, 0) != 0 && errno == ESRCH;
}

}  // namespace attnjit::base
