#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "cache/cubin.hpp"
#include "cache/kernel_cache.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using namespace attnjit::test;

namespace {

std::vector<std::byte> elf(unsigned char abi, std::uint32_t flags,
                           std::uint16_t machine = EM_CUDA) {
  std::vector<std::byte> bytes = fake_cubin();
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.e_ident[EI_ABIVERSION] = abi;
  header.e_flags = flags;
  header.e_machine = machine;
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Entry with_code(std::vector<std::byte> cubin) {
  Entry entry = make_entry("a");
  entry.cubin = std::move(cubin);
  return entry;
}

}  // namespace

TEST_CASE("the header of a cubin tells its architecture, as NVRTC 12.8 and 13.0 write it") {
  struct Sample {
    const char* arch;
    unsigned char abi;
    std::uint32_t flags;
  };
  const Sample samples[] = {{"sm_80", 7, 0x500550},   {"sm_86", 7, 0x560556},
                            {"sm_90a", 7, 0x5a0d5a},  {"sm_100", 8, 0x6006402},
                            {"sm_80", 8, 0x6005004},  {"sm_89", 8, 0x6005904},
                            {"sm_90a", 8, 0x6005a04}, {"sm_103", 8, 0x6006702},
                            {"sm_120", 8, 0x6007802}, {"sm_121", 8, 0x6007902}};
  for (const Sample& sample : samples) {
    CAPTURE(sample.arch);
    CHECK_FALSE(why_not_code(elf(sample.abi, sample.flags), sample.arch));
    CHECK(why_not_code(elf(sample.abi, sample.flags), "sm_87")->ends_with("and not for sm_87"));
  }
  CHECK(why_not_code(elf(8, 0x6005004, EM_X86_64), "sm_80") == "its cubin is not code for a GPU");
  CHECK_FALSE(why_not_code(elf(8, 0, EM_X86_64), "host"));
  CHECK(why_not_code(std::vector<std::byte>(63), "host") == "its cubin is not an ELF file");
  CHECK(why_not_code(std::vector<std::byte>(64), "sm_80") == "its cubin is not an ELF file");
}

TEST_CASE(
    "an intact entry with code of another architecture is built again once, by two processes") {
  const TempDirectory temp;
  KeepingLog messages;
  const KernelCacheOptions options{.directory = temp / "cache", .lock_directory = temp / "lock"};
  Store(temp / "cache", messages.log()).publish(with_code(elf(8, 0x6005004)));
  int built = 0;
  for (int process = 0; process < 2; ++process) {
    KernelCache cache(options, fake_compiler, messages.log());
    const auto entry = cache.get(key_of("a"), kArch, [&] { return ++built, make_entry("a"); });
    CHECK(entry->cubin == fake_cubin());
    CHECK(cache.store().verify().empty());
  }
  CHECK(built == 1);
  REQUIRE(messages.warnings().size() == 1);
  CHECK(messages.warnings()[0].find("code for sm_80 and not for sm_90a") != std::string::npos);
}
