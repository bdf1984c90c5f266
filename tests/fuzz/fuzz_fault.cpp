// Faulty configurations.
#include "fuzz_target.hpp"
#include "tuner/fault_store.hpp"

using namespace attnjit;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_error_or_value([&] {
    const tuner::Fault fault = tuner::fault_from_json(fuzz::text(data, size));
    const std::string line = to_json(fault);
    fuzz::require(to_json(tuner::fault_from_json(line)) == line, "a fault survives its text");
  });
  return 0;
}
