#include <doctest/doctest.h>

#include <string>

#include "cache/bundle_writer.hpp"
#include "tuner/record_store.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/temp_directory.hpp"
#include "unit/tuner_fixtures.hpp"

using namespace attnjit;
using attnjit::test::make_record;
using attnjit::test::tune_key;
using tuner::RecordStore;

namespace {

template <class PlanKey>
void add(cache::BundleWriter& writer, const tuner::BasicRecord<PlanKey>& record) {
  writer.add_record(RecordStore::id(record.key), record.key.device.arch, to_json(record));
}

/// A store over a bundle.
struct Shelf {
  test::TempDirectory temp;
  test::KeepingLog log;
  cache::BundlePath bundles;
  RecordStore store;

  explicit Shelf(const cache::BundleWriter& writer)
      : bundles((writer.write(temp / "b.atkb"), std::vector{temp / "b.atkb"}), log.log()),
        store(temp / "cache", temp / "lock", log.log(), &bundles) {}
};

}  // namespace

TEST_CASE("a bundle's record serves where the user's store has none") {
  const auto forward = make_record(tune_key());
  const auto backward = make_record(test::backward_tune_key());
  cache::BundleWriter writer;
  add(writer, forward);
  add(writer, backward);
  Shelf shelf(writer);
  REQUIRE(shelf.store.find_exact(tune_key()));
  CHECK(to_json(*shelf.store.find_exact(tune_key())) == to_json(forward));
  CHECK(to_json(*shelf.store.find_exact(test::backward_tune_key())) == to_json(backward));
  CHECK(shelf.store.find(tune_key(2048))->exact == false);
  CHECK_FALSE(shelf.store.find(tune_key(16384)));
  CHECK(shelf.store.list().empty());
  CHECK(shelf.store.list_bundled().size() == 2);
  CHECK_FALSE(std::filesystem::exists(shelf.temp / "cache"));

  auto own = forward;
  own.us = 42;
  shelf.store.publish(own);
  CHECK(shelf.store.find(tune_key())->record.us == 42);
  const RecordStore next(shelf.temp / "cache", shelf.temp / "lock", shelf.log.log(),
                         &shelf.bundles);
  CHECK(next.find(tune_key())->record.us == 42);
}

TEST_CASE("a bundle's record is used for its own key only, and if it can be understood") {
  cache::BundleWriter writer;
  writer.add_record(RecordStore::id(tune_key()), "sm_90a", to_json(make_record(tune_key(64))));
  writer.add_record(RecordStore::id(tune_key(64)), "sm_90a", "{\"us\": 1}");
  Shelf shelf(writer);
  CHECK_FALSE(shelf.store.find_exact(tune_key()));
  CHECK_FALSE(shelf.store.find_exact(tune_key(64)));
  CHECK(shelf.store.list_bundled().size() == 1);
}
