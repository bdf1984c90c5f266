#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace attnjit::base {

/// The process that an unfinished file belongs to.
struct Writer {
  std::string host;  ///< and its PID namespace
  pid_t process = 0;
};

/// A name for an unfinished file, <host>.<process>.<random>.tmp, that no other process or thread
/// comes up with, on this machine or another.
std::string temporary_name();

/// The writer that a temporary_name() tells; nullopt where `name` is none.
std::optional<Writer> writer_of(std::string_view name);

/// Whether `writer` is known to have ended: a process of this host and PID namespace that is not
/// there.
bool has_ended(const Writer& writer);

}  // namespace attnjit::base
