#include "compiler/loader_search.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file.hpp"

namespace attnjit::compiler {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLoaderCache = "/etc/ld.so.cache";
constexpr std::uint64_t kMaxCacheBytes = 64 << 20;
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";

/// As glibc writes them (sysdeps/generic/dl-cache.h); offsets count from the file's first byte.
struct CacheHeader {
  char magic[20];
  std::uint32_t count;
  std::uint32_t string_bytes;
  std::uint8_t unused[20];
};
struct CacheEntry {
  std::int32_t flags;
  std::uint32_t name;
  std::uint32_t path;
  std::uint32_t unused;
  std::uint64_t hardware;  // 0: for every processor
};
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Handle = std::unique_ptr<void, CloseLibrary>;

Handle mapped(const char* name) { return Handle(::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)); }

/// The library, or else the program, that this code is part of: its run path counts.
Handle own_handle() {
  Dl_info info{};
  Handle own;
  if (::dladdr(kCacheMagic.data(), &info) != 0) own = mapped(info.dli_fname);
  return own ? std::move(own) : Handle(::dlopen(nullptr, RTLD_LAZY));
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The text at `offset`, or nothing where it does not end within `bytes`.
std::string_view text_at(std::string_view bytes, std::size_t offset) {
  if (offset >= bytes.size()) return {};
  const std::string_view rest = bytes.substr(offset);
  const std::size_t end = rest.find('\0');
  return end == rest.npos ? std::string_view() : rest.substr(0, end);
}

std::optional<fs::path> find_in_cache(const std::string& soname) {
  const auto file = base::read_regular_file(kLoaderCache, kMaxCacheBytes);
  if (!file || file->size() < sizeof(CacheHeader)) return std::nullopt;
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->size());
  if (!bytes.starts_with(kCacheMagic)) return std::nullopt;
  CacheHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.count; ++i) {
    const std::size_t at = sizeof header + i * sizeof(CacheEntry);
    if (at + sizeof(CacheEntry) > bytes.size()) break;
    CacheEntry entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.hardware != 0 || text_at(bytes, entry.name) != soname) continue;
    const fs::path path = text_at(bytes, entry.path);
    if (is_there(path)) return path;
  }
  return std::nullopt;
}

/// The loader's directories: those that come before its cache, or the default ones after it.
std::vector<fs::path> directories(void* handle, bool before_cache) {
  Dl_serinfo size;
  if (::dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = new (memory.data()) Dl_serinfo(size);
  if (::dlinfo(handle, RTLD_DI_SERINFO, info) != 0) return {};
  std::vector<fs::path> found;
  for (unsigned i = 0; i < info->dls_cnt; ++i) {
    const Dl_serpath& path = info->dls_serpath[i];
    if (((path.dls_flags & LA_SER_DEFAULT) == 0) == before_cache) found.emplace_back(path.dls_name);
  }
  return found;
}

}  // namespace

bool is_mapped(const std::string& name) { return mapped(name.c_str()) != nullptr; }

std::optional<fs::path> find_by_soname(const std::string& soname) {
  const Handle own = own_handle();
  if (!own) return std::nullopt;
  for (const fs::path& directory : directories(own.get(), true)) {
    if (is_there(directory / soname)) return directory / soname;
  }
  if (auto path = find_in_cache(soname)) return path;
  for (const fs::path& directory : directories(own.get(), false)) {
    if (is_there(directory / soname)) return directory / soname;
  }
  return std::nullopt;
}

}  // namespace attnjit::compiler
