#include "unit/file_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>

namespace attnjit::test {
namespace {

/// A count of calls that goes on.
struct Watch {
  std::vector<std::string> calls;
  std::size_t at;
  FileFault fault;
};

thread_local Watch* watch = nullptr;

// The C library's own function of this name.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Counts a call; the fault that it meets with, or null.
const FileFault* count(const char* name) {
  if (watch == nullptr) return nullptr;
  Watch& counted = *watch;
  watch = nullptr;  // what counting does is not counted
  const bool met = counted.calls.size() == counted.at;
  counted.calls.emplace_back(name);
  watch = &counted;
  if (!met) return nullptr;
  if (counted.fault.kind == FileFault::Kind::kKill) ::kill(::getpid(), SIGKILL);
  return &counted.fault;
}

bool is_error(const FileFault* fault) {
  return fault != nullptr && fault->kind == FileFault::Kind::kError;
}

int failed(const FileFault& fault) {
  errno = fault.error;
  return -1;
}

// Counts a call, which fails or is made.
template <class Call>
int counted(const char* name, const Call& call) {
  const FileFault* const fault = count(name);
  return is_error(fault) ? failed(*fault) : call();
}

// The same of one that transfers `bytes` bytes.
template <class Call>
ssize_t transferred(const char* name, std::size_t bytes, const Call& call) {
  const FileFault* const fault = count(name);
  if (is_error(fault)) return failed(*fault);
  return call(fault != nullptr && bytes > 1 ? bytes / 2 : bytes);
}

}  // namespace

std::vector<std::string> file_calls(const std::function<void()>& work, std::size_t at,
                                    const FileFault& fault) {
  Watch counted{{}, at, fault};
  watch = &counted;
  try {
    work();
  } catch (...) {
    watch = nullptr;
    throw;
  }
  watch = nullptr;
  return counted.calls;
}

}  // namespace attnjit::test

using attnjit::test::counted;
using attnjit::test::next;
using attnjit::test::transferred;

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return counted("open", [&] { return real(path, flags, mode); });
}

int close(int fd) {
  static const auto real = next<int(int)>("close");
  const auto* const fault = attnjit::test::count("close");
  const int result = real(fd);
  return attnjit::test::is_error(fault) ? attnjit::test::failed(*fault) : result;
}

ssize_t read(int fd, void* bytes, std::size_t size) {
  static const auto real = next<ssize_t(int, void*, std::size_t)>("read");
  return transferred("read", size, [&](std::size_t part) { return real(fd, bytes, part); });
}

ssize_t pread(int fd, void* bytes, std::size_t size, off_t offset) {
  static const auto real = next<ssize_t(int, void*, std::size_t, off_t)>("pread");
  return transferred("pread", size,
                     [&](std::size_t part) { return real(fd, bytes, part, offset); });
}

ssize_t write(int fd, const void* bytes, std::size_t size) {
  static const auto real = next<ssize_t(int, const void*, std::size_t)>("write");
  return transferred("write", size, [&](std::size_t part) { return real(fd, bytes, part); });
}

int fsync(int fd) {
  static const auto real = next<int(int)>("fsync");
  return counted("fsync", [&] { return real(fd); });
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("rename");
  return counted("rename", [&] { return real(from, to); });
}

int unlink(const char* path) noexcept {
  static const auto real = next<int(const char*)>("unlink");
  return counted("unlink", [&] { return real(path); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return counted("mkdir", [&] { return real(path, mode); });
}

int flock(int fd, int operation) noexcept {
  static const auto real = next<int(int, int)>("flock");
  return counted("flock", [&] { return real(fd, operation); });
}

int fstat(int fd, struct stat* status) noexcept {
  static const auto real = next<int(int, struct stat*)>("fstat");
  return counted("fstat", [&] { return real(fd, status); });
}

int lstat(const char* path, struct stat* status) noexcept {
  static const auto real = next<int(const char*, struct stat*)>("lstat");
  return counted("lstat", [&] { return real(path, status); });
}

}  // extern "C"
