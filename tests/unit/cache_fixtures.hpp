#pragma once
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "cache/entry.hpp"
#include "cache/kernel_cache.hpp"

namespace attnjit::test {

inline constexpr const char* kArch = "sm_90a";
inline constexpr const char* kCompiler = "0123456789abcdef0123456789abcdef01234567";

inline cache::KernelKey key_of(const std::string& source) {
  return cache::make_key(source, "entry", kArch, {});
}

/// A payload that passes for a cubin of sm_90a: it has the header of one.
inline std::vector<std::byte> fake_cubin(std::size_t bytes = 1000) {
  std::vector<std::byte> cubin(bytes);
  for (std::size_t i = 0; i < bytes; ++i) cubin[i] = static_cast<std::byte>(i * 7 + i / 251);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_machine = EM_CUDA;
  header.e_flags = 0x6005a04;
  std::memcpy(cubin.data(), &header, sizeof(header));
  return cubin;
}

inline cache::Entry make_entry(const std::string& source) {
  return {.key = key_of(source),
          .arch = kArch,
          .compiler_id = kCompiler,
          .meta_json = R"({"registers":168})",
          .cubin = fake_cubin()};
}

/// The identity of the compiler that made make_entry().
inline const cache::CompilerIdentity fake_compiler = {[] { return std::string(kCompiler); },
                                                      [] { return std::string(kCompiler); }};

/// A log that keeps its warnings.
class KeepingLog {
 public:
  base::Log& log() { return log_; }
  std::vector<std::string> warnings() const {
    const std::scoped_lock lock(mutex_);
    return warnings_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_;
  base::Log log_{base::LogLevel::kWarning, [this](base::LogLevel, std::string_view text) {
                   const std::scoped_lock lock(mutex_);
                   warnings_.emplace_back(text);
                 }};
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spill(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Everything below `directory`.
inline std::size_t count_below(const std::filesystem::path& directory) {
  using Iterator = std::filesystem::recursive_directory_iterator;
  return static_cast<std::size_t>(std::distance(Iterator(directory), Iterator()));
}

}  // namespace attnjit::test
