// Files on disk after any one call on the way there failed, was interrupted, or was the last that
// the process made.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "cache/bundle_writer.hpp"
#include "cache/collector.hpp"
#include "tuner/fault_store.hpp"
#include "tuner/record_store.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/child_process.hpp"
#include "unit/dump_fixtures.hpp"
#include "unit/file_calls.hpp"
#include "unit/temp_directory.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;
using namespace attnjit::test;
namespace fs = std::filesystem;

namespace {

cache::Entry build_fake() {
  cache::Entry entry = make_entry("a");
  entry.meta_json = R"({"registers":168})";
  return entry;
}

cache::KernelCache open_cache(const fs::path& directory, base::Log& log) {
  return cache::KernelCache(
      {.directory = directory / "cache", .lock_directory = directory / "lock"}, fake_compiler, log);
}

tuner::RecordStore open_records(const fs::path& directory, base::Log& log) {
  return tuner::RecordStore(directory / "cache", directory / "lock", log);
}

/// Something that is kept in a directory: whether it is there afterwards, as keep() says, and
/// whether there() finds it, as the next process would.
struct Kernel {
  static bool keep(const fs::path& directory, base::Log& log) {
    const auto fetched = open_cache(directory, log).fetch(key_of("a"), kArch, build_fake);
    CHECK(fetched.entry->cubin == fake_cubin());
    return !fetched.why_not_kept;
  }
  static bool there(const fs::path& directory, base::Log& log) {
    const auto entry = cache::Store(directory / "cache", log).find(key_of("a"), kArch, kCompiler);
    if (entry) CHECK(entry->cubin == fake_cubin());
    return entry.has_value();
  }
};

struct Record {
  static bool keep(const fs::path& directory, base::Log& log) {
    auto records = open_records(directory, log);
    const bool kept = !records.publish(make_record(tune_key()));
    CHECK(records.find_exact(tune_key()));  // in memory at least
    return kept;
  }
  static bool there(const fs::path& directory, base::Log& log) {
    return open_records(directory, log).find_exact(tune_key()).has_value();
  }
};

struct Faulty {
  inline static const tuner::Fault kFault{.id = std::string(64, 'a'), .device = device_class()};

  static bool keep(const fs::path& directory, base::Log& log) {
    return !tuner::FaultStore(directory / "cache", log).publish(kFault);
  }
  static bool there(const fs::path& directory, base::Log& log) {
    return tuner::FaultStore(directory / "cache", log).has(kFault.id);
  }
};

/// A cache directory, and the stores of a process that comes after.
struct Place {
  TempDirectory temp;
  KeepingLog messages;

  const fs::path& path() const { return temp.path(); }
  base::Log& log() { return messages.log(); }
  cache::Store store() { return cache::Store(temp / "cache", log()); }

  /// Has what dead writers left removed.
  void sweep() {
    cache::Store kernels = store();
    cache::Collector(kernels, {}, temp / "lock", log()).collect();
  }

  void expect_sound() {
    CHECK(store().verify().empty());
    CHECK(open_records(path(), log()).verify().empty());
    CHECK(tuner::FaultStore(temp / "cache", log()).verify().empty());
    CHECK(cache::children(store().temporary_directory()).empty());
    CHECK(cache::children(store().quarantine_directory()).empty());
  }
};

}  // namespace

TEST_CASE_TEMPLATE("whichever call fails, what is kept is whole and what is said is true", Kept,
                   Kernel, Record, Faulty) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EMFILE, ESTALE, ENOTDIR, EACCES, EXDEV}) {
    bool met = true;
    for (std::size_t at = 0; met; ++at) {
      Place place;
      bool kept = false;
      const auto calls = file_calls([&] { kept = Kept::keep(place.path(), place.log()); }, at,
                                    {FileFault::Kind::kError, error});
      met = at < calls.size();
      CAPTURE(std::string(met ? calls[at] : "no call"));
      CAPTURE(std::string(std::strerror(error)));
      CAPTURE(at);
      CHECK(kept == Kept::there(place.path(), place.log()));
      if (!met) CHECK(kept);
      place.expect_sound();
    }
  }
}

TEST_CASE_TEMPLATE("a process that is killed at any call leaves all of it or nothing", Kept, Kernel,
                   Record, Faulty) {
  bool killed = true;
  for (std::size_t at = 0; killed; ++at) {
    Place place;
    killed = !true_in_child([&] {
      bool kept = false;
      file_calls([&] { kept = Kept::keep(place.path(), place.log()); }, at,
                 {.kind = FileFault::Kind::kKill});
      return kept;
    });
    CAPTURE(at);
    if (!killed) CHECK(at > 10);
    Kept::there(place.path(), place.log());
    place.sweep();
    place.expect_sound();
    CHECK(Kept::keep(place.path(), place.log()));
    CHECK(Kept::there(place.path(), place.log()));
  }
}

TEST_CASE_TEMPLATE("calls that a signal interrupts or that do a part are made again", Kept, Kernel,
                   Record, Faulty) {
  const std::set<std::string> interruptible = {"open", "read", "write", "fsync", "close", "flock"};
  for (const FileFault& fault :
       {FileFault{FileFault::Kind::kError, EINTR}, FileFault{FileFault::Kind::kShort}}) {
    Place sound;
    const auto calls = file_calls([&] { Kept::keep(sound.path(), sound.log()); });
    for (std::size_t at = 0; at < calls.size(); ++at) {
      if (!interruptible.contains(calls[at])) continue;
      Place place;
      bool kept = false;
      file_calls([&] { kept = Kept::keep(place.path(), place.log()); }, at, fault);
      CAPTURE(calls[at]);
      CAPTURE(at);
      CHECK(kept);
      CHECK(Kept::there(place.path(), place.log()));
      CHECK(place.messages.warnings().empty());
      place.expect_sound();
    }
  }
}

TEST_CASE_TEMPLATE("a file gets its name only once it is on the disk", Kept, Kernel, Record,
                   Faulty) {
  Place place;
  const auto calls = file_calls([&] { Kept::keep(place.path(), place.log()); });
  int renames = 0;
  for (std::size_t i = 2; i < calls.size(); ++i) {
    if (calls[i] != "rename") continue;
    ++renames;
    CHECK(calls[i - 1] == "close");
    CHECK(calls[i - 2] == "fsync");
  }
  CHECK(renames == 3);  // the file, and the two that say what the directory is
}

TEST_CASE("a kernel that cannot be read is built again, and its file stays") {
  for (const int error : {EIO, ESTALE, ENOENT, ENOTDIR, EMFILE, EACCES}) {
    bool met = true;
    for (std::size_t at = 0; met; ++at) {
      Place place;
      REQUIRE(Kernel::keep(place.path(), place.log()));
      const auto calls = file_calls([&] { CHECK(Kernel::keep(place.path(), place.log())); }, at,
                                    {FileFault::Kind::kError, error});
      met = at < calls.size();
      CAPTURE(std::string(met ? calls[at] : "no call"));
      CAPTURE(at);
      CHECK(Kernel::there(place.path(), place.log()));
      place.expect_sound();
    }
  }
}

TEST_CASE("whichever call fails, a bundle is the old one or the new one") {
  for (const int error : {EIO, ENOSPC, EMFILE, EXDEV}) {
    bool met = true;
    for (std::size_t at = 0; met; ++at) {
      Place place;
      const fs::path file = place.temp / "b.atkb";
      cache::BundleWriter writer;
      writer.add(make_entry("a"));
      writer.write(file);
      writer.add(make_entry("b"));
      bool written = true;
      const auto calls = file_calls(
          [&] {
            try {
              writer.write(file);
            } catch (const Error&) {
              written = false;
            }
          },
          at, {FileFault::Kind::kError, error});
      met = at < calls.size();
      CAPTURE(std::string(met ? calls[at] : "no call"));
      const cache::BundlePath path({file}, place.log());
      REQUIRE(path.bundles().size() == 1);
      const bool both = path.find(key_of("b"), kArch).has_value();
      CHECK((both || !written));
      CHECK(path.find(key_of("a"), kArch));
      CHECK(count_below(place.path()) == 1);
    }
  }
}

// The calls in `folder`, each read whole; of how many there are results.
std::size_t read_calls(const fs::path& folder) {
  std::size_t with_results = 0;
  for (const fs::path& path : dump::list_calls(folder)) {
    const dump::CallFile file = dump::CallFile::open(path);
    file.load(kDumpMemory);
    with_results += file.load_results() ? 1 : 0;
  }
  return with_results;
}

TEST_CASE("a dump that is killed at any call leaves whole files, and none that stops a replay") {
  const instance::HostProblem host({.seqlen_q = 3, .head_dim = 16}, 1);
  bool killed = true;
  std::size_t calls = 0;
  for (std::size_t at = 0; killed; ++at) {
    const TempDirectory temp;
    const fs::path folder = temp / "calls";
    killed = !true_in_child([&] {
      file_calls(
          [&] {
            dump::why_no_folder(folder);
            write_dump(folder, call_of(host));
          },
          at, {.kind = FileFault::Kind::kKill});
      return true;
    });
    CAPTURE(at);
    if (fs::exists(folder)) CHECK_NOTHROW(read_calls(folder));
    if (!killed) CHECK(read_calls(folder) == 1);
    calls = at;
  }
  CHECK(calls > 20);
}

TEST_CASE("whichever call fails, a dump is whole or not there") {
  const instance::HostProblem host({.seqlen_q = 3, .head_dim = 16}, 1);
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    bool met = true;
    for (std::size_t at = 0; met; ++at) {
      const TempDirectory temp;
      bool written = false;
      const auto calls =
          file_calls([&] { written = !write_dump(temp.path(), call_of(host)).empty(); }, at,
                     {FileFault::Kind::kError, error});
      met = at < calls.size();
      CAPTURE(std::string(met ? calls[at] : "no call"));
      CHECK(read_calls(temp.path()) >= (written ? 1 : 0));
      if (!met) CHECK(written);
    }
  }
}
