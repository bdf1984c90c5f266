#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "cli/input/cases.hpp"
#include "cli/input/manifest.hpp"
#include "command_line.hpp"
#include "instance/call_args.hpp"
#include "problem/plan_key.hpp"
#include "skip.hpp"
#include "tuner/config_zero.hpp"

namespace attnjit::test {
namespace {

std::vector<std::filesystem::path> shape_files() {
  std::vector<std::filesystem::path> files;
  const auto directory = std::filesystem::path(ATTNJIT_SOURCE_DIR) / "bench" / "shapes";
  for (const auto& file : std::filesystem::directory_iterator(directory)) files.push_back(file);
  REQUIRE(!files.empty());
  return files;
}

TEST_CASE("the shapes of the benchmarks are served, under names that differ") {
  for (const auto& file : shape_files()) {
    CAPTURE(file.string());
    std::set<std::string> names;
    for (const cli::Case& job : cli::load_manifest(file).cases) {
      CAPTURE(job.name);
      CHECK(names.insert(job.name).second);
      CHECK_NOTHROW(cli::is_empty(job.spec));
    }
  }
}

TEST_CASE("a mask beside a bias and its gradient has path wgmma on Hopper, in both passes") {
  const auto file = std::filesystem::path(ATTNJIT_SOURCE_DIR) / "bench" / "shapes" / "users.json";
  const codegen::Arch& hopper = codegen::find_arch("sm_90a");
  for (const cli::Case& job : cli::load_manifest(file).cases) {
    CAPTURE(job.name);
    const instance::ShapeCall call(job.spec);
    const BackwardArgs& args = call.backward();
    const auto backward = problem::plan_key(problem::make_problem(args));
    const auto forward = problem::plan_key(problem::make_problem(args.forward));
    CHECK(codegen::main_path(tuner::config_zero(backward, hopper)) == codegen::Path::kWgmma);
    CHECK(codegen::main_path(tuner::config_zero(forward, hopper)) == codegen::Path::kWgmma);
  }
}

TEST_CASE("the peers' reader of shapes finds the same problems") {
  if (std::system("python3 --version >/dev/null 2>&1") != 0) {
    ATTNJIT_SKIP("this machine has no python3");
  }
  const TempDirectory directory;
  const auto reader = std::filesystem::path(ATTNJIT_SOURCE_DIR) / "bench" / "shapes.py";
  const std::string out = (directory / "names").string();
  for (const auto& file : shape_files()) {
    CAPTURE(file.string());
    const std::string command = fmt::format("python3 -B {} {} >{}", quoted(reader.string()),
                                            quoted(file.string()), quoted(out));
    REQUIRE(std::system(command.c_str()) == 0);
    std::string names;
    for (const cli::Case& job : cli::load_manifest(file).cases) names += job.name + "\n";
    CHECK(read_file(out) == names);
  }
}

}  // namespace
}  // namespace attnjit::test
