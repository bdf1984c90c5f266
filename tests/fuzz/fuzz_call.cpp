// Dumps of calls: the members of a call as JSON, and files whose head has a sound checksum.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/json.hpp"
#include "dump/call_json.hpp"
#include "dump/reader.hpp"
#include "fuzz_target.hpp"

using namespace attnjit;

namespace {

constexpr std::uint64_t kMemory = std::uint64_t{1} << 20;

void read_members(const base::Json& json, bool backward) {
  const dump::Call call = dump::call_from_json(json, backward);
  const base::Json again = dump::to_json(call);
  fuzz::require(dump::to_json(dump::call_from_json(again, backward)) == again,
                "what was read is written and read as the same");
  dump::HostCall host(call, kMemory);
  for (std::size_t i = 0; i < host.parts().size(); ++i) {
    const dump::Part& part = host.parts()[i];
    const auto bytes = dump::packed_bytes(part.view);
    // An axis may go over the same elements again and again.
    if (part.view.data == nullptr || !bytes || *bytes > kMemory) continue;
    host.fill(i, std::vector<std::byte>(*bytes));
  }
}

// `bytes` as a file; with `seal`, after the checksum of its head was made to match.
void read_file(std::string bytes, bool seal) {
  dump::Header header;
  if (seal && bytes.size() >= sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto head = std::string_view(bytes).substr(sizeof header, header.head_bytes);
    header.digest = dump::digest_of(header, head);
    std::memcpy(bytes.data(), &header, sizeof header);
  }
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "attnjit-fuzz.call";
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  fuzz::expect_error_or_value([&] { dump::CallFile::open(path).load(kMemory); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text(data, size);
  const base::Json json = base::try_parse_json(text);
  for (const bool backward : {false, true}) {
    fuzz::expect_error_or_value([&] { read_members(json, backward); });
  }
  read_file(std::string(text), false);
  read_file(std::string(text), true);
  return 0;
}
