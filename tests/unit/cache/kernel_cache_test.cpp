#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <new>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "attnjit/error.hpp"
#include "cache/file_lock.hpp"
#include "cache/kernel_cache.hpp"
#include "skip.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/child_process.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using namespace attnjit::test;
namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

Entry build_fake() {
  Entry entry;
  entry.meta_json = R"({"registers":168})";
  entry.cubin = fake_cubin();
  return entry;
}

Entry build_nothing() { throw Error(ErrorKind::kCompile, "nothing should be built"); }

struct Place {
  TempDirectory directory;
  KeepingLog messages;
  KernelCacheOptions options{.directory = directory / "cache",
                             .lock_directory = directory / "lock"};

  KernelCache open() { return KernelCache(options, fake_compiler, messages.log()); }
  fs::path lock_of(const std::string& source) {
    const std::string cache = Store(options.directory, messages.log()).root_digest();
    return options.lock_directory / (cache + "-" + key_of(source).text().substr(0, 16) + ".lock");
  }
};

/// Runs `body` in `count` processes at once; true if all return true.
template <typename Body>
bool all_processes(int count, const Body& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) children.push_back(start_child(body));
  bool all = true;
  for (const pid_t child : children) all &= succeeded(child);
  return all;
}

/// Builds once a moment has passed for the others to arrive, and leaves a mark for each build.
Entry build_slowly(const fs::path& marks) {
  fs::create_directories(marks);
  spill(marks / std::to_string(::getpid()), "");
  std::this_thread::sleep_for(milliseconds(300));
  return build_fake();
}

bool get_slowly(const KernelCacheOptions& options, const fs::path& marks) {
  base::Log quiet(base::LogLevel::kError);
  KernelCache cache(options, fake_compiler, quiet);
  const auto entry = cache.get(key_of("a"), kArch, [&] { return build_slowly(marks); });
  return entry->cubin == fake_cubin() && entry->key == key_of("a");
}

}  // namespace

TEST_CASE("get builds once, then answers from memory, then from disk") {
  Place place;
  KernelCache first = place.open();
  const auto built = first.get(key_of("a"), kArch, build_fake);
  CHECK(built->key == key_of("a"));
  CHECK(built->arch == kArch);
  CHECK(built->compiler_id == kCompiler);
  CHECK(first.get(key_of("a"), kArch, build_nothing) == built);
  CHECK(first.counters().builds == 1);
  CHECK(first.counters().memory_hits == 1);
  CHECK(first.counters().disk_hits == 0);

  KernelCache second = place.open();
  const auto loaded = second.get(key_of("a"), kArch, build_nothing);
  CHECK(loaded->cubin == built->cubin);
  CHECK(loaded->meta_json == built->meta_json);
  CHECK(second.counters().builds == 0);
  CHECK(second.counters().disk_hits == 1);

  second.reset();
  second.get(key_of("a"), kArch, build_nothing);
  CHECK(second.counters().disk_hits == 2);
  CHECK(place.messages.warnings().empty());
}

TEST_CASE("a damaged entry is built again, counted once, and good afterwards") {
  Place place;
  KernelCache first = place.open();
  first.get(key_of("a"), kArch, build_fake);
  const fs::path path = first.store().list().at(0).path;
  spill(path, slurp(path).substr(0, 500));

  KernelCache second = place.open();
  second.get(key_of("a"), kArch, build_fake);
  CHECK(second.counters().corrupt == 1);
  CHECK(second.counters().builds == 1);
  CHECK(place.messages.warnings().size() == 1);
  KernelCache third = place.open();
  third.get(key_of("a"), kArch, build_nothing);
  CHECK(third.counters().disk_hits == 1);
}

TEST_CASE("a cache without a directory works in memory and takes no lock") {
  Place place;
  place.options.directory = std::nullopt;
  KernelCache cache = place.open();
  cache.get(key_of("a"), kArch, build_fake);
  cache.get(key_of("a"), kArch, build_nothing);
  CHECK(cache.counters().builds == 1);
  CHECK(count_below(place.directory.path()) == 0);
}

TEST_CASE("the compiler's likely identity finds entries, and the exact one is asked for to build") {
  Place place;
  int asked = 0, opened = 0;
  std::string likely = kCompiler;
  const CompilerIdentity compiler = {[&] { return ++asked, likely; },
                                     [&] { return ++opened, std::string(kCompiler); }};
  {
    KernelCache cache(place.options, compiler, place.messages.log());
    CHECK(asked == 0);
    for (const char* source : {"a", "b", "a", "c"}) cache.get(key_of(source), kArch, build_fake);
    CHECK(asked == 1);
    CHECK(opened == 1);
  }
  KernelCache warm(place.options, compiler, place.messages.log());
  for (const char* source : {"a", "b", "c"}) warm.get(key_of(source), kArch, build_nothing);
  CHECK(opened == 1);

  // A wrong guess costs time and no compile, and never takes another compiler's entry.
  likely = "another compiler";
  KernelCache wrong(place.options, compiler, place.messages.log());
  wrong.get(key_of("a"), kArch, build_nothing);
  CHECK(opened == 2);
  CHECK_THROWS_AS(wrong.get(key_of("d"), kArch, build_nothing), Error);
}

TEST_CASE("without a compiler, what is on disk still serves") {
  Place place;
  place.open().get(key_of("a"), kArch, build_fake);
  KernelCache cache(place.options, {[] { return std::string(); }, [] { return std::string(); }},
                    place.messages.log());
  CHECK(cache.get(key_of("a"), kArch, build_nothing)->compiler_id == kCompiler);
  CHECK_THROWS_AS(cache.get(key_of("b"), kArch, build_nothing), Error);
}

TEST_CASE("32 threads that want one kernel share one build") {
  constexpr int kThreads = 32;
  Place place;
  KernelCache cache = place.open();
  std::barrier start(kThreads);
  std::vector<std::shared_ptr<const Entry>> results(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        results[i] = cache.get(key_of("a"), kArch, [] {
          std::this_thread::sleep_for(milliseconds(50));
          return build_fake();
        });
      });
    }
  }
  for (const auto& result : results) CHECK(result == results[0]);
  CHECK(cache.counters().builds == 1);
  CHECK(cache.counters().memory_hits == kThreads - 1);
}

TEST_CASE("different kernels are built at the same time") {
  Place place;
  KernelCache cache = place.open();
  std::atomic<int> building = 0;
  std::atomic<bool> together = true;
  const auto build = [&] {
    ++building;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (building < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    if (building < 2) together = false;
    return build_fake();
  };
  {
    const std::jthread other([&] { cache.get(key_of("a"), kArch, build); });
    cache.get(key_of("b"), kArch, build);
  }
  CHECK(together);
}

TEST_CASE("a failed build reaches everyone with the same message until reset") {
  constexpr int kThreads = 32;
  Place place;
  KernelCache cache = place.open();
  std::atomic<int> attempts = 0;
  const auto fail = [&]() -> Entry {
    std::this_thread::sleep_for(milliseconds(50));
    throw Error(ErrorKind::kCompile, "attempt " + std::to_string(++attempts));
  };
  std::barrier start(kThreads);
  std::vector<std::string> messages(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          cache.get(key_of("a"), kArch, fail);
        } catch (const Error& error) {
          messages[i] = error.what();
        }
      });
    }
  }
  for (const std::string& message : messages) CHECK(message == "attempt 1");
  CHECK_THROWS_WITH(cache.get(key_of("a"), kArch, build_fake), "attempt 1");
  CHECK(cache.counters().builds == 0);
  CHECK(cache.counters().memory_hits == 0);
  CHECK(cache.store().list().empty());

  cache.reset();
  CHECK(cache.get(key_of("a"), kArch, build_fake)->cubin == fake_cubin());
  CHECK(cache.counters().builds == 1);
}

TEST_CASE("what stops a build for now is forgotten, and the disk is looked at again") {
  Place place;
  KernelCache cache = place.open();
  const auto fail = [&](const std::string& source, auto error) {
    const auto build = [&]() -> Entry { throw error; };
    CHECK_THROWS_AS(cache.get(key_of(source), kArch, build), decltype(error));
  };
  fail("a", std::bad_alloc());
  fail("a", Error(ErrorKind::kNoCompiler, "no compiler"));
  fail("a", Error(ErrorKind::kCache, "compiling is forbidden"));
  CHECK(cache.get(key_of("a"), kArch, build_fake)->cubin == fake_cubin());
  CHECK(cache.counters().builds == 1);

  fail("b", Error(ErrorKind::kCache, "compiling is forbidden"));
  place.open().get(key_of("b"), kArch, build_fake);  // another process
  CHECK(cache.get(key_of("b"), kArch, build_nothing)->cubin == fake_cubin());
  CHECK(cache.counters().disk_hits == 1);
}

TEST_CASE("what is no code for the architecture is neither kept nor remembered") {
  Place place;
  KernelCache cache = place.open();
  const auto refuses = [&](std::vector<std::byte> cubin, const char* why) {
    const auto build = [&] {
      Entry entry = build_fake();
      entry.cubin = cubin;
      return entry;
    };
    CHECK_THROWS_WITH_AS(cache.get(key_of("a"), kArch, build), doctest::Contains(why), Error);
    CHECK(cache.store().list().empty());
  };
  refuses({}, "its cubin is not an ELF file");
  refuses(std::vector<std::byte>(1000), "its cubin is not an ELF file");
  std::vector<std::byte> other = fake_cubin();
  other[offsetof(Elf64_Ehdr, e_flags) + 1] = std::byte{80};
  refuses(other, "code for sm_80 and not for sm_90a; set ATTNJIT_NVRTC");
  CHECK(cache.get(key_of("a"), kArch, build_fake)->cubin == fake_cubin());
}

TEST_CASE("a compiler that turns up later is asked, and names its entries") {
  Place place;
  std::string compiler;
  KernelCache cache(place.options, {[&] { return compiler; }, [&] { return compiler; }},
                    place.messages.log());
  CHECK_THROWS_AS(cache.get(key_of("a"), kArch, build_nothing), Error);
  cache.reset();
  compiler = kCompiler;
  CHECK(cache.get(key_of("a"), kArch, build_fake)->compiler_id == kCompiler);
}

TEST_CASE("processes that want one kernel build it once") {
  Place place;
  const fs::path marks = place.directory / "marks";
  CHECK(all_processes(32, [&] { return get_slowly(place.options, marks); }));
  CHECK(count_below(marks) == 1);
}

TEST_CASE("without working locks processes build more often, and are right") {
  Place place;
  const fs::path marks = place.directory / "marks";
  spill(place.options.lock_directory, "not a directory");
  CHECK(all_processes(32, [&] { return get_slowly(place.options, marks); }));
  CHECK(count_below(marks) > 1);
  KernelCache cache = place.open();
  cache.get(key_of("a"), kArch, build_nothing);
  cache.get(key_of("b"), kArch, build_fake);
  CHECK(cache.counters().lock_timeouts == 0);
  REQUIRE(place.messages.warnings().size() == 1);
  CHECK(place.messages.warnings()[0].find(place.options.lock_directory.string()) !=
        std::string::npos);
}

TEST_CASE("a lock directory that is deleted is made again, and nobody waits for the lock in it") {
  Place place;
  KernelCache cache = place.open();
  const auto entry = cache.get(key_of("a"), kArch, [&] {
    fs::remove_all(place.options.lock_directory);
    return place.open().get(key_of("a"), kArch, build_fake), build_fake();
  });
  CHECK(entry->cubin == fake_cubin());
  CHECK(fs::exists(place.options.lock_directory));
  CHECK(cache.store().list().size() == 1);
  CHECK(cache.store().verify().empty());
  CHECK(place.messages.warnings().empty());
}

TEST_CASE("a lock directory of another user is not used") {
  if (::geteuid() != 0) ATTNJIT_SKIP("only root can give a directory away");
  Place place;
  fs::create_directory(place.options.lock_directory);
  REQUIRE(::chown(place.options.lock_directory.c_str(), 54321, 54321) == 0);
  KernelCache cache = place.open();
  cache.get(key_of("a"), kArch, build_fake);
  CHECK(count_below(place.options.lock_directory) == 0);
  REQUIRE(place.messages.warnings().size() == 1);
  CHECK(place.messages.warnings()[0].find("another user") != std::string::npos);
}

TEST_CASE("a lock that is never released costs its budget and no more") {
  Place place;
  place.options.lock_budget = milliseconds(100);
  const FileLock held(place.lock_of("a"), milliseconds(0), place.messages.log());
  REQUIRE(held.outcome() == FileLock::Outcome::kHeld);
  KernelCache cache = place.open();
  const auto begin = std::chrono::steady_clock::now();
  cache.get(key_of("a"), kArch, build_fake);
  CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(100));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  CHECK(cache.counters().builds == 1);
  CHECK(cache.counters().lock_timeouts == 1);
  cache.get(key_of("b"), kArch, build_fake);
  CHECK(cache.counters().lock_timeouts == 1);
}

TEST_CASE("a process that is stopped while it builds costs others their budget and no more") {
  Place place;
  place.options.lock_budget = milliseconds(100);
  const pid_t child = start_child([&] {
    const auto build = [] { return ::raise(SIGSTOP), build_fake(); };
    return place.open().get(key_of("a"), kArch, build)->cubin == fake_cubin();
  });
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  KernelCache cache = place.open();
  CHECK(cache.get(key_of("a"), kArch, build_fake)->cubin == fake_cubin());
  CHECK(cache.counters().lock_timeouts == 1);
  ::kill(child, SIGCONT);
  CHECK(succeeded(child));
  CHECK(cache.store().list().size() == 1);
  CHECK(cache.store().verify().empty());
}

TEST_CASE("a cache that is deleted again and again serves the processes that fill it") {
  Place place;
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(start_child([&] {
      for (int i = 0; i < 100; ++i) {
        KernelCache cache = place.open();
        const std::string source = std::to_string(i % 7);
        const auto entry = cache.get(key_of(source), kArch, build_fake);
        if (entry->key != key_of(source) || entry->cubin != fake_cubin()) return false;
      }
      return true;
    }));
  }
  std::atomic<bool> done = false;
  std::jthread deleter([&] {
    std::error_code ignored;
    while (!done) fs::remove_all(place.directory / "cache", ignored);
  });
  for (const pid_t child : children) CHECK(succeeded(child));
  done = true;
  deleter.join();
  KernelCache cache = place.open();
  cache.get(key_of("a"), kArch, build_fake);
  CHECK(cache.store().verify().empty());
  CHECK(cache.store().list().size() >= 1);
}

TEST_CASE("a lock of one cache costs another cache nothing, and links to a cache share it") {
  Place place;
  const FileLock held(place.lock_of("a"), milliseconds(0), place.messages.log());
  place.options.lock_budget = milliseconds(0);
  place.options.directory = place.directory / "another";
  KernelCache another = place.open();
  another.get(key_of("a"), kArch, build_fake);
  CHECK(another.counters().lock_timeouts == 0);

  fs::create_directory_symlink(place.directory.path(), place.directory / "link");
  place.options.directory = place.directory / "link" / "cache";
  KernelCache same = place.open();
  same.get(key_of("a"), kArch, build_fake);
  CHECK(same.counters().lock_timeouts == 1);
}

TEST_CASE("a lock is held by one at a time, and its file goes with it") {
  Place place;
  const fs::path path = place.lock_of("a");
  std::atomic<int> inside = 0, taken = 0, shared = 0;
  const auto take_turns = [&] {
    for (int i = 0; i < 100; ++i) {
      const FileLock lock(path, milliseconds(0), place.messages.log());
      if (lock.outcome() != FileLock::Outcome::kHeld) continue;
      ++taken;
      if (++inside != 1) ++shared;
      std::this_thread::yield();
      --inside;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(take_turns);
  }
  CHECK(taken > 0);
  CHECK(shared == 0);
  CHECK(count_below(place.options.lock_directory) == 0);
  CHECK(place.messages.warnings().empty());
}

TEST_CASE("one that waits for a lock gets it where its file has been removed") {
  Place place;
  const fs::path path = place.lock_of("a");
  auto held = std::make_unique<FileLock>(path, milliseconds(0), place.messages.log());
  std::jthread waiting([&] {
    const FileLock lock(path, std::chrono::seconds(10), place.messages.log());
    CHECK(lock.outcome() == FileLock::Outcome::kHeld);
    CHECK(FileLock(path, milliseconds(0), place.messages.log()).outcome() ==
          FileLock::Outcome::kBusy);
  });
  std::this_thread::sleep_for(milliseconds(20));
  held.reset();
  waiting.join();
  CHECK(count_below(place.options.lock_directory) == 0);
}

TEST_CASE("a lock is free again once its holder was killed") {
  Place place;
  const fs::path path = place.lock_of("a");
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(path, milliseconds(0), place.messages.log());
    spill(place.directory / "locked", "");
    ::pause();
    ::_exit(0);
  }
  while (!fs::exists(place.directory / "locked")) std::this_thread::yield();
  CHECK(FileLock(path, milliseconds(0), place.messages.log()).outcome() ==
        FileLock::Outcome::kBusy);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(FileLock(path, milliseconds(0), place.messages.log()).outcome() ==
        FileLock::Outcome::kHeld);
}

TEST_CASE("a child forked during a build builds for itself, and the parent goes on") {
  Place place;
  place.options.lock_budget = milliseconds(100);  // the parent holds the lock of its build
  SUBCASE("with a directory") {}
  SUBCASE("memory only") { place.options.directory = std::nullopt; }
  KernelCache cache = place.open();
  std::binary_semaphore building(0), finish(0);
  std::jthread builder([&] {
    cache.get(key_of("a"), kArch, [&] {
      building.release();
      finish.acquire();
      return build_fake();
    });
  });
  building.acquire();
  const bool built = true_in_child([&] {
    const bool own = cache.get(key_of("a"), kArch, build_fake)->cubin == fake_cubin();
    cache.reset();
    return own && cache.get(key_of("b"), kArch, build_fake)->cubin == fake_cubin();
  });
  finish.release();
  builder.join();
  CHECK(built);
  CHECK(cache.get(key_of("a"), kArch, build_nothing)->cubin == fake_cubin());
  CHECK(cache.counters().builds == 1);
}

TEST_CASE("a child neither keeps its parent's lock nor drops it") {
  Place place;
  const fs::path path = place.lock_of("a");
  const auto outcome = [&] {
    return FileLock(path, milliseconds(0), place.messages.log()).outcome();
  };
  auto held = std::make_unique<FileLock>(path, milliseconds(0), place.messages.log());
  CHECK(true_in_child([&] {
    held.reset();
    return true;
  }));
  CHECK(outcome() == FileLock::Outcome::kBusy);

  const pid_t child = start_child([] { return ::pause() == 0; });  // it has inherited the file
  held.reset();
  CHECK(outcome() == FileLock::Outcome::kHeld);
  ::kill(child, SIGKILL);
  CHECK_FALSE(succeeded(child));
}

TEST_CASE("a write that fails keeps the result") {
  Place place;
  KernelCache cache = place.open();
  const auto build_large = [] {
    Entry entry = build_fake();
    entry.cubin = fake_cubin(100000);
    return entry;
  };
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit limit{4096, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto entry = cache.get(key_of("a"), kArch, build_large);
  ::setrlimit(RLIMIT_FSIZE, &before);

  CHECK(entry->cubin.size() == 100000);
  CHECK(cache.get(key_of("a"), kArch, build_nothing) == entry);
  CHECK(cache.counters().write_failures == 1);
  CHECK(place.messages.warnings().size() == 1);
  CHECK(cache.store().list().empty());
  CHECK(fs::is_empty(place.directory / "cache/v1/tmp"));
}
