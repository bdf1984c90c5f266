#include "compiler/program.hpp"

#include <fmt/format.h>
#include <locale.h>

#include "attnjit/error.hpp"

namespace attnjit::compiler {
namespace {

/// Some releases before 12.6.2 leave the calling thread in another locale.
class LocaleGuard {
 public:
  LocaleGuard() : saved_(uselocale(locale_t{})) {}
  ~LocaleGuard() { uselocale(saved_); }
  LocaleGuard(const LocaleGuard&) = delete;
  LocaleGuard& operator=(const LocaleGuard&) = delete;

 private:
  locale_t saved_;
};

}  // namespace

Program::Program(const Nvrtc& nvrtc, const std::string& source, const std::string& name)
    : nvrtc_(nvrtc) {
  check(nvrtc.api().create_program(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr),
        "create a program");
}

Program::~Program() { nvrtc_.api().destroy_program(&program_); }

nvrtcResult Program::compile(const std::vector<std::string>& options) {
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const LocaleGuard locale;
  return nvrtc_.api().compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
}

std::string Program::log() const {
  return text(nvrtc_.api().get_log_size, nvrtc_.api().get_log, "return the log");
}

std::string Program::ptx() const {
  return text(nvrtc_.api().get_ptx_size, nvrtc_.api().get_ptx, "return the PTX");
}

std::vector<std::byte> Program::cubin() const {
  std::size_t size = 0;
  check(nvrtc_.api().get_cubin_size(program_, &size), "return the cubin");
  std::vector<std::byte> bytes(size);
  check(nvrtc_.api().get_cubin(program_, reinterpret_cast<char*>(bytes.data())),
        "return the cubin");
  return bytes;
}

void Program::check(nvrtcResult result, std::string_view what) const {
  if (result == NVRTC_SUCCESS) return;
  // The source is not to blame, whose compile has a check of its own.
  throw Error(
      ErrorKind::kNoCompiler,
      fmt::format("NVRTC {} ({}) cannot {}: {}; try again, or set ATTNJIT_NVRTC to another "
                  "release",
                  nvrtc_.version(), nvrtc_.path(), what, nvrtc_.api().get_error_string(result)));
}

template <class GetSize, class Get>
std::string Program::text(GetSize get_size, Get get, std::string_view what) const {
  std::size_t size = 0;
  check(get_size(program_, &size), what);
  std::string result(size, '\0');
  check(get(program_, result.data()), what);
  while (!result.empty() && result.back() == '\0') result.pop_back();
  return result;
}

}  // namespace attnjit::compiler
