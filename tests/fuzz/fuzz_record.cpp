// Tuning records.
#include "fuzz_target.hpp"
#include "tuner/record_store.hpp"

using namespace attnjit;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_error_or_value([&] {
    const tuner::AnyRecord record = tuner::record_from_json(fuzz::text(data, size));
    const std::string line = to_json(record);
    fuzz::require(to_json(tuner::record_from_json(line)) == line, "a record survives its text");
    std::visit([](const auto& each) { tuner::RecordStore::place(each.key); }, record);
  });
  return 0;
}
