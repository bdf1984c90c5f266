#include "tuner/stale.hpp"

#include <doctest/doctest.h>

#include "unit/tuner_fixtures.hpp"

using namespace attnjit;

namespace {

template <class PlanKey>
void check_staleness(const tuner::BasicTuneKey<PlanKey>& key) {
  const codegen::Arch& arch = codegen::find_arch(key.device.arch);
  const auto zero = tuner::config_zero(key.plan, arch);
  const auto portable = tuner::config_zero(key.plan, codegen::without_wgmma(arch));
  auto record = test::make_record(key);
  const auto won = record.config;
  const auto stale = [&](const char* verdict, const tuner::TunablesFor<PlanKey>& config) {
    record.verdict = verdict;
    record.config = config;
    CHECK(contradicts_config_zero(record) == is_stale(record));
    return is_stale(record);
  };
  CHECK_FALSE(stale("gain", won));
  CHECK_FALSE(stale("no_gain", zero));
  CHECK_FALSE(stale("no_gain", portable));  // where the compiler made wgmma slow
  CHECK(stale("gain", zero));
  CHECK(stale("no_gain", won));
  record = test::make_record(key);
  record.library = "0.0.1";
  CHECK(is_stale(record));
  CHECK_FALSE(contradicts_config_zero(record));
}

}  // namespace

TEST_CASE("a record of another configuration 0 or of another library is stale") {
  check_staleness(test::tune_key());
  check_staleness(test::backward_tune_key());
}
