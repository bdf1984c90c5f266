// Eviction, the sweep of unfinished files, and quarantine.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/temporary_name.hpp"
#include "cache/collector.hpp"
#include "cache/file_lock.hpp"
#include "cache/kernel_cache.hpp"
#include "cache/quarantine.hpp"
#include "cache/sweep.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/child_process.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using namespace attnjit::test;
namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

const base::FileTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 1 / 1);

StoredFile used_file(const std::string& name, std::uint64_t bytes, hours age) {
  return {.path = name,
          .arch = kArch,
          .key = "",
          .compiler_tag = "",
          .bytes = bytes,
          .used = kNow - age};
}

std::vector<std::string> evicted(std::vector<StoredFile> files, const SizeLimits& limits) {
  std::vector<std::string> names;
  for (const StoredFile& file : choose_evicted(std::move(files), limits, kNow)) {
    names.push_back(file.path.string());
  }
  return names;
}

struct Fixture {
  TempDirectory directory;
  KeepingLog messages;
  Store store{directory / "cache", messages.log()};

  fs::path publish(const std::string& source, minutes age = minutes(0)) {
    REQUIRE_FALSE(store.publish(make_entry(source)));
    const fs::path path =
        place(version_directory(*store.root()), key_of(source), kArch, kCompiler).path;
    base::set_modified(path, std::chrono::system_clock::now() - age);
    return path;
  }
  Collector collector(std::uint64_t max_bytes) {
    return Collector(store, {.bytes = max_bytes}, directory / "locks", messages.log());
  }
  fs::path unfinished(const std::string& name, hours age = hours(0)) {
    fs::create_directories(store.temporary_directory());
    const fs::path path = store.temporary_directory() / name;
    spill(path, "unfinished");
    base::set_modified(path, std::chrono::system_clock::now() - age);
    return path;
  }
};

}  // namespace

TEST_CASE("the least recently used files make room down to 80 %, young ones never") {
  const std::vector<StoredFile> files = {
      used_file("b", 300, hours(5)), used_file("a", 300, hours(9)), used_file("d", 300, hours(0)),
      used_file("c", 300, hours(2))};
  using Names = std::vector<std::string>;
  CHECK(evicted(files, {.bytes = 1200, .files = 4}) == Names{});
  CHECK(evicted(files, {.bytes = 1199, .files = 4}) == Names{"a"});
  CHECK(evicted(files, {.bytes = 800, .files = 4}) == Names{"a", "b"});
  CHECK(evicted(files, {.bytes = 1200, .files = 3}) == Names{"a"});
  CHECK(evicted(files, {.bytes = 1, .files = 4}) == Names{"a", "b", "c"});
  CHECK(evicted(files, {.bytes = 0, .files = 1}) == Names{});
}

TEST_CASE("what is dated in the future goes first, unless it is young by a clock that is ahead") {
  const std::vector<StoredFile> files = {used_file("old", 300, hours(9)),
                                         used_file("ahead", 300, hours(-1)),
                                         used_file("future", 300, hours(-48))};
  using Names = std::vector<std::string>;
  CHECK(evicted(files, {.bytes = 899, .files = 3}) == Names{"future"});
  CHECK(evicted(files, {.bytes = 1, .files = 3}) == Names{"future", "old"});
  Fixture f;
  const fs::path hit = f.publish("hit", hours(-48));
  CHECK(f.store.find(key_of("hit"), kArch, kCompiler));
  CHECK(base::stamp_of(hit)->modified < std::chrono::system_clock::now() + minutes(1));
}

TEST_CASE("a hit makes an entry recent, once an hour") {
  Fixture f;
  const fs::path path = f.publish("a", hours(5));
  const auto age = [&] {
    return std::chrono::system_clock::now() - base::stamp_of(path)->modified;
  };
  CHECK(f.store.find(key_of("a"), kArch, kCompiler));
  CHECK(age() < minutes(30));
  base::set_modified(path, std::chrono::system_clock::now() - minutes(50));
  CHECK(f.store.find(key_of("a"), kArch, kCompiler));
  CHECK(age() > minutes(40));
}

TEST_CASE("a kernel that was used within the last hour stays, also where its file is older") {
  Fixture f;
  const fs::path hit = f.publish("hit", hours(5));
  const fs::path unused = f.publish("unused", hours(5));
  // One that was hit less than an hour ago, when its file was too young to be dated again.
  const fs::path noted = f.publish("noted", minutes(115));
  CHECK(f.store.find(key_of("hit"), kArch, kCompiler));
  CHECK(f.collector(1).collect()->evicted.files == 1);
  CHECK(fs::exists(hit));
  CHECK(fs::exists(noted));
  CHECK_FALSE(fs::exists(unused));
}

TEST_CASE("a collection keeps what is recent, and open readers keep what they read") {
  Fixture f;
  const fs::path old = f.publish("old", hours(50));
  const fs::path older = f.publish("older", hours(60));
  const fs::path young = f.publish("young");
  const std::uint64_t bytes = fs::file_size(old);
  CHECK(f.collector(3 * bytes).collect()->evicted.files == 0);
  std::ifstream reader(older, std::ios::binary);
  const auto done = f.collector(3 * bytes - 1).collect();
  REQUIRE(done);
  CHECK(done->evicted.files == 1);
  CHECK(done->left.files == 2);
  CHECK(done->left.bytes == 2 * bytes);
  CHECK_FALSE(fs::exists(older));
  CHECK(fs::exists(old));
  CHECK(fs::exists(young));
  const std::string read{std::istreambuf_iterator<char>(reader), {}};
  CHECK(read.size() == bytes);
  CHECK(f.store.verify().empty());
}

TEST_CASE("processes that fill a cache which is evicted all the time get right kernels") {
  Fixture f;
  f.publish("0");
  const std::uint64_t bytes = f.store.list().at(0).bytes;
  const auto fill = [&](unsigned number) {
    std::mt19937 random(number);
    for (int i = 0; i < 50; ++i) {
      KernelCache cache(
          {.directory = f.directory / "cache", .lock_directory = f.directory / "locks"},
          fake_compiler, f.messages.log());
      const std::string source = std::to_string(random() % 64);
      const auto entry = cache.get(key_of(source), kArch, [&] { return make_entry(source); });
      if (entry->key != key_of(source) || entry->cubin != fake_cubin()) return false;
    }
    return true;
  };
  std::vector<pid_t> running;
  for (unsigned i = 0; i < 32; ++i) running.push_back(start_child([&, i] { return fill(i); }));
  std::uint64_t removed = 0;
  const auto evict = [&] {
    for (const StoredFile& file : f.store.list()) {
      base::set_modified(file.path, std::chrono::system_clock::now() - hours(3));
    }
    removed += f.collector(10 * bytes).collect()->evicted.files;
  };
  while (!running.empty()) {
    evict();
    int status = 0;
    if (::waitpid(running.back(), &status, WNOHANG) == 0) continue;
    CHECK(status == 0);
    running.pop_back();
  }
  for (int i = 0; i < 64; ++i) f.publish(std::to_string(i));
  evict();
  CHECK(removed > 0);
  CHECK(f.store.list().size() <= 10);
  CHECK(f.store.verify().empty());
  CHECK(children(f.store.temporary_directory()).empty());
}

TEST_CASE("one process collects at a time") {
  Fixture f;
  f.publish("old", hours(50));
  const FileLock held(f.directory / "locks" / (f.store.root_digest() + "-gc.lock"),
                      std::chrono::milliseconds(0), f.messages.log());
  CHECK_FALSE(f.collector(1).collect());
  CHECK(f.store.list().size() == 1);
}

TEST_CASE("a write keeps the cache below its limit, in the directory that is used") {
  Fixture f;
  const fs::path old = f.publish("old", hours(50));
  const fs::path unfinished = f.unfinished("elsewhere.1.0123456789abcdef.tmp", hours(2));
  KernelCache cache({.directory = f.directory / "cache",
                     .lock_directory = f.directory / "locks",
                     .limits = {.bytes = fs::file_size(old)}},
                    {[] { return std::string(kCompiler); }, [] { return std::string(kCompiler); }},
                    f.messages.log());
  cache.get(key_of("new"), kArch, [] { return Entry{.cubin = fake_cubin()}; });
  CHECK_FALSE(fs::exists(old));
  CHECK_FALSE(fs::exists(unfinished));
  CHECK(f.store.list().size() == 1);
}

TEST_CASE("files of dead writers are swept, and named by verify until then") {
  Fixture f;
  const auto here = *base::writer_of(base::temporary_name());
  const pid_t child = start_child([] { return true; });
  CHECK(succeeded(child));
  const std::string random = ".0123456789abcdef.tmp";
  const fs::path dead = f.unfinished(fmt::format("{}.{}{}", here.host, child, random));
  const fs::path stale = f.unfinished("elsewhere.1" + random, hours(2));
  const fs::path own = f.unfinished(base::temporary_name());
  const fs::path fresh = f.unfinished("elsewhere.2" + random);
  const fs::path future = f.unfinished("elsewhere.3" + random, hours(-9));
  const fs::path foreign = f.unfinished("notes.txt", hours(99));
  CHECK(f.store.verify().size() == 2);
  CHECK(f.collector(0).collect()->swept == 2);
  CHECK_FALSE(fs::exists(dead));
  CHECK_FALSE(fs::exists(stale));
  for (const fs::path& path : {own, fresh, future, foreign}) CHECK(fs::exists(path));
  CHECK(f.store.verify().empty());
}

TEST_CASE("a damaged entry goes to quarantine, which holds the last 16") {
  Fixture f;
  for (int i = 0; i < 20; ++i) {
    const std::string source = std::to_string(i);
    const fs::path path = f.publish(source);
    spill(path, "damaged");
    CHECK_FALSE(f.store.find(key_of(source), kArch, kCompiler));
    CHECK_FALSE(fs::exists(path));
  }
  const auto held = children(f.store.quarantine_directory());
  CHECK(held.size() == kQuarantinedFiles);
  CHECK(slurp(held.front()) == "damaged");
  CHECK(f.store.verify().empty());
  CHECK(f.store.list().empty());
  f.store.clear();
  CHECK_FALSE(fs::exists(f.store.quarantine_directory()));
}

TEST_CASE("files in quarantine that it did not put there stay, as all do behind a link") {
  Fixture f;
  const fs::path elsewhere = f.directory / "elsewhere";
  const fs::path held = f.store.quarantine_directory();
  fs::create_directories(elsewhere);
  fs::create_directories(held.parent_path());
  const std::string form = fmt::format(".sm_90a.{:064}.01234567.atk", 0);
  const auto fill = [&](const fs::path& directory) {
    for (int i = 0; i < 20; ++i) {
      spill(directory / fmt::format("{:011}{}", i, form), "moved here");
      spill(directory / fmt::format("{:02}.atk", i), "mine");
    }
  };
  const auto damage = [&] {
    const fs::path path = f.publish("a");
    spill(path, "damaged");
    CHECK_FALSE(f.store.find(key_of("a"), kArch, kCompiler));
    return path;
  };
  fill(elsewhere);
  fs::create_directory_symlink(elsewhere, held);
  const fs::path path = damage();
  CHECK(fs::exists(path));
  f.store.clear();
  CHECK(children(elsewhere).size() == 40);

  fs::remove(held);
  fs::create_directories(held);
  fill(held);
  damage();
  CHECK(children(held).size() == 20 + kQuarantinedFiles);
  f.store.clear();
  CHECK(children(held).size() == 20);
}

TEST_CASE("an entry that was replaced after it was read stays where it is") {
  Fixture f;
  f.publish("a");
  const StoredFile file = f.store.list().at(0);
  base::FileStamp stamp = *base::stamp_of(file.path);
  stamp.inode += 1;
  quarantine(file, stamp, f.store.quarantine_directory(), kNow);
  CHECK(fs::exists(file.path));
  CHECK(children(f.store.quarantine_directory()).empty());
}

TEST_CASE("a cache that is not used is not collected") {
  KeepingLog messages;
  Store store(std::nullopt, messages.log());
  const TempDirectory directory;
  CHECK_FALSE(Collector(store, {}, directory / "locks", messages.log()).collect());
}
