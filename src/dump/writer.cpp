#include "dump/writer.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "base/fields_json.hpp"
#include "dump/call_json.hpp"

namespace attnjit::dump {

base::Digest digest_of(const Header& header, std::string_view head) {
  base::Sha256 hash;
  hash.update(std::as_bytes(std::span(&header, 1)).first(sizeof(Header) - sizeof(base::Digest)));
  hash.update(head);
  return hash.finish();
}

CallWriter::CallWriter(std::filesystem::path folder, std::string name, const Call& call,
                       const Fetch& fetch)
    : folder_(std::move(folder)), name_(std::move(name)), call_(call), fetch_(fetch) {
  if (call.forward_args().block_table == nullptr) return;
  pages_ = used_pages(call.forward_args(), fetch);
  ForwardArgs& args = call_.members().forward;
  args.k.shape[0] = args.v.shape[0] = static_cast<std::int64_t>(pages_->kept.size());
}

std::uint64_t CallWriter::bytes() const {
  std::uint64_t bytes = 0;
  for (const Part& part : call_.parts()) bytes += packed_bytes(part.view).value_or(0);
  return bytes;
}

base::WriteResult CallWriter::write_call(const Origin& origin) {
  base::Json head = {{"origin", base::to_json_value(origin)},
                     {"pass", call_.backward() ? "backward" : "forward"},
                     {"call", to_json(call_)},
                     {"pages", nullptr}};
  if (pages_) head["pages"] = {{"of", pages_->of}, {"kept", pages_->kept}};
  return write(call_file(), Content::kCall, base::dump_json(head), Role::kInput);
}

base::WriteResult CallWriter::write_results() {
  const base::Json head = {{"call", digest_}};
  return write(folder_ / (name_ + kResultsSuffix), Content::kResults, base::dump_json(head),
               Role::kOutput);
}

std::filesystem::path CallWriter::call_file() const { return folder_ / (name_ + kCallSuffix); }

base::WriteResult CallWriter::write(const std::filesystem::path& path, Content content,
                                    const std::string& head, Role role) {
  Header header;
  header.content = content;
  header.head_bytes = head.size();
  header.digest = digest_of(header, head);
  if (content == Content::kCall) digest_ = base::hex(header.digest);
  base::AtomicFile file(path, folder_);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(head)));
  for (const Part& part : call_.parts()) {
    if (part.role == role && part.view.data != nullptr) write_part(file, part);
  }
  base::WriteResult result = file.finish();
  if (result.ok()) result = base::sync_directory(folder_);
  return result;
}

void CallWriter::write_part(base::AtomicFile& file, const Part& part) const {
  base::Sha256 hash;
  const Sink sink = [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    file.write(bytes);
  };
  if (pages_ && part.name == "block_table") {
    sink(std::as_bytes(std::span(pages_->table)));
  } else if (pages_ && is_pool(call_.forward_args(), part.name)) {
    for (const std::int32_t page : pages_->kept) pack(page_of(part.view, page), fetch_, sink);
  } else {
    pack(part.view, fetch_, sink);
  }
  const base::Digest digest = hash.finish();
  file.write(std::as_bytes(std::span(digest)));
}

}  // namespace attnjit::dump
