#include "compiler/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/file.hpp"
#include "base/sha256.hpp"
#include "compiler/build_id.hpp"

namespace attnjit::compiler {
namespace {

#if defined(__x86_64__)
constexpr ElfW(Half) kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr ElfW(Half) kMachine = EM_AARCH64;
#endif
constexpr std::size_t kMaxNoteBytes = 64 * 1024;

bool read_at(int fd, std::size_t offset, void* to, std::size_t size) {
  return ::pread(fd, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

// The headers and the tables of symbols and sections lie there, which two builds that have code of
// other sizes do not share.
std::optional<std::string> digest_of_ends(int fd) {
  constexpr off_t kEnd = 64 * 1024;
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const auto part = static_cast<std::size_t>(std::min(size, kEnd));
  std::vector<char> bytes(2 * part);
  if (!read_at(fd, 0, bytes.data(), part) ||
      !read_at(fd, static_cast<std::size_t>(size) - part, bytes.data() + part, part)) {
    return std::nullopt;
  }
  base::Sha256 hash;
  hash.update(std::to_string(size));
  hash.update({bytes.data(), bytes.size()});
  return base::hex(hash.finish());
}

bool is_library_of_this_machine(const ElfW(Ehdr) & header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident) &&
         header.e_ident[EI_CLASS] == kClass && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_type == ET_DYN && header.e_machine == kMachine &&
         header.e_phentsize == sizeof(ElfW(Phdr));
}

}  // namespace

std::optional<std::string> id_of_file(const std::filesystem::path& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  ElfW(Ehdr) header;
  if (!fd || !read_at(fd.get(), 0, &header, sizeof header)) return std::nullopt;
  if (!is_library_of_this_machine(header)) return std::nullopt;
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!read_at(fd.get(), header.e_phoff, segments.data(), segments.size() * sizeof(ElfW(Phdr)))) {
    return std::nullopt;
  }
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::vector<char> notes(segment.p_filesz);
    if (!read_at(fd.get(), segment.p_offset, notes.data(), notes.size())) continue;
    std::string id = find_build_id(notes, segment.p_align);
    if (!id.empty()) return id;
  }
  return digest_of_ends(fd.get());
}

}  // namespace attnjit::compiler
