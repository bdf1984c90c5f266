#include "compiler/compiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "attnjit/error.hpp"
#include "base/environment.hpp"
#include "base/sha256.hpp"
#include "compiler/log_parser.hpp"
#include "compiler/nvrtc_identity.hpp"
#include "compiler/program.hpp"
#include "compiler/saved_files.hpp"

namespace attnjit::compiler {
namespace {

constexpr int kLogLinesShown = 40;

std::string virtual_arch(const std::string& arch) {
  return "compute_" + arch.substr(std::string_view("sm_").size());
}

std::vector<std::string> all_options(const Nvrtc& nvrtc, std::string_view arch) {
  std::vector<std::string> options = code_options(arch);
  // NVRTC's own cache, there since 12.9, would write to the home directory and make compile times
  // depend on what it holds.
  const bool has_cache =
      nvrtc.version_major() > 12 || (nvrtc.version_major() == 12 && nvrtc.version_minor() >= 9);
  if (has_cache) options.emplace_back("--no-cache");
  // Without this NVRTC raises the stack limit of the whole process.
  options.emplace_back("--modify-stack-limit=false");
  // Two arguments: ptxas takes a comma-joined list for one unknown option.
  options.emplace_back("--ptxas-options=-v");
  options.emplace_back("--ptxas-options=--warn-on-spills");
  return options;
}

/// "13.0.88": the release that NVRTC stamps into a cubin. nvrtcVersion() has only "13.0", which is
/// what remains for a cubin without the stamp.
std::string toolkit_release(const Nvrtc& nvrtc, std::span<const std::byte> cubin) {
  const std::string_view bytes(reinterpret_cast<const char*>(cubin.data()), cubin.size());
  const std::string stamp = fmt::format(", V{}.", nvrtc.version());
  const std::size_t at = bytes.find(stamp);
  if (at == std::string_view::npos) return nvrtc.version();
  const std::size_t digits = at + stamp.size();
  const std::size_t end = std::min(bytes.find_first_not_of("0123456789", digits), bytes.size());
  return fmt::format("{}.{}", nvrtc.version(), bytes.substr(digits, end - digits));
}

/// The first lines of `log`, and how many were left out.
std::string head(std::string_view log) {
  std::size_t end = 0;
  for (int line = 0; line < kLogLinesShown; ++line) {
    const std::size_t next = log.find('\n', end);
    if (next == std::string_view::npos) return std::string(log);
    end = next + 1;
  }
  const std::string_view rest = log.substr(end);
  if (rest.empty()) return std::string(log);
  return fmt::format("{}... {} more lines\n", log.substr(0, end),
                     std::count(rest.begin(), rest.end(), '\n'));
}

/// The stem of the names of one compile's files: the same source and architecture give the same
/// name.
std::string file_stem(const std::string& prefix, const std::string& source,
                      const std::string& arch) {
  return fmt::format("{}-{}", prefix, base::hex(base::sha256(arch + '\n' + source)).substr(0, 8));
}

/// Saves the source and the log of a failed compile and says where.
std::string save_failure(const std::filesystem::path& dump_directory, const std::string& source,
                         const std::string& entry, const std::string& arch,
                         const std::string& log) {
  SavedFiles files =
      dump_directory.empty()
          ? SavedFiles(base::temporary_directory(), file_stem("attnjit", source, arch))
          : SavedFiles(dump_directory, file_stem(entry, source, arch));
  files.write(".cu", source);
  files.write(".log", log);
  if (!files.trouble().empty()) return fmt::format("not saved ({})", files.trouble());
  return fmt::format("{} (whole log: {})", files.path(".cu").string(), files.path(".log").string());
}

struct Failure {
  ErrorKind kind;
  std::string_view advice;
};

Failure classify(nvrtcResult result) {
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    return {ErrorKind::kNoCompiler,
            "The libnvrtc-builtins library of the same release must lie in the directory of this one; set "
            "ATTNJIT_NVRTC to a complete copy.\n"};
  }
  // The source is not to blame: kCompile would say that it never compiles.
  if (result == NVRTC_ERROR_OUT_OF_MEMORY) {
    return {ErrorKind::kNoCompiler, "Free memory, or compile on fewer threads (ATTNJIT_JOBS).\n"};
  }
  if (result == NVRTC_ERROR_INTERNAL_ERROR) {
    return {ErrorKind::kNoCompiler,
            "The compiler itself failed. Try again, with more memory or fewer threads "
            "(ATTNJIT_JOBS), or set ATTNJIT_NVRTC to another release.\n"};
  }
  return {ErrorKind::kCompile, ""};
}

}  // namespace

std::vector<std::string> code_options(std::string_view arch) {
  // Kernels say which products are fused, so that a CPU computes the same sums.
  return {fmt::format("-arch={}", arch), "--std=c++20", "--device-as-default-execution-space",
          "--fmad=false"};
}

Compiler::Compiler(NvrtcSearch search, std::filesystem::path dump_directory)
    : search_(std::move(search)), dump_directory_(std::move(dump_directory)) {}

/// The time that a thread spends inside of NVRTC.
class Compiler::Call {
 public:
  explicit Call(const base::PerProcess<Opened>& opened) : calls_(opened->calls) {
    if (opened.inherited([](const Opened& parent) { return parent.calls > 0; })) {
      throw Error(
          ErrorKind::kUnsupported,
          "cannot compile in a child of fork(): another thread was compiling at that "
          "moment, and NVRTC's locks stay held; start the process by spawn, fork before the "
          "first compile, or warm the cache up beforehand");
    }
    ++calls_;
  }
  ~Call() { --calls_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  std::atomic<int>& calls_;
};

const Nvrtc& Compiler::nvrtc() {
  const Call call(opened_);
  Opened& opened = *opened_;
  const std::lock_guard lock(opened.mutex);
  if (opened.nvrtc == nullptr) opened.nvrtc = std::make_unique<const Nvrtc>(search_);
  return *opened.nvrtc;
}

std::string Compiler::likely_id() {
  if (auto id = nvrtc_id_from_files(search_)) return *std::move(id);
  return id();
}

Compiled Compiler::compile(const std::string& source, const std::string& entry,
                           const std::string& arch) {
  const Call call(opened_);
  nvrtc().check_arch(arch);
  Program program(nvrtc(), source, entry + ".cu");
  build(program, source, entry, arch);
  Compiled compiled{program.cubin(), {}, program.log()};
  dump(source, entry, arch, program.ptx(), compiled);
  compiled.facts = parse_log(compiled.log, entry);
  compiled.facts.nvrtc_version = toolkit_release(nvrtc(), compiled.cubin);
  return compiled;
}

std::string Compiler::ptx(const std::string& source, const std::string& entry,
                          const std::string& arch) {
  const Call call(opened_);
  nvrtc().check_arch(arch);
  Program program(nvrtc(), source, entry + ".cu");
  build(program, source, entry, virtual_arch(arch));
  return program.ptx();
}

void Compiler::build(Program& program, const std::string& source, const std::string& entry,
                     const std::string& arch) {
  const nvrtcResult result = program.compile(all_options(nvrtc(), arch));
  if (result == NVRTC_SUCCESS) return;
  const std::string log = program.log();
  const Failure failure = classify(result);
  std::string message =
      fmt::format("NVRTC {} ({}) cannot compile the kernel '{}' for {}: {}\n{}", nvrtc().version(),
                  nvrtc().path(), entry, arch, nvrtc().api().get_error_string(result), head(log));
  if (message.back() != '\n') message += '\n';
  message += fmt::format("{}Source: {}", failure.advice,
                         save_failure(dump_directory_, source, entry, arch, log));
  throw Error(failure.kind, message);
}

void Compiler::dump(const std::string& source, const std::string& entry, const std::string& arch,
                    const std::string& ptx, const Compiled& compiled) const {
  if (dump_directory_.empty()) return;
  SavedFiles files(dump_directory_, file_stem(entry, source, arch));
  files.write(".cu", source);
  files.write(".ptx", ptx);
  files.write(".log", compiled.log);
  files.write(".cubin",
              {reinterpret_cast<const char*>(compiled.cubin.data()), compiled.cubin.size()});
  if (!files.trouble().empty()) {
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("cannot dump a kernel ({}); choose a directory that can be written, or "
                            "none",
                            files.trouble()));
  }
}

}  // namespace attnjit::compiler
