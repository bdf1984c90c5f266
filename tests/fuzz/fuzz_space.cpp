// Search spaces, of both passes.
#include "fuzz_target.hpp"
#include "plan_keys.hpp"
#include "tuner/space.hpp"

using namespace attnjit;

namespace {

template <class PlanKey>
void read_space(std::string_view text, const PlanKey& key) {
  fuzz::expect_error_or_value([&] {
    const tuner::BasicSearchSpace<PlanKey> space(text);
    for (const char* arch : {"sm_80", "sm_90a"}) space.candidates(key, codegen::find_arch(arch));
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_space(fuzz::text(data, size), fuzz::forward_key());
  read_space(fuzz::text(data, size), fuzz::backward_key());
  return 0;
}
