#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cache/bundle_path.hpp"
#include "cache/bundle_writer.hpp"
#include "cache/kernel_cache.hpp"
#include "skip.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using namespace attnjit::test;
namespace fs = std::filesystem;

namespace {

/// An entry of `source` whose cubin tells which bundle it comes from.
Entry marked(const std::string& source, std::size_t cubin_bytes) {
  Entry entry = make_entry(source);
  entry.cubin = fake_cubin(cubin_bytes);
  return entry;
}

void write_bundle(const fs::path& path, const std::vector<Entry>& entries) {
  BundleWriter writer;
  for (const Entry& entry : entries) writer.add(entry);
  writer.write(path);
}

void flip_last_byte(const fs::path& path) {
  std::string bytes = slurp(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  spill(path, bytes);
}

bool mentions(const std::string& text, const fs::path& path) {
  return text.find(path.string()) != std::string::npos;
}

}  // namespace

TEST_CASE("what cannot be used is one warning each, and the rest serves") {
  const TempDirectory temp;
  KeepingLog messages;
  write_bundle(temp / "good.atkb", {make_entry("a")});
  spill(temp / "torn.atkb", slurp(temp / "good.atkb").substr(0, 300));
  fs::create_directory(temp / "empty");
  const BundlePath path(
      {temp / "absent.atkb", temp / "torn.atkb", temp / "empty", temp / "good.atkb"},
      messages.log());
  CHECK(path.bundles().size() == 1);
  REQUIRE(path.refused().size() == 3);
  REQUIRE(messages.warnings().size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(mentions(messages.warnings()[i], path.refused()[i].path));
    CHECK(messages.warnings()[i].find(path.refused()[i].reason) != std::string::npos);
  }
  CHECK(path.find(key_of("a"), kArch)->cubin == fake_cubin());
  CHECK_FALSE(path.find(key_of("b"), kArch));
  CHECK(path.locate(key_of("a"), kArch) == temp / "good.atkb");
  CHECK_FALSE(path.locate(key_of("a"), "sm_80"));
  CHECK(messages.warnings().size() == 3);
}

TEST_CASE("a directory of bundles that a group could write is not used") {
  if (::geteuid() != 0) ATTNJIT_SKIP("only root can give a directory to any group");
  const TempDirectory temp;
  KeepingLog messages;
  fs::create_directory(temp / "all");
  write_bundle(temp / "all" / "1.atkb", {make_entry("a")});
  REQUIRE(::chown((temp / "all").c_str(), 0, 54321) == 0);
  REQUIRE(::chmod((temp / "all").c_str(), 0775) == 0);
  const BundlePath path({temp / "all"}, messages.log());
  CHECK(path.bundles().empty());
  REQUIRE(path.refused().size() == 1);
  CHECK(path.refused()[0].reason.find("chmod g-w") != std::string::npos);
}

TEST_CASE("a link to a directory of bundles is not used, however it is written") {
  const TempDirectory temp;
  fs::create_directory(temp / "real");
  write_bundle(temp / "real" / "1.atkb", {make_entry("a")});
  fs::create_directory_symlink(temp / "real", temp / "link");
  for (const char* end : {"", "/", "/.", "//", "/x/.."}) {
    CAPTURE(end);
    KeepingLog messages;
    const BundlePath path({(temp / "link").string() + end}, messages.log());
    CHECK(path.bundles().empty());
    REQUIRE(path.refused().size() == 1);
    CHECK(path.refused()[0].reason.find("symbolic link") != std::string::npos);
    CHECK(BundlePath({(temp / "real").string() + end}, messages.log()).bundles().size() == 1);
  }
}

TEST_CASE("bundles are asked in their order, and a directory is its bundles by name") {
  const TempDirectory temp;
  KeepingLog messages;
  fs::create_directory(temp / "all");
  write_bundle(temp / "all" / "2.atkb", {marked("a", 2000), marked("b", 2000)});
  write_bundle(temp / "all" / "1.atkb", {marked("a", 1000)});
  write_bundle(temp / "first.atkb", {marked("c", 3000)});
  spill(temp / "all" / "readme.txt", "no bundle");
  const BundlePath path({temp / "first.atkb", temp / "all"}, messages.log());
  CHECK(path.bundles().size() == 3);
  CHECK(path.find(key_of("a"), kArch)->cubin.size() == 1000);
  CHECK(path.find(key_of("b"), kArch)->cubin.size() == 2000);
  CHECK(path.find(key_of("c"), kArch)->cubin.size() == 3000);
  CHECK(messages.warnings().empty());
}

TEST_CASE("a damaged member is a warning, counted, and the next bundle's serves") {
  const TempDirectory temp;
  KeepingLog messages;
  write_bundle(temp / "1.atkb", {marked("a", 1000)});
  write_bundle(temp / "2.atkb", {marked("a", 2000)});
  flip_last_byte(temp / "1.atkb");
  const BundlePath path({temp / "1.atkb", temp / "2.atkb"}, messages.log());
  CHECK(path.bundles().size() == 2);
  CHECK(messages.warnings().empty());
  CHECK(path.find(key_of("a"), kArch)->cubin.size() == 2000);
  CHECK(path.find(key_of("a"), kArch)->cubin.size() == 2000);
  CHECK(path.corrupt() == 2);
  REQUIRE(messages.warnings().size() == 1);
  CHECK(mentions(messages.warnings()[0], temp / "1.atkb"));

  // One that shrinks while it is open.
  REQUIRE(::truncate((temp / "2.atkb").c_str(), 200) == 0);
  CHECK_FALSE(path.find(key_of("a"), kArch));
}

TEST_CASE("records come from the first bundle that has them intact") {
  const TempDirectory temp;
  KeepingLog messages;
  const base::Digest one = base::sha256("one"), two = base::sha256("two");
  BundleWriter first, second;
  first.add_record(one, kArch, "first");
  second.add_record(one, kArch, "second");
  second.add_record(two, kArch, "other");
  first.write(temp / "1.atkb");
  second.write(temp / "2.atkb");
  const BundlePath path({temp / "1.atkb", temp / "2.atkb"}, messages.log());
  CHECK(path.find_record(one, kArch) == "first");
  CHECK(path.find_record(two, kArch) == "other");
  CHECK_FALSE(path.find_record(two, "sm_80"));
  CHECK(path.records().size() == 3);
  flip_last_byte(temp / "1.atkb");
  CHECK(path.find_record(one, kArch) == "second");
  CHECK(messages.warnings().size() == 1);
}

TEST_CASE("a kernel of a bundle needs no compiler, no lock and no cache directory") {
  const TempDirectory temp;
  KeepingLog messages;
  Entry foreign = make_entry("a");
  foreign.compiler_id = "another machine's";
  write_bundle(temp / "kernels.atkb", {foreign});
  const std::string before = slurp(temp / "kernels.atkb");
  const BundlePath bundles({temp / "kernels.atkb"}, messages.log());
  const KernelCacheOptions options{
      .directory = temp / "cache", .lock_directory = temp / "lock", .bundles = &bundles};
  int asked = 0, built = 0;
  const auto ask = [&] { return ++asked, std::string(kCompiler); };
  KernelCache cache(options, {ask, ask}, messages.log());
  const auto build = [&] { return ++built, make_entry("b"); };
  const auto found = cache.look_up(key_of("a"), kArch);
  REQUIRE(found);
  CHECK(found->entry->compiler_id == "another machine's");
  CHECK(found->origin == Fetched::Origin::kBundle);
  CHECK(cache.get(key_of("a"), kArch, build)->compiler_id == "another machine's");
  cache.get(key_of("a"), kArch, build);
  CHECK(asked == 0);
  CHECK(built == 0);
  CHECK(cache.counters().bundle_hits == 1);
  CHECK(cache.counters().memory_hits == 1);
  CHECK(cache.counters().disk_hits == 0);
  CHECK(count_below(temp.path()) == 1);

  cache.get(key_of("b"), kArch, build);  // what no bundle has is built and kept
  CHECK(built == 1);
  CHECK(cache.store().list().size() == 1);
  CHECK(slurp(temp / "kernels.atkb") == before);
}

TEST_CASE("a bundle is asked before the cache directory") {
  const TempDirectory temp;
  KeepingLog messages;
  Store(temp / "cache", messages.log()).publish(marked("a", 1000));
  write_bundle(temp / "kernels.atkb", {marked("a", 2000)});
  const BundlePath bundles({temp / "kernels.atkb"}, messages.log());
  KernelCache cache(
      {.directory = temp / "cache", .lock_directory = temp / "lock", .bundles = &bundles},
      fake_compiler, messages.log());
  CHECK(cache.get(key_of("a"), kArch, [] { return Entry(); })->cubin.size() == 2000);
  flip_last_byte(temp / "kernels.atkb");
  cache.reset();
  CHECK(cache.get(key_of("a"), kArch, [] { return Entry(); })->cubin.size() == 1000);
  CHECK(cache.counters().corrupt == 1);
}
