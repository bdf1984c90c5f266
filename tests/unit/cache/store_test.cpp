#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "cache/private_group.hpp"
#include "cache/store.hpp"
#include "skip.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using namespace attnjit::test;

namespace cache_store_test {
namespace fs = std::filesystem;

namespace {

struct Fixture {
  TempDirectory directory;
  KeepingLog messages;
  fs::path root = directory / "cache";
  Store store{root, messages.log()};

  std::optional<Entry> find(const std::string& source, const std::string& compiler = kCompiler) {
    return store.find(key_of(source), kArch, compiler);
  }
  /// Publishes an entry and returns its file.
  fs::path publish(const std::string& source) {
    store.publish(make_entry(source));
    const StoredFile file = place(root / "v1", key_of(source), kArch, kCompiler);
    REQUIRE(fs::exists(file.path));
    return file.path;
  }
  bool warned(const std::string& part) const {
    const auto warnings = messages.warnings();
    return warnings.size() == 1 && warnings[0].find(part) != std::string::npos;
  }
};

mode_t mode_of(const fs::path& path) {
  struct stat status;
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

}  // namespace

TEST_CASE("a published entry is found again, and only as itself") {
  Fixture f;
  CHECK_FALSE(f.find("a"));
  CHECK_FALSE(fs::exists(f.root));
  f.publish("a");
  const auto found = f.find("a");
  REQUIRE(found);
  CHECK(found->cubin == fake_cubin());
  CHECK(found->meta_json == make_entry("a").meta_json);
  CHECK_FALSE(f.find("b"));
  CHECK_FALSE(f.find("a", "another compiler"));
  CHECK_FALSE(f.store.find(key_of("a"), "sm_90", kCompiler));
  CHECK(f.store.corrupt() == 0);
  CHECK(f.messages.warnings().empty());
}

TEST_CASE("an empty compiler id takes any compiler's entry") {
  Fixture f;
  CHECK_FALSE(f.find("a", ""));
  // Kernels whose keys begin with the same byte lie in the same directory.
  std::vector<std::string> neighbours;
  for (int i = 0; neighbours.size() < 3; ++i) {
    const std::string source = std::to_string(i);
    if (key_of(source).digest[0] == key_of("a").digest[0]) neighbours.push_back(source);
  }
  for (const std::string& source : neighbours) {
    f.publish(source);
    CHECK_FALSE(f.find("a", ""));
  }
  f.publish("a");
  for (const std::string& source : neighbours) CHECK(f.find(source, "")->key == key_of(source));
  CHECK(f.find("a", "")->key == key_of("a"));
}

TEST_CASE("entries of two compilers lie side by side") {
  Fixture f;
  f.publish("a");
  Entry other = make_entry("a");
  other.compiler_id = "another compiler";
  other.meta_json = "{}";
  f.store.publish(other);
  CHECK(f.store.list().size() == 2);
  CHECK(f.find("a")->meta_json != "{}");
  CHECK(f.find("a", "another compiler")->meta_json == "{}");
}

TEST_CASE("the tree is private, labelled, and names files by key and compiler") {
  Fixture f;
  const fs::path path = f.publish("a");
  const std::string key = key_of("a").text();
  CHECK(path.parent_path() == f.root / "v1/k/sm_90a" / key.substr(0, 2));
  CHECK(path.filename().string().starts_with(key.substr(2) + "."));
  CHECK(path.string().size() - f.root.string().size() < 110);
  CHECK(slurp(f.root / "CACHEDIR.TAG").starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
  CHECK_FALSE(slurp(f.root / "README").empty());
  CHECK(fs::is_empty(f.root / "v1/tmp"));
  for (const auto& item : fs::recursive_directory_iterator(f.root)) {
    CAPTURE(item.path());
    CHECK(mode_of(item.path()) == (item.is_directory() ? 0700 : 0600));
  }
}

TEST_CASE("a damaged entry is a miss, counted and told once, and replaced by publish") {
  Fixture f;
  const fs::path path = f.publish("a");
  const std::string good = slurp(path);
  std::vector<std::string> bad = {"", good.substr(0, 64), good.substr(0, good.size() - 1),
                                  good + "x", good};
  bad.back()[good.size() / 2] ^= 1;
  for (std::size_t i = 0; i < bad.size(); ++i) {
    CAPTURE(i);
    spill(path, bad[i]);
    CHECK_FALSE(f.find("a"));
    CHECK_FALSE(f.find("a"));
    CHECK(f.store.corrupt() == i + 1);
    CHECK(f.messages.warnings().size() == i + 1);
    CHECK(f.messages.warnings().back().find(path.string()) != std::string::npos);
    f.publish("a");
    CHECK(f.find("a"));
  }
}

TEST_CASE("an entry copied under another key is damage") {
  Fixture f;
  const fs::path a = f.publish("a");
  const fs::path b = f.publish("b");
  fs::copy_file(a, b, fs::copy_options::overwrite_existing);
  CHECK_FALSE(f.find("b"));
  CHECK(f.store.corrupt() == 1);
  CHECK(f.find("a"));
}

TEST_CASE("an intact entry under another architecture or compiler is ignored and kept") {
  Fixture f;
  const fs::path path = f.publish("a");
  for (const auto& [arch, compiler] :
       {std::pair<std::string, std::string>{"sm_90", kCompiler}, {kArch, "another compiler"}}) {
    const fs::path copy = place(f.root / "v1", key_of("a"), arch, compiler).path;
    fs::create_directories(copy.parent_path());
    fs::copy_file(path, copy);
    CHECK_FALSE(f.store.find(key_of("a"), arch, compiler));
    CHECK(fs::exists(copy));
  }
  CHECK(f.store.corrupt() == 0);
  CHECK(f.store.verify().size() == 2);
}

TEST_CASE("an entry of another format is damage: named by verify, and replaced") {
  Fixture f;
  const fs::path path = f.publish("a");
  const std::string good = slurp(path);
  for (const std::size_t byte : {8, 9}) {  // the format
    CAPTURE(byte);
    std::string other = good;
    other[byte] ^= 2;
    spill(path, other);
    CHECK(f.store.verify().size() == 1);
    CHECK_FALSE(f.find("a"));
    f.store.publish(make_entry("a"));
    CHECK(slurp(path) == good);
    CHECK(f.find("a"));
  }
  CHECK(f.store.corrupt() == 2);
}

TEST_CASE("the directory is named after the format that entries carry") {
  Fixture f;
  const std::string entry = slurp(f.publish("a"));
  const int format = entry[8] + 256 * entry[9];
  CHECK(version_directory(f.root) == f.root / ("v" + std::to_string(format)));
}

TEST_CASE("what is no regular file of ours is a miss and never blocks") {
  Fixture f;
  const fs::path path = f.publish("a");
  const std::string good = slurp(path);
  const fs::path target = f.directory / "target";
  spill(target, good);
  REQUIRE(::chmod(target.c_str(), 0600) == 0);
  fs::remove(path);

  SUBCASE("symbolic link") { fs::create_symlink(target, path); }
  SUBCASE("dangling link") { fs::create_symlink("nowhere", path); }
  SUBCASE("FIFO") { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
  SUBCASE("writable by all") {
    spill(path, good);
    REQUIRE(::chmod(path.c_str(), 0666) == 0);
  }
  CHECK_FALSE(f.find("a"));
  CHECK(f.store.verify().size() == 1);
  f.publish("a");
  CHECK(f.find("a"));
  CHECK(f.store.verify().empty());
  CHECK(slurp(target) == good);
  CHECK(f.store.write_failures() == 0);
}

TEST_CASE("a device in an entry's place is a miss, and is not read") {
  Fixture f;
  const fs::path path = f.publish("a");
  fs::remove(path);
  // Of /dev/zero, which never ends.
  if (::mknod(path.c_str(), S_IFCHR | 0600, ::makedev(1, 5)) != 0) {
    ATTNJIT_SKIP("this user cannot make device nodes");
  }
  CHECK_FALSE(f.find("a"));
  CHECK(f.store.verify().size() == 1);
  f.publish("a");
  CHECK(f.find("a"));
  CHECK(f.store.verify().empty());
}

TEST_CASE("a directory in an entry's place costs that entry only") {
  Fixture f;
  const fs::path path = f.publish("a");
  fs::remove(path);
  fs::create_directories(path / "below");
  CHECK_FALSE(f.find("a"));
  f.store.publish(make_entry("a"));
  CHECK(f.store.write_failures() == 1);
  f.publish("b");
  CHECK(f.find("b"));
  CHECK(fs::is_empty(f.root / "v1/tmp"));
  CHECK(f.store.verify().size() == 1);
  CHECK(f.store.clear() == 1);
  CHECK(fs::exists(path / "below"));
}

TEST_CASE("a directory that others could write is not used, and the warning names the rule") {
  Fixture f;
  fs::create_directory(f.directory / "real");
  fs::create_directory(f.root);
  std::string rule;
  SUBCASE("writable by all") {
    REQUIRE(::chmod(f.root.c_str(), 0777) == 0);
    rule = "everyone may write";
  }
  SUBCASE("writable by a group") {
    if (::geteuid() != 0) ATTNJIT_SKIP("only root can give a directory to any group");
    REQUIRE(::chown(f.root.c_str(), 0, 54321) == 0);
    REQUIRE(::chmod(f.root.c_str(), 0770) == 0);
    rule = "chmod g-w";
  }
  SUBCASE("symbolic link") {
    fs::remove(f.root);
    fs::create_directory_symlink(f.directory / "real", f.root);
    rule = "symbolic link";
  }
  SUBCASE("of another user") {
    if (::geteuid() != 0) return;  // only root can give a directory away
    REQUIRE(::chown(f.root.c_str(), 54321, 54321) == 0);
    rule = "another user";
  }
  // Also under names that make the system follow a link.
  for (const char* end : {"", "/", "/.", "//", "/x/.."}) {
    CAPTURE(end);
    Store store(f.root.string() + end, f.messages.log());
    store.publish(make_entry("a"));
    CHECK_FALSE(store.find(key_of("a"), kArch, kCompiler));
    CHECK(store.list().empty());
    CHECK(store.clear() == 0);
    CHECK(count_below(f.root) == 0);
    CHECK(count_below(f.directory / "real") == 0);
    CHECK(store.write_failures() == 0);
  }
  CHECK(f.warned(rule));
  CHECK(f.warned("ATTNJIT_CACHE_DIR"));
}

TEST_CASE(
    "a directory that the owner's private group may write is used, as a umask of 002 makes it") {
  Fixture f;
  fs::create_directory(f.root);
  if (!is_private_group(::geteuid(), ::getegid())) ATTNJIT_SKIP("this user has no private group");
  REQUIRE(::chown(f.root.c_str(), ::geteuid(), ::getegid()) == 0);
  REQUIRE(::chmod(f.root.c_str(), 0775) == 0);
  f.publish("a");
  CHECK(f.find("a"));
  CHECK(f.messages.warnings().empty());
}

TEST_CASE("a directory that cannot be made means memory only and one warning") {
  Fixture f;
  spill(f.directory / "file", "not a directory");
  Store store(f.directory / "file" / "cache", f.messages.log());
  CHECK_FALSE(store.find(key_of("a"), kArch, kCompiler));
  store.publish(make_entry("a"));
  store.publish(make_entry("b"));
  CHECK_FALSE(store.find(key_of("a"), kArch, kCompiler));
  CHECK(f.warned("ATTNJIT_CACHE_DIR"));
}

TEST_CASE("a store that cannot be written is still read, and writes pause after a failure") {
  Fixture f;
  f.publish("a");
  fs::remove_all(f.root / "v1/tmp");
  spill(f.root / "v1/tmp", "in the way");
  f.store.publish(make_entry("b"));
  f.store.publish(make_entry("c"));
  CHECK(f.find("a"));
  CHECK_FALSE(f.find("b"));
  CHECK(f.store.write_failures() == 1);
  CHECK(f.warned("cannot write"));

  fs::remove(f.root / "v1/tmp");
  f.store.publish(make_entry("b"));
  CHECK_FALSE(f.find("b"));
  Store impatient(f.root, f.messages.log(), std::chrono::milliseconds(0));
  spill(f.root / "v1/tmp", "in the way");
  impatient.publish(make_entry("b"));
  fs::remove(f.root / "v1/tmp");
  impatient.publish(make_entry("b"));
  CHECK(f.find("b"));
  CHECK(impatient.write_failures() == 1);
}

TEST_CASE("a name that is too long costs its file only") {
  const TempDirectory directory;
  KeepingLog messages;
  Root root(directory / "cache", messages.log());
  const auto write = [&](const fs::path& name) {
    return root.write(root.version_directory() / name, {});
  };
  const std::string name(300, 'x');
  CHECK(write(name));
  CHECK(write(fs::path(name) / "file"));
  CHECK(root.write_failures() == 2);
  CHECK_FALSE(write("short"));
}

TEST_CASE("a cache deleted under us is made again") {
  Fixture f;
  f.publish("a");
  fs::remove_all(f.root);
  CHECK_FALSE(f.find("a"));
  f.publish("a");
  CHECK(f.find("a"));
  CHECK(f.messages.warnings().empty());
}

TEST_CASE("an entry over the limits is not kept, and nothing throws") {
  Fixture f;
  Entry entry = make_entry("a");
  entry.meta_json.assign(kMaxMetaBytes + 1, ' ');
  f.store.publish(entry);
  CHECK(f.store.write_failures() == 1);
  CHECK(f.warned("meta"));
  CHECK_FALSE(f.find("a"));
}

TEST_CASE("an architecture that is no plain name cannot leave the directory") {
  Fixture f;
  for (const char* arch : {"", "..", "../x", "sm_90a/..", "SM_90"}) {
    CAPTURE(arch);
    CHECK_THROWS_AS(f.store.find(key_of("a"), arch, kCompiler), Error);
  }
}

TEST_CASE("list names entries and skips everything else") {
  Fixture f;
  const fs::path path = f.publish("a");
  f.publish("b");
  spill(path.parent_path() / "notes.txt", "x");
  spill(path.parent_path() / "abc.12345678.atk", "x");
  spill(path.string() + ".bak", "x");
  const std::vector<StoredFile> files = f.store.list();
  REQUIRE(files.size() == 2);
  for (const StoredFile& file : files) {
    CHECK((file.key == key_of("a").text() || file.key == key_of("b").text()));
    CHECK(file.arch == kArch);
    CHECK(file.compiler_tag == compiler_tag(kCompiler));
    CHECK(file.bytes == fs::file_size(file.path));
    CHECK(std::holds_alternative<Entry>(f.store.read(file)));
  }
}

TEST_CASE("verify reports the bad entries, and why") {
  Fixture f;
  f.publish("good");
  CHECK(f.store.verify().empty());
  const fs::path path = f.publish("bad");
  spill(path, slurp(path) + "x");
  const auto bad = f.store.verify();
  REQUIRE(bad.size() == 1);
  CHECK(bad[0].path == path);
  CHECK(bad[0].reason.find("bytes instead of") != std::string::npos);
  CHECK(f.store.corrupt() == 0);
}

TEST_CASE("clear removes what the store made and nothing else") {
  Fixture f;
  const fs::path path = f.publish("a");
  f.publish("b");
  const fs::path kept = path.parent_path() / "notes.txt";
  spill(kept, "mine");
  spill(f.root / "mine", "mine");
  const fs::path unfinished = f.root / "v1/tmp/host.1.0123456789abcdef.tmp";
  spill(unfinished, "unfinished");
  spill(f.root / "v1/tmp/mine", "mine");
  CHECK(f.store.clear() == 2);
  CHECK(f.store.list().empty());
  CHECK(fs::exists(kept));
  CHECK(fs::exists(f.root / "mine"));
  CHECK_FALSE(fs::exists(unfinished));
  CHECK(fs::exists(f.root / "v1/tmp/mine"));
  CHECK(std::distance(fs::directory_iterator(f.root / "v1/k/sm_90a"), {}) == 1);

  fs::remove(kept);
  fs::remove(f.root / "v1/tmp/mine");
  f.publish("a");
  f.store.clear();
  CHECK_FALSE(fs::exists(f.root / "v1"));
  f.publish("a");
  CHECK(f.find("a"));
}

TEST_CASE("a store without a directory finds nothing and keeps nothing") {
  KeepingLog messages;
  Store store(std::nullopt, messages.log());
  store.publish(make_entry("a"));
  CHECK_FALSE(store.find(key_of("a"), kArch, kCompiler));
  CHECK(store.list().empty());
  CHECK(store.verify().empty());
  CHECK(store.clear() == 0);
  CHECK_FALSE(store.root());
  CHECK(messages.warnings().empty());
}

}  // namespace cache_store_test
