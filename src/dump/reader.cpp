#include "dump/reader.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <variant>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "base/printable.hpp"
#include "dump/call_json.hpp"
#include "dump/pages.hpp"

namespace attnjit::dump {
namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& path, std::string_view why) {
  throw Error(ErrorKind::kInvalidEnvironment,
              fmt::format("{}: {}; expected a file that ATTNJIT_DUMP_CALLS of this version wrote",
                          base::printable(path.string()), why));
}

// A file of a dump, and its head.
struct OpenFile {
  base::RandomAccessFile file;
  Header header;
  std::string head;

  std::uint64_t begin() const { return sizeof(Header) + header.head_bytes; }
};

OpenFile open_file(const std::filesystem::path& path, Content content) {
  auto opened = base::RandomAccessFile::open(path);
  if (const auto* why = std::get_if<std::string>(&opened)) refuse_file(path, *why);
  OpenFile result{std::get<base::RandomAccessFile>(std::move(opened)), {}, {}};
  if (result.file.size() < sizeof(Header)) refuse_file(path, "it is shorter than a header");
  const auto bytes = result.file.read(0, sizeof(Header));
  if (!bytes) refuse_file(path, "it cannot be read");
  std::memcpy(&result.header, bytes->data(), sizeof(Header));
  const Header& header = result.header;
  if (header.magic != kDumpMagic) refuse_file(path, "its first bytes are not those of a dump");
  if (header.format != kDumpFormat || header.header_bytes != sizeof(Header)) {
    refuse_file(path, fmt::format("its format is {} and not {}", header.format, kDumpFormat));
  }
  if (header.content != content) refuse_file(path, "it holds the other half of a dump");
  if (header.head_bytes > kMaxHeadBytes ||
      header.head_bytes > result.file.size() - sizeof(Header)) {
    refuse_file(path, "its head claims to be longer than the file or than allowed");
  }
  const auto head = result.file.read(sizeof(Header), header.head_bytes);
  if (!head) refuse_file(path, "its head cannot be read");
  result.head.assign(reinterpret_cast<const char*>(head->data()), head->size());
  if (digest_of(header, result.head) != header.digest) {
    refuse_file(path, "the checksum of its head does not match");
  }
  return result;
}

// The parts of `role`, with the bytes that a file has for them; refuses a file of another size.
struct StoredPart {
  std::size_t index;
  std::uint64_t offset, bytes;
};
std::vector<StoredPart> stored_parts(const std::filesystem::path& path, const Call& call, Role role,
                                     std::uint64_t begin, std::uint64_t size) {
  std::vector<StoredPart> stored;
  std::uint64_t end = begin;
  const std::vector<Part> parts = call.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].role != role || parts[i].view.data == nullptr) continue;
    const auto bytes = packed_bytes(parts[i].view);
    if (!bytes || *bytes > size || end > size) {
      refuse_file(path, fmt::format("{} claims to be larger than the file", parts[i].name));
    }
    stored.push_back({i, end, *bytes});
    end += *bytes + sizeof(base::Digest);
  }
  if (end != size) refuse_file(path, fmt::format("it has {} bytes instead of {}", size, end));
  return stored;
}

std::vector<std::byte> read_part(const std::filesystem::path& path,
                                 const base::RandomAccessFile& file, const StoredPart& part,
                                 const std::string& name) {
  auto bytes = file.read(part.offset, part.bytes);
  const auto digest = file.read(part.offset + part.bytes, sizeof(base::Digest));
  if (!bytes || !digest) refuse_file(path, name + " cannot be read");
  base::Sha256 hash;
  hash.update(*bytes);
  const base::Digest found = hash.finish();
  if (std::memcmp(found.data(), digest->data(), found.size()) != 0) {
    refuse_file(path, fmt::format("the checksum of {} does not match", name));
  }
  return *std::move(bytes);
}

const base::Json& object_member(const base::Json& head, const char* name) {
  if (!head.is_object() || !head.contains(name)) {
    base::refuse_json("head", head, fmt::format("an object with a member \"{}\"", name));
  }
  return head[name];
}

struct ParsedHead {
  Origin origin;
  Call call;
};
ParsedHead parse_head(const std::filesystem::path& path, const std::string& text) try {
  const base::Json head = base::parse_json(text);
  const auto pass = base::from_json_value<std::string>(object_member(head, "pass"), "pass");
  if (pass != "forward" && pass != "backward") {
    base::refuse_json("pass", pass, "forward or backward");
  }
  return {base::from_json_value<Origin>(object_member(head, "origin"), "origin"),
          call_from_json(object_member(head, "call"), pass == "backward")};
} catch (const Error& error) {
  refuse_file(path, error.what());
}

}  // namespace

CallFile::CallFile(std::filesystem::path path, base::RandomAccessFile file, std::uint64_t begin,
                   base::Digest digest, Origin origin, Call call)
    : path_(std::move(path)),
      file_(std::move(file)),
      begin_(begin),
      digest_(digest),
      origin_(std::move(origin)),
      call_(std::move(call)) {}

CallFile CallFile::open(const std::filesystem::path& path) {
  OpenFile opened = open_file(path, Content::kCall);
  ParsedHead parsed = parse_head(path, opened.head);
  stored_parts(path, parsed.call, Role::kInput, opened.begin(), opened.file.size());
  return {path,
          std::move(opened.file),
          opened.begin(),
          opened.header.digest,
          std::move(parsed.origin),
          std::move(parsed.call)};
}

HostCall CallFile::load(std::uint64_t max_bytes) const {
  HostCall host(call_, max_bytes);
  for (const StoredPart& stored : stored_parts(path_, call_, Role::kInput, begin_, file_.size())) {
    const std::string& name = host.parts()[stored.index].name;
    const std::vector<std::byte> bytes = read_part(path_, file_, stored, name);
    const Tensor& view = host.parts()[stored.index].view;
    if (!is_pool(call_.forward_args(), name)) {
      host.fill(stored.index, bytes);
      continue;
    }
    const auto page_bytes =
        view.shape[0] == 0 ? 0 : bytes.size() / static_cast<std::size_t>(view.shape[0]);
    for (std::int64_t page = 0; page < view.shape[0]; ++page) {
      unpack(page_of(view, page),
             std::span(bytes).subspan(static_cast<std::size_t>(page) * page_bytes, page_bytes));
    }
  }
  return host;
}

std::optional<Results> CallFile::load_results() const {
  std::filesystem::path path = path_;
  path.replace_extension(kResultsSuffix);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return std::nullopt;
  const OpenFile opened = open_file(path, Content::kResults);
  const base::Json head = base::try_parse_json(opened.head);
  if (!head.is_object() || !head.contains("call") || head["call"] != base::hex(digest_)) {
    refuse_file(path, "it belongs to another call");
  }
  Results results(call_.parts().size());
  for (const StoredPart& stored :
       stored_parts(path, call_, Role::kOutput, opened.begin(), opened.file.size())) {
    results[stored.index] = read_part(path, opened.file, stored, call_.parts()[stored.index].name);
  }
  return results;
}

}  // namespace attnjit::dump
