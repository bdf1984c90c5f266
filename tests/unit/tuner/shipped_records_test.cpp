// Records that come with the library: synthetic ones, and those of this tree.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "cache/bundle_writer.hpp"
#include "tuner/embedded_configs.hpp"
#include "tuner/record_store.hpp"
#include "tuner/stale.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/temp_directory.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;
using test::backward_tune_key;
using test::make_record;
using test::tune_key;
using tuner::RecordStore;

namespace {

template <class PlanKey>
std::string line(const tuner::BasicTuneKey<PlanKey>& key, double us = 80.5) {
  auto record = make_record(key);
  record.us = us;
  return to_json(record) + '\n';
}

}  // namespace

TEST_CASE("a shipped record serves its own key, and neighbours") {
  test::KeepingLog log;
  const std::string lines = line(tune_key(4096)) + '\n' + line(tune_key()) +
                            line(backward_tune_key()) + line(tune_key(64, 64));
  const RecordStore store(std::nullopt, {}, log.log(), nullptr, lines);
  REQUIRE(store.find(tune_key()));
  CHECK(store.find(tune_key())->exact);
  CHECK(to_json(store.find(tune_key())->record) == to_json(make_record(tune_key())));
  REQUIRE(store.find(tune_key(64, 128)));
  CHECK_FALSE(store.find(tune_key(64, 128))->exact);
  REQUIRE(store.find_exact(backward_tune_key()));
  CHECK(store.list_shipped().size() == 4);
  CHECK(store.list().empty());
  CHECK_FALSE(store.recall(tune_key()));
}

TEST_CASE("a shipped record of another space or device is ignored") {
  test::KeepingLog log;
  const std::string lines = line(tune_key());
  const RecordStore store(std::nullopt, {}, log.log(), nullptr, lines);
  tuner::TuneKey space = tune_key();
  space.space = "test-2";
  CHECK_FALSE(store.find(space));
  tuner::TuneKey device = tune_key();
  device.device.sm_count = 114;
  CHECK_FALSE(store.find(device));
}

TEST_CASE("memory goes before the disk, that before bundles, those before what is shipped") {
  const test::TempDirectory temp;
  test::KeepingLog log;
  const std::string lines = line(tune_key(), 1);
  auto record = make_record(tune_key());
  record.us = 2;
  cache::BundleWriter writer;
  writer.add_record(RecordStore::id(record.key), record.key.device.arch, to_json(record));
  writer.write(temp / "b.atkb");
  const cache::BundlePath none({}, log.log());
  const cache::BundlePath bundles({temp / "b.atkb"}, log.log());
  const auto us = [&](RecordStore& store) { return store.find_exact(tune_key())->us; };
  const auto start = [&](const cache::BundlePath& path) {
    return RecordStore(temp / "cache", temp / "locks", log.log(), &path, lines);
  };
  RecordStore shipped = start(none);
  CHECK(us(shipped) == 1);
  RecordStore bundled = start(bundles);
  CHECK(us(bundled) == 2);
  CHECK_FALSE(std::filesystem::exists(temp / "cache"));
  record.us = 3;
  REQUIRE_FALSE(RecordStore(temp / "cache", temp / "locks", log.log()).publish(record));
  RecordStore disk = start(bundles);
  CHECK(us(disk) == 3);
  record.us = 4;
  disk.remember(record);
  CHECK(us(disk) == 4);
}

TEST_CASE("a shipped line that cannot be understood counts as absent") {
  test::KeepingLog log;
  const std::string lines =
      tuner::beginning_of_line(tune_key()) + "\"exact\":3}\nno JSON\n" + line(tune_key(4096));
  const RecordStore store(std::nullopt, {}, log.log(), nullptr, lines);
  CHECK_FALSE(store.find_exact(tune_key()));
  CHECK(store.find_exact(tune_key(4096)));
  CHECK(store.list_shipped().size() == 1);
}

TEST_CASE("every line of configs/records is a record, and is found by its key") {
  std::string_view lines = tuner::embedded_records();
  test::KeepingLog log;
  const RecordStore store(std::nullopt, {}, log.log(), nullptr, lines);
  std::size_t count = 0;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view text = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    CAPTURE(std::string(text));
    ++count;
    const tuner::AnyRecord record = tuner::record_from_json(text);
    std::visit([&](const auto& each) { CHECK(store.find_exact(each.key)); }, record);
  }
  CHECK(store.list_shipped().size() == count);
}

TEST_CASE("no record of configs/records speaks of a configuration 0 that is another one by now") {
  test::KeepingLog log;
  const RecordStore store(std::nullopt, {}, log.log(), nullptr, tuner::embedded_records());
  for (const tuner::AnyRecord& record : store.list_shipped()) {
    std::visit(
        [](const auto& each) {
          CAPTURE(each.exact);
          CAPTURE(each.verdict);
          CHECK_FALSE(contradicts_config_zero(each));
        },
        record);
  }
}
