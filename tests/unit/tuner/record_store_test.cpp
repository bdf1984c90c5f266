#include "tuner/record_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "tuner/neighbours.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/child_process.hpp"
#include "unit/temp_directory.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;
using attnjit::test::make_record;
using attnjit::test::TempDirectory;
using attnjit::test::tune_key;
using tuner::Record;
using tuner::RecordStore;
namespace fs = std::filesystem;

namespace {

struct Disk {
  TempDirectory temp;
  test::KeepingLog log;

  RecordStore open() { return RecordStore(temp / "cache", temp / "lock", log.log()); }
  fs::path file(const tuner::TuneKey& key) {
    return temp / "cache" / "v1" / RecordStore::place(key);
  }
};

}  // namespace

TEST_CASE("a record is there for the next process") {
  Disk disk;
  const Record record = make_record(tune_key());
  disk.open().publish(record);
  const auto found = disk.open().find(tune_key());
  REQUIRE(found);
  CHECK(found->exact);
  CHECK(to_json(found->record) == to_json(record));
  CHECK(disk.open().list().size() == 1);
  CHECK_FALSE(disk.open().recall(tune_key()));  // that was another process
  const std::string path = disk.file(tune_key()).string();
  CHECK(path.find("/v1/t/nvidia-h200.132sm.sm_90a.60m/") != std::string::npos);
  CHECK(path.ends_with("/q1024.kv1024.p16.json"));
}

TEST_CASE("what is not the same problem, device or space is not found") {
  Disk disk;
  RecordStore store = disk.open();
  store.publish(make_record(tune_key()));
  const auto miss = [&](auto change) {
    tuner::TuneKey key = tune_key();
    change(key);
    CHECK_FALSE(store.find(key));
  };
  miss([](auto& key) { key.space = "other"; });
  miss([](auto& key) { key.device.name = "NVIDIA H100"; });
  miss([](auto& key) { key.device.sm_count = 114; });
  miss([](auto& key) { key.device.l2_bytes = 50u << 20; });
  miss([](auto& key) { key.plan.family.bounded_right = true; });
  miss([](auto& key) { key.plan.family.dtype = DType::kFloat16; });
  miss([](auto& key) { key.plan.bucket_q = 4096; });
  miss([](auto& key) { key.plan.bucket_planes = 256; });
  miss([](auto& key) { key.plan.mask_per_head = true; });
  miss([](auto& key) { key.plan.bias_per_head = true; });
}

TEST_CASE("every field of a family is a directory of its own") {
  std::vector<problem::Family> families(16, tune_key().plan.family);
  families[1].dtype = DType::kFloat16;
  families[2].head_dim = 64;
  families[3].head_dim_v = 64;
  families[4].gqa_ratio = 1;
  families[5].aligned = false;
  families[6].positive_scale = false;
  families[7].mask = problem::Extent::kPerPair;
  families[8].mask_vectorized = true;
  families[9].bias = problem::Extent::kPerPair;
  families[10].bias_dtype = DType::kFloat32;
  families[11].bias_vectorized = true;
  families[12].bounded_left = true;
  families[13].bounded_right = true;
  families[14].seqlens = true;
  families[15].mask_per_query_head = true;
  std::set<fs::path> places;
  for (const problem::Family& family : families) {
    tuner::TuneKey key = tune_key();
    key.plan.family = family;
    places.insert(RecordStore::place(key));
  }
  CHECK(places.size() == families.size());
}

TEST_CASE("records of a backward lie beside those of its forward") {
  Disk disk;
  const tuner::BackwardRecord record = make_record(test::backward_tune_key());
  {
    RecordStore store = disk.open();
    store.publish(make_record(tune_key()));
    store.publish(record);
  }
  RecordStore store = disk.open();
  CHECK(store.list().size() == 2);
  const auto found = store.find(test::backward_tune_key());
  REQUIRE(found);
  CHECK(to_json(found->record) == to_json(record));
  const auto near = store.find(test::backward_tune_key(2048, 512, 64));
  REQUIRE(near);
  CHECK_FALSE(near->exact);
  CHECK(store.find(tune_key())->record.key == tune_key());
  const auto miss = [&](auto change) {
    tuner::BackwardTuneKey key = test::backward_tune_key();
    change(key.plan.family);
    CHECK_FALSE(store.find(key));
  };
  miss([](auto& family) { family.deterministic = false; });
  miss([](auto& family) { family.dbias = problem::Extent::kAbsent; });
  miss([](auto& family) { family.dbias_dtype = DType::kFloat32; });
  miss([](auto& family) { family.dbias_vectorized = false; });
  miss([](auto& family) { family.dbias_reduces_planes = false; });
  miss([](auto& family) { family.dbias_reduces_few = true; });
  miss([](auto& family) { family.dbias_scalar = true; });
  miss([](auto& family) { family.scores.bounded_right = true; });
  // Without an operand of its own the family's fields are the forward's but for its pass.
  CHECK(RecordStore::place(tuner::BackwardTuneKey{}) != RecordStore::place(tuner::TuneKey{}));
}

TEST_CASE("neighbours are one step away at most, closest first, less work first") {
  const auto near = tuner::neighbours(tune_key(1024, 1024, 16).plan);
  CHECK(near.size() == 26);
  // One step on one axis: a quarter of the planes is less work than half of a length.
  CHECK(near[0] == tune_key(1024, 1024, 4).plan);
  CHECK(near[5] == tune_key(1024, 1024, 64).plan);
  CHECK(near.back() == tune_key(2048, 2048, 64).plan);
  // A single query has kernels of its own; the ends of the lists have one side only.
  for (const auto& key : tuner::neighbours(tune_key(1, 32768, 1).plan)) CHECK(key.bucket_q == 1);
  for (const auto& key : tuner::neighbours(tune_key(16, 1024, 1).plan)) CHECK(key.bucket_q > 1);
  CHECK(tuner::neighbours(tune_key(1, 32768, 1).plan).size() == 3);
}

TEST_CASE("the closest neighbour is used where there is no record of the problem itself") {
  Disk disk;
  RecordStore store = disk.open();
  store.publish(make_record(tune_key(2048, 2048, 16)));  // two steps
  CHECK(store.find(tune_key())->record.key == tune_key(2048, 2048, 16));
  store.publish(make_record(tune_key(2048, 1024, 16)));
  CHECK(store.find(tune_key())->record.key == tune_key(2048, 1024, 16));
  store.publish(make_record(tune_key(512, 1024, 16)));  // as close, less work
  const auto match = store.find(tune_key());
  CHECK(match->record.key == tune_key(512, 1024, 16));
  CHECK_FALSE(match->exact);
  store.publish(make_record(tune_key()));
  CHECK(store.find(tune_key())->exact);
}

TEST_CASE("without a disk records last as long as the process") {
  test::KeepingLog log;
  RecordStore store(std::nullopt, "", log.log());
  CHECK_FALSE(store.find(tune_key()));
  store.publish(make_record(tune_key()));
  CHECK(store.find(tune_key())->exact);
  CHECK(store.recall(tune_key()));
  CHECK(store.list().empty());
  CHECK(log.warnings().empty());
}

TEST_CASE("what is remembered is not written, and comes before what is on disk") {
  Disk disk;
  disk.open().publish(make_record(tune_key()));
  RecordStore store = disk.open();
  Record other = make_record(tune_key());
  other.us = 70;
  store.remember(other);
  CHECK(store.find(tune_key())->record.us == 70);
  CHECK(disk.open().find(tune_key())->record.us == 80.5);
}

TEST_CASE("a file that is no record of its place counts as absent") {
  Disk disk;
  const fs::path path = disk.file(tune_key());
  const std::string good = to_json(make_record(tune_key()));
  const auto absent = [&](const std::string& text) {
    test::spill(path, text);
    CHECK_FALSE(disk.open().find(tune_key()));
    CHECK(disk.open().list().empty());
    CHECK(disk.open().verify().size() == 1);
  };
  disk.open().publish(make_record(tune_key()));
  absent("");
  absent("not JSON");
  absent(good.substr(0, good.size() / 2));
  absent(to_json(make_record(tune_key(2048))));  // another bucket's
  absent(good + std::string(64 * 1024, ' '));    // larger than any record
  test::spill(path, good);
  CHECK(disk.open().find(tune_key()));
  CHECK(disk.open().verify().empty());

  fs::permissions(path, fs::perms::group_write, fs::perm_options::add);
  CHECK_FALSE(disk.open().find(tune_key()));
  fs::remove(path);
  fs::create_directory(path);
  CHECK_FALSE(disk.open().find(tune_key()));
}

TEST_CASE("a directory that everyone may write to is neither read nor written") {
  Disk disk;
  disk.open().publish(make_record(tune_key()));
  fs::permissions(disk.temp / "cache", fs::perms::others_write, fs::perm_options::add);
  CHECK_FALSE(disk.open().find(tune_key()));
  disk.open().publish(make_record(tune_key(2048)));
  CHECK_FALSE(fs::exists(disk.file(tune_key(2048))));
}

TEST_CASE("records do not follow a link to their directory, however it is written") {
  Disk disk;
  disk.open().publish(make_record(tune_key()));
  fs::rename(disk.temp / "cache", disk.temp / "real");
  fs::create_directory_symlink(disk.temp / "real", disk.temp / "cache");
  for (const char* end : {"", "/", "/.", "//", "/x/.."}) {
    CAPTURE(end);
    test::KeepingLog log;
    RecordStore store(disk.temp / ("cache" + std::string(end)), disk.temp / "lock", log.log());
    CHECK_FALSE(store.find(tune_key()));
    store.publish(make_record(tune_key(2048)));
    CHECK(store.list().empty());
    REQUIRE(log.warnings().size() == 1);
    CHECK(log.warnings()[0].find("symbolic link") != std::string::npos);
  }
  CHECK_FALSE(fs::exists(disk.temp / "real/v1" / RecordStore::place(tune_key(2048))));
}

TEST_CASE("a record that the next process could not read is not written, and that is said") {
  Disk disk;
  Record large = make_record(tune_key()), impossible = make_record(tune_key());
  large.exact.assign(64 * 1024, 'x');
  impossible.mad = 0;
  for (const Record& record : {large, impossible}) {
    RecordStore store = disk.open();
    CHECK(store.publish(record));
    CHECK(store.find_exact(tune_key()));
    CHECK_FALSE(fs::exists(disk.file(tune_key())));
    CHECK(store.verify().empty());
  }
  REQUIRE(disk.log.warnings().size() == 2);
  CHECK(disk.log.warnings()[0].find("expected at most 65536") != std::string::npos);
}

TEST_CASE("a record that cannot be written is said once and used all the same") {
  Disk disk;
  test::spill(disk.temp / "cache", "a file, so nothing can be created below it");
  RecordStore store = disk.open();
  store.publish(make_record(tune_key()));
  store.publish(make_record(tune_key(2048)));
  CHECK(store.find(tune_key())->exact);
  REQUIRE(disk.log.warnings().size() == 1);
  CHECK(disk.log.warnings()[0].find("cannot write to the cache") != std::string::npos);
}

TEST_CASE("a record that another process has put there meanwhile stays if it is better") {
  Disk disk;
  Record quiet = make_record(tune_key());
  Record noisy = quiet;
  quiet.mad = 0.1;
  noisy.mad = 0.5;
  disk.open().publish(quiet);
  RecordStore store = disk.open();
  CHECK_FALSE(store.publish(noisy));
  CHECK(disk.open().find_exact(tune_key())->mad == 0.1);
  CHECK(store.find_exact(tune_key())->mad == 0.1);
  // One that was measured again to take its place is kept, whatever its noise.
  CHECK_FALSE(store.publish(noisy, std::optional(quiet)));
  CHECK(disk.open().find_exact(tune_key())->mad == 0.5);
}

TEST_CASE("of the records that two processes write at once the best stays") {
  Disk disk;
  const auto writer = [&](int first) {
    return test::start_child([&disk, first] {
      for (int i = first; i < 100; i += 2) {
        Record record = make_record(tune_key());
        record.mad = 0.1 + 0.01 * (i * 37 % 100);  // the least is that of i = 0
        if (disk.open().publish(record)) return false;
      }
      return true;
    });
  };
  const pid_t even = writer(0);
  const pid_t odd = writer(1);
  CHECK(test::succeeded(even));
  CHECK(test::succeeded(odd));
  CHECK(disk.open().find_exact(tune_key())->mad == 0.1);
}

TEST_CASE("writers at once lose nothing") {
  Disk disk;
  const auto buckets = problem::kLengthBuckets;
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 4; ++writer) {
      writers.emplace_back([&] {
        RecordStore store = disk.open();
        for (const std::int32_t bucket : buckets) store.publish(make_record(tune_key(bucket)));
      });
    }
  }
  CHECK(disk.open().list().size() == buckets.size());
}
