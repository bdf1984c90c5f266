// The command line where the compiler serialises the kernels of wgmma: templates without the fence
// that wgmma needs make it do so.
#include "command_line.hpp"

namespace attnjit::test {
namespace {

std::vector<std::string> prefill(std::vector<std::string> line) {
  for (const char* flag : {"--heads-q", "2", "--seqlen-q", "128", "--head-dim", "64"}) {
    line.emplace_back(flag);
  }
  line.insert(line.end(), {"--arch", "sm_90a"});
  return line;
}

// The tile of the attention kernel.
std::string tile(const Outcome& plan) {
  return plan.json().at("plans").at(0).at("steps").at(0).at("tile");
}

TEST_CASE("warmup compiles what takes the place of a slow wgmma, and plan and --check follow") {
  const CommandLine attnjit;
  const CommandLine::Variables set = {
      {"DISABLE_AUTOTUNE", "1"},
      {"ATTNJIT_TEMPLATE_DIR",
       attnjit.changed_templates(
           "ptx/wgmma.cuh", R"(asm volatile("wgmma.fence.sync.aligned;" ::: "memory");)", "")}};
  CHECK(tile(attnjit(prefill({"plan", "--json"}), set)).starts_with("wgmma"));

  const auto warm = attnjit(prefill({"warmup", "--json"}), set).json();
  CHECK(warm.at("compiled") == 3);  // both kernels, and the step that adds up splits
  CHECK(attnjit(prefill({"warmup", "--json"}), set).json().at("cached") == 3);

  const Outcome plan = attnjit(prefill({"plan", "--json"}), set);
  CHECK(tile(plan).starts_with("q"));
  CHECK(holds(plan.json().at("plans").at(0).at("why"),
              "path mma: wgmma q128 kv128 s2 was "
              "serialised by NVRTC "));
  CHECK_FALSE(holds(plan.out, "too many for so few"));
  CHECK(tile(attnjit(prefill({"plan", "--json", "--path", "wgmma"}), set)).starts_with("wgmma"));

  // A bundle has both, and serves without a compiler.
  const std::string bundle = attnjit.file("kernels.atkb");
  const std::string manifest = attnjit.file("m.json");
  write_file(manifest, R"({"schema": 1, "archs": ["sm_90a"], "problems": [
      {"name": "prefill", "heads": [2, 2], "head_dim": 64, "seqlens": 128}]})");
  const Outcome exported =
      attnjit({"cache", "export", bundle, "--manifest", manifest, "--json"}, set);
  CHECK(exported.code == 0);
  CHECK(exported.json().at("kernels") == 3);
  CommandLine::Variables bare = set;
  bare.insert({{"ATTNJIT_CACHE_DIR", attnjit.file("other")},
               {"ATTNJIT_BUNDLE_PATH", bundle},
               {"ATTNJIT_NVRTC", "/nonexistent"},
               {"ATTNJIT_JIT", "forbid"}});
  CHECK(attnjit(prefill({"warmup", "--check"}), bare).code == 0);
  CHECK(tile(attnjit(prefill({"plan", "--json"}), bare)).starts_with("q"));

  // Of a cache without the fallback something is missing.
  const std::string fallback = plan.json().at("plans").at(0).at("steps").at(0).at("key");
  int removed = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(attnjit.cache())) {
    const std::filesystem::path& path = item.path();
    const std::string key = path.parent_path().filename().string() + path.filename().string();
    if (key.starts_with(fallback)) removed += std::filesystem::remove(path);
  }
  CHECK(removed == 1);
  CHECK(attnjit(prefill({"warmup", "--check"}), set).code == 4);
}

}  // namespace
}  // namespace attnjit::test
