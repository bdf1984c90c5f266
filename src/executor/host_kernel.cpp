#include "executor/host_kernel.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "attnjit/error.hpp"
#include "executor/thread_block.hpp"

namespace attnjit::executor {
namespace {

base::UniqueFd in_memory(std::span<const std::byte> bytes) {
  base::UniqueFd file(memfd_create("attnjit-kernel", MFD_CLOEXEC));
  while (file && !bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) file = {};
    bytes = bytes.subspan(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  if (!file) {
    throw Error(ErrorKind::kCompile,
                fmt::format("cannot hold a host kernel in memory: {}", std::strerror(errno)));
  }
  return file;
}

}  // namespace

void HostKernel::Close::operator()(void* library) const { dlclose(library); }

HostKernel::HostKernel(std::span<const std::byte> object) : file_(in_memory(object)) {
  const std::string path = fmt::format("/proc/self/fd/{}", file_.get());
  library_.reset(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library_) {
    throw Error(ErrorKind::kCompile, fmt::format("cannot load a host kernel: {}", dlerror()));
  }
  const auto bind = reinterpret_cast<void (*)(const Services*)>(symbol("attnjit_bind"));
  bind(&ThreadBlock::services());
  function_ = reinterpret_cast<Function>(symbol("attnjit_execute"));
}

void* HostKernel::symbol(const char* name) const {
  void* const address = dlsym(library_.get(), name);
  if (address == nullptr) {
    throw Error(ErrorKind::kInternal, fmt::format("a host kernel lacks {}", name));
  }
  return address;
}

}  // namespace attnjit::executor
