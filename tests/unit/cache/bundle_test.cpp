#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "cache/bundle.hpp"
#include "cache/bundle_index.hpp"
#include "cache/bundle_writer.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using namespace attnjit::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kSources = {"a", "b", "c", "d", "e"};
constexpr const char* kRecordText = R"({"us":412.8})";

base::Digest record_name() { return base::sha256("t/device/family/q1.json"); }

BundleWriter sample() {
  BundleWriter writer;
  for (const std::string& source : kSources) writer.add(make_entry(source));
  writer.add_record(record_name(), kArch, kRecordText);
  return writer;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file of `bytes` that is opened as a bundle.
struct File {
  TempDirectory directory;
  fs::path path = directory / "kernels.atkb";

  std::variant<Bundle, std::string> open(const std::string& bytes) const {
    spill(path, bytes);
    return Bundle::open(path);
  }
  std::string why_refused(const std::string& bytes) const {
    const auto opened = open(bytes);
    const auto* const reason = std::get_if<std::string>(&opened);
    return reason ? *reason : "";
  }
};

/// A bundle whose header and rows were changed by someone who also made the checksum good.
std::string forged(const std::function<void(BundleHeader&, std::span<BundleRow>)>& change) {
  std::vector<std::byte> bytes = sample().encode();
  BundleHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<BundleRow> rows(header.num_members);
  const std::size_t head = sizeof(header) + rows.size() * sizeof(BundleRow);
  std::memcpy(rows.data(), bytes.data() + sizeof(header), head - sizeof(header));
  change(header, rows);
  std::memcpy(bytes.data() + sizeof(header), rows.data(), head - sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.checksum = index_checksum(std::span(bytes).first(head));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return text_of(bytes);
}

/// Whether every member of `bundle` is what sample() put there.
bool is_intact(const Bundle& bundle) {
  for (const std::string& source : kSources) {
    const BundleMember* const member = bundle.find(*member_name(key_of(source), kArch));
    if (member == nullptr) return false;
    const auto kernel = bundle.kernel(*member);
    const Entry* const entry = std::get_if<Entry>(&kernel);
    if (entry == nullptr || entry->cubin != make_entry(source).cubin) return false;
  }
  const BundleMember* const record = bundle.find(*member_name(record_name(), kArch));
  return record != nullptr && bundle.record(*record) == kRecordText;
}

}  // namespace

TEST_CASE("a bundle gives its kernels and records back, and nothing else") {
  const File file;
  const auto opened = file.open(text_of(sample().encode()));
  REQUIRE(std::holds_alternative<Bundle>(opened));
  const Bundle& bundle = std::get<Bundle>(opened);
  CHECK(bundle.members().size() == 6);
  CHECK(is_intact(bundle));
  const BundleMember* const member = bundle.find(*member_name(key_of("c"), kArch));
  REQUIRE(member != nullptr);
  CHECK(member->arch() == kArch);
  const Entry entry = std::get<Entry>(bundle.kernel(*member));
  CHECK(entry.compiler_id == kCompiler);
  CHECK(entry.meta_json == make_entry("c").meta_json);

  CHECK(bundle.find(*member_name(key_of("f"), kArch)) == nullptr);
  CHECK(bundle.find(*member_name(key_of("c"), "sm_80")) == nullptr);
  CHECK(bundle.find(*member_name(record_name(), "sm_80")) == nullptr);
  CHECK(bundle.find(*member_name(key_of("c").digest, kArch)) == nullptr);  // a kernel's name
  CHECK_FALSE(member_name(key_of("c"), "sm_1234567890123"));
}

TEST_CASE("the same members in any order are the same bytes") {
  BundleWriter other;
  other.add_record(record_name(), kArch, kRecordText);
  for (auto it = kSources.rbegin(); it != kSources.rend(); ++it) CHECK(other.add(make_entry(*it)));
  CHECK(other.encode() == sample().encode());
  CHECK(other.kernels() == 5);
  CHECK(other.records() == 1);
  Entry second = make_entry("a");
  second.cubin = fake_cubin(2000);
  CHECK_FALSE(other.add(second));  // the first of a name stays
  CHECK(other.encode() == sample().encode());
  const File file;
  const auto empty = file.open(text_of(BundleWriter().encode()));
  CHECK(std::get<Bundle>(empty).members().empty());
}

TEST_CASE("a truncated or extended bundle is refused, with a reason") {
  const File file;
  const std::string bytes = text_of(sample().encode());
  for (std::size_t size = 0; size < bytes.size(); size += size < 700 ? 1 : 13) {
    CAPTURE(size);
    CHECK_FALSE(file.why_refused(bytes.substr(0, size)).empty());
  }
  CHECK_FALSE(file.why_refused(bytes.substr(0, bytes.size() - 1)).empty());
  CHECK_FALSE(file.why_refused(bytes + '\0').empty());
  CHECK_FALSE(file.why_refused(bytes + bytes).empty());
}

TEST_CASE("no flipped byte gets past the index or the member that it is in") {
  const File file;
  const std::string bytes = text_of(sample().encode());
  const std::size_t head = sizeof(BundleHeader) + 6 * sizeof(BundleRow);
  for (std::size_t i = 0; i < bytes.size(); i += i < head ? 1 : 17) {
    CAPTURE(i);
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    const auto opened = file.open(changed);
    const Bundle* const bundle = std::get_if<Bundle>(&opened);
    CHECK((bundle == nullptr) == (i < head));
    if (bundle != nullptr) CHECK_FALSE(is_intact(*bundle));
  }
}

TEST_CASE("an index that was forged is refused for what it says") {
  const File file;
  const auto why = [&](const auto& change) { return file.why_refused(forged(change)); };
  const auto rows = [&](const std::function<void(std::span<BundleRow>)>& change) {
    return why([&](BundleHeader&, std::span<BundleRow> all) { change(all); });
  };
  const auto holds = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(file.why_refused(forged([](BundleHeader&, std::span<BundleRow>) {})).empty());
  CHECK(holds(why([](BundleHeader& h, auto) { h.num_members = ~std::uint64_t{0}; }), "claims"));
  CHECK(holds(why([](BundleHeader& h, auto) { h.num_members = 1000; }), "claims 1000 members"));
  CHECK(holds(why([](BundleHeader& h, auto) { h.format = 2; }), "format 2"));
  CHECK(holds(why([](BundleHeader& h, auto) { h.flags = 1; }), "header"));
  CHECK(holds(rows([](auto all) { all[2].bytes = ~std::uint64_t{0}; }), "row 2"));
  CHECK(holds(rows([](auto all) { all[2].bytes = 0; }), "row 2"));
  CHECK(holds(rows([](auto all) { all[5].bytes += 1; }), "row 5"));
  CHECK(holds(rows([](auto all) { all[5].bytes -= 1; }), "bytes instead of"));
  CHECK(holds(rows([](auto all) { std::swap(all[1], all[3]); }), "not sound"));
  CHECK(holds(rows([](auto all) { all[1].name = all[0].name; }), "row 1"));
  CHECK(holds(rows([](auto all) { all[0].name.kind = MemberKind{7}; }), "row 0"));
  CHECK(holds(rows([](auto all) { all[0].name.zero = 1; }), "row 0"));
}

TEST_CASE("no name leads out of a bundle, and no member passes for another") {
  const File file;
  for (const char* const arch : {"../../../x", "/etc/passwd", "", "sm_90a/..", "SM_90"}) {
    CAPTURE(arch);
    CHECK_FALSE(file.why_refused(forged([&](BundleHeader&, std::span<BundleRow> rows) {
                      rows[0].name.arch = {};
                      std::memcpy(rows[0].name.arch.data(), arch, std::strlen(arch));
                    }))
                    .empty());
  }
  // Two kernels of one size swap their places, and the index its digests.
  const auto opened = file.open(forged([](BundleHeader&, std::span<BundleRow> rows) {
    std::swap(rows[0].name.digest, rows[1].name.digest);
    std::swap(rows[0], rows[1]);
  }));
  REQUIRE(std::holds_alternative<Bundle>(opened));
  const Bundle& bundle = std::get<Bundle>(opened);
  const auto kernel = bundle.kernel(bundle.members()[0]);
  CHECK(std::holds_alternative<std::string>(kernel));
}

TEST_CASE("a file that others could change, or that is none, is refused by its rule") {
  const File file;
  const auto refused = [&](const fs::path& path) {
    const auto opened = Bundle::open(path);
    const auto* const reason = std::get_if<std::string>(&opened);
    return reason ? *reason : "";
  };
  CHECK(refused(file.path) == "No such file or directory");
  CHECK(refused(file.directory.path()) == "it is not a regular file");
  REQUIRE(::mkfifo((file.directory / "fifo").c_str(), 0600) == 0);
  CHECK(refused(file.directory / "fifo") == "it is not a regular file");
  spill(file.path, text_of(sample().encode()));
  fs::create_symlink(file.path, file.directory / "link");
  CHECK(refused(file.directory / "link") == "it is a symbolic link");
  for (const auto& [mode, rule] : {std::pair{0620, "its group may write to it"},
                                   std::pair{0602, "everyone may write to it"}}) {
    REQUIRE(::chmod(file.path.c_str(), static_cast<mode_t>(mode)) == 0);
    CHECK(refused(file.path) == rule);
  }
  REQUIRE(::chmod(file.path.c_str(), 0444) == 0);
  CHECK(refused(file.path).empty());
}

TEST_CASE("a bundle is written whole or not at all") {
  const File file;
  sample().write(file.path);
  CHECK(slurp(file.path) == text_of(sample().encode()));
  BundleWriter().write(file.path);  // takes the place of the other
  CHECK(slurp(file.path) == text_of(BundleWriter().encode()));
  CHECK(count_below(file.directory.path()) == 1);

  fs::create_directory(file.directory / "directory");
  fs::create_symlink(file.path, file.directory / "link");
  for (const char* const name : {"directory", "link", "missing/x.atkb"}) {
    CHECK_THROWS_WITH_AS(sample().write(file.directory / name), doctest::Contains(name), Error);
  }
  CHECK(slurp(file.path) == text_of(BundleWriter().encode()));
  CHECK(count_below(file.directory.path()) == 3);
}
