// The JSON of --config, for both passes.
#include "base/fields_json.hpp"
#include "fuzz_target.hpp"
#include "plan_keys.hpp"
#include "tuner/config_zero.hpp"
#include "tuner/tuned.hpp"

using namespace attnjit;

namespace {

template <class PlanKey>
void read_config(const base::Json& json, const PlanKey& key) {
  using Tunables = tuner::TunablesFor<PlanKey>;
  fuzz::expect_error_or_value([&] {
    const auto patch = base::parse_patch<Tunables>(json, "--config");
    for (const char* name : {"sm_80", "sm_90a"}) {
      const codegen::Arch& arch = codegen::find_arch(name);
      const auto config = base::patched(tuner::config_zero(key, arch), patch);
      if (!codegen::why_unfit(config, key.family, arch)) codegen::describe_tile(config);
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = base::try_parse_json(fuzz::text(data, size), base::JsonComments::kAllowed);
  read_config(json, fuzz::forward_key());
  read_config(json, fuzz::backward_key());
  return 0;
}
