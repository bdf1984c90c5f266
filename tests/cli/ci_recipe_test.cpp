// The commands of examples/ci, as they stand in its files.
#include <sstream>

#include "command_line.hpp"

namespace attnjit::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRecipe = fs::path(ATTNJIT_SOURCE_DIR) / "examples" / "ci";

/// The commands of `file` that run a script of the recipe, in order.
std::vector<std::string> commands_of(const char* file) {
  std::vector<std::string> commands;
  std::istringstream lines(read_file(kRecipe / file));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find("./");
    const bool runs = line.starts_with("RUN ./") || line.find(" run: ./") != line.npos;
    if (runs) commands.push_back(line.substr(begin));
  }
  return commands;
}

/// A copy of the recipe's directory, in which its commands run.
struct Workplace {
  CommandLine files;
  std::string directory = files.file("ci");

  Workplace() { fs::copy(kRecipe, directory); }

  int operator()(const std::string& command) const {
    const std::string path = fs::path(ATTNJIT_BINARY).parent_path().string();
    const std::string line =
        fmt::format("cd {} && PATH={}:$PATH ATTNJIT_CACHE_DIR={} sh -c {} >{} 2>&1 </dev/null",
                    quoted(directory), quoted(path), quoted(files.cache().string()),
                    quoted(command), quoted(files.file("log")));
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_CASE("the commands of the Dockerfile and of the workflow make a bundle that covers") {
  const auto commands = commands_of("Dockerfile");
  REQUIRE(commands.size() == 2);
  CHECK(commands == commands_of("workflow.yml"));
  const Workplace run;
  for (const std::string& command : commands) {
    CAPTURE(command);
    CHECK_MESSAGE(run(command) == 0, read_file(run.files.file("log")));
  }
  // The proof fails for what the bundle lacks.
  CHECK(run("./prove-coverage models.json kernels.atkb sm_86") == 4);
  CHECK(run("./prove-coverage models.json absent.atkb sm_80") == 4);
}

}  // namespace
}  // namespace attnjit::test
