#pragma once
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/per_process.hpp"
#include "compiler/facts.hpp"
#include "compiler/nvrtc.hpp"

namespace attnjit::compiler {

class Program;

/// A compiled kernel.
struct Compiled {
  std::vector<std::byte> cubin;
  Facts facts;
  std::string log;
};

/// The options that decide the code for `arch` ("sm_90a"): part of what identifies a kernel.
std::vector<std::string> code_options(std::string_view arch);

/// Turns source into cubin with NVRTC, which is opened on first use. All members may be called
/// from any thread; compiles run in parallel. In a child of fork() they throw Error(kUnsupported)
/// if another thread was inside NVRTC at that moment: its locks would be held for ever.
class Compiler {
 public:
  /// With a `dump_directory`, every compile leaves ENTRY-HASH.cu, .ptx, .cubin and .log there.
  explicit Compiler(NvrtcSearch search, std::filesystem::path dump_directory = {});

  /// Compiles `source` for `arch`. `entry` names its extern "C" kernel.
  /// Throws Error(kNoCompiler), Error(kUnsupported) for an arch that this NVRTC does not know,
  /// and Error(kCompile) with the head of the log and the path of the saved source.
  Compiled compile(const std::string& source, const std::string& entry, const std::string& arch);

  /// The PTX of `source` for the virtual architecture of `arch`. Throws as compile() does.
  std::string ptx(const std::string& source, const std::string& entry, const std::string& arch);

  /// Nvrtc::id().
  const std::string& id() { return nvrtc().id(); }

  /// id() without opening NVRTC, where its files tell it; wrong only where the search would pass
  /// over a file that looks sound. Throws as nvrtc() does.
  std::string likely_id();

  /// Throws Error(kNoCompiler) when there is no usable NVRTC; the next call tries again.
  const Nvrtc& nvrtc();

 private:
  void build(Program& program, const std::string& source, const std::string& entry,
             const std::string& arch);
  void dump(const std::string& source, const std::string& entry, const std::string& arch,
            const std::string& ptx, const Compiled& compiled) const;

  NvrtcSearch search_;
  std::filesystem::path dump_directory_;
  struct Opened {
    std::mutex mutex;  // guards `nvrtc` until it is set
    std::unique_ptr<const Nvrtc> nvrtc;
    std::atomic<int> calls = 0;  // threads that are inside of NVRTC, or opening it
  };
  class Call;
  base::PerProcess<Opened> opened_;
};

}  // namespace attnjit::compiler
