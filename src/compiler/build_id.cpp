#include "compiler/build_id.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace attnjit::compiler {
namespace {

struct Search {
  ElfW(Addr) base;
  std::string build_id;
};

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

bool is_loaded(const dl_phdr_info& info, const ElfW(Phdr) & segment) {
  return std::any_of(info.dlpi_phdr, info.dlpi_phdr + info.dlpi_phnum, [&](const auto& load) {
    return load.p_type == PT_LOAD && segment.p_vaddr >= load.p_vaddr &&
           segment.p_vaddr + segment.p_memsz <= load.p_vaddr + load.p_memsz;
  });
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  if (info->dlpi_addr != search.base) return 0;
  for (int i = 0; i < info->dlpi_phnum && search.build_id.empty(); ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE || !is_loaded(*info, segment)) continue;
    const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    search.build_id = find_build_id({notes, segment.p_memsz}, segment.p_align);
  }
  return 1;
}

}  // namespace

// The note segment of libnvrtc 12.4 to 12.8 points at
// bytes that are no notes, so no size that is read here may be trusted.
std::string find_build_id(std::span<const char> notes, std::size_t alignment) {
  const std::size_t size = notes.size();
  alignment = std::max<std::size_t>(4, alignment);
  ElfW(Nhdr) header;
  for (std::size_t at = 0; at + sizeof header <= size;) {
    std::memcpy(&header, notes.data() + at, sizeof header);
    const std::size_t name = at + sizeof header;
    const std::size_t data = at + round_up(sizeof header + header.n_namesz, alignment);
    if (data + header.n_descsz > size) break;
    const std::string_view owner(notes.data() + name, header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && owner == std::string_view("GNU\0", 4)) {
      std::string hex;
      for (std::size_t i = 0; i < header.n_descsz; ++i) {
        hex += fmt::format("{:02x}", static_cast<unsigned char>(notes[data + i]));
      }
      return hex;
    }
    at = data + round_up(header.n_descsz, alignment);
  }
  return {};
}

MappedLibrary inspect_library(void* handle) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return {};
  std::error_code error;
  const auto path = std::filesystem::absolute(map->l_name, error);
  Search search{map->l_addr, {}};
  dl_iterate_phdr(visit, &search);
  return {error ? map->l_name : path.lexically_normal().string(), search.build_id};
}

}  // namespace attnjit::compiler
