// attnjit run --on cpu, as its users start it. Needs a host compiler, no GPU and no NVRTC.
#include <csignal>

#include "cli/work/cpu_run.hpp"
#include "command_line.hpp"

namespace attnjit::test {
namespace {

// Seconds on the CPU, most of them the host compiler's.
std::vector<std::string> cpu_run(std::vector<std::string> more) {
  std::vector<std::string> line = {"run",        "--on", "cpu",        "--heads-q", "2",
                                   "--seqlen-q", "50",   "--head-dim", "32"};
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

#ifdef ATTNJIT_HAS_EXECUTOR

TEST_CASE("run --on cpu judges a problem and keeps its kernels on disk") {
  const CommandLine attnjit;
  // Neither NVRTC nor a directory of TMPDIR is needed.
  const CommandLine::Variables no_nvrtc = {{"ATTNJIT_NVRTC", "/nonexistent"},
                                           {"TMPDIR", "/nonexistent"}};
  const Outcome cold = attnjit(cpu_run({"--mask", "b1qk", "--json", "-v"}), no_nvrtc);
  CAPTURE(cold.err);
  CHECK(cold.code == 0);
  CHECK(cold.json().at("device") == "CPU executor (kernels of sm_90a)");
  const auto result = cold.json().at("results").at(0);
  CHECK(result.at("pass") == true);
  CHECK(result.at("rows") == 50);
  CHECK(result.at("seconds") > 0);
  CHECK_FALSE(result.contains("rough_ms"));
  CHECK(holds(cold.err, "2 kernels compiled for the CPU, 0 read from the cache"));

  const Outcome warm = attnjit(cpu_run({"--mask", "b1qk", "-v"}), no_nvrtc);
  CHECK(warm.code == 0);
  CHECK(holds(warm.out, "PASS"));
  CHECK(holds(warm.err, "0 kernels compiled for the CPU, 2 read from the cache"));

  const auto kernels = attnjit({"cache", "ls", "--json"}).json().at("entries");
  REQUIRE(kernels.size() == 2);
  for (const auto& kernel : kernels) {
    CHECK(kernel.at("arch") == "host");
    CHECK(attnjit({"cache", "show", kernel.at("key")}).code == 0);
  }
  CHECK(attnjit({"cache", "verify"}).code == 0);
  CHECK(holds(attnjit({"cache", "clear"}).out, "2 kernels removed"));
}

TEST_CASE("run --on cpu judges every gradient of a backward") {
  const CommandLine attnjit;
  const std::vector<std::string> backward = {"--backward", "--bias",  "1hqk",
                                             "--dbias",    "--batch", "2"};
  const Outcome outcome = attnjit(cpu_run(backward));
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  for (const char* part : {"PASS", "dq ", "dk ", "dv ", "dbias ", "planes 4/4"}) {
    CAPTURE(part);
    CHECK(holds(outcome.out, part));
  }
  std::vector<std::string> kernel = backward;
  kernel.insert(kernel.end(),
                {"--config", R"({"dkv": {"path": "mma"}, "dbias_method": "kernel"})", "--json"});
  const auto result = attnjit(cpu_run(kernel)).json().at("results").at(0);
  CHECK(result.at("pass") == true);
  CHECK(result.at("planes") == 4);
  CHECK(result.at("max_errors").at("dbias") > 0);
}

TEST_CASE("run --on auto takes the CPU where there is no GPU, and says so") {
  const CommandLine attnjit;
  std::vector<std::string> line = cpu_run({"--arch", "sm_80"});
  line[2] = "auto";
  const Outcome outcome = attnjit(line);
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.out, "device  CPU executor (kernels of sm_80)"));
  CHECK(holds(outcome.err, "there is no GPU that can be used"));
}

TEST_CASE("run --on cpu takes a configuration, one architecture and no more") {
  const CommandLine attnjit;
  CHECK(
      attnjit(cpu_run({"--config", R"({"path": "mma", "block_kv": 32, "num_stages": 2})"})).code ==
      0);
  const Outcome foreign = attnjit(cpu_run({"--config", "{\"head_dim\": 64}"}));
  CHECK(foreign.code == 2);
  CHECK(holds(foreign.err, "--config: unknown member \"head_dim\"; expected one of path, "));
  CHECK(attnjit(cpu_run({"--arch", "sm_80,sm_90a"})).code == 2);
  const Outcome timed = attnjit(cpu_run({"--time"}));
  CHECK(timed.code == 2);
  CHECK(holds(timed.err, "--time: the seconds of --on cpu say nothing of a GPU"));
  const Outcome path = attnjit(cpu_run({"--path", "fast"}));
  CHECK(path.code == 2);
  CHECK(holds(path.err, "--path: 'fast'"));
}

TEST_CASE("exit 4: run --on cpu finds a kernel that breaks a rule") {
  const CommandLine attnjit;
  CommandLine::Variables variables;
  variables["ATTNJIT_TEMPLATE_DIR"] = attnjit.changed_templates(
      "forward/mma/kernel.cuh", "block.num_rows - block.first_row);", "1 << 20);");
  const Outcome outcome = attnjit(cpu_run({"--path", "mma", "--jobs", "1", "--json"}), variables);
  CHECK(outcome.code == 4);
  const auto result = outcome.json().at("results").at(0);
  CHECK(result.at("pass") == false);
  CHECK(result.at("max_errors").empty());
  const std::string text = result.at("text");
  CAPTURE(text);
  // Block 0 wrote past the last row of its head.
  CHECK(holds(text, "attn_fwd, block 1, thread "));
  CHECK(holds(text, "store_global: writes byte "));
  CHECK(holds(text, "of out [1, 2, 50, 32], which this kernel has written already"));
}

TEST_CASE("run --on cpu without a compiler, or where it must not compile") {
  const CommandLine attnjit;
  const Outcome none = attnjit(cpu_run({}), {{"ATTNJIT_HOST_CXX", "/nonexistent/c++"}});
  CHECK(none.code == 6);
  CHECK(holds(none.err, "set ATTNJIT_HOST_CXX to a compiler"));
  const CommandLine::Variables forbid = {{"ATTNJIT_JIT", "forbid"}};
  const Outcome forbidden = attnjit(cpu_run({}), forbid);
  CHECK(forbidden.code == 1);
  CHECK(holds(forbidden.err, "for the CPU is not in the cache and ATTNJIT_JIT=forbid"));
  REQUIRE(attnjit(cpu_run({})).code == 0);
  CHECK(attnjit(cpu_run({}), forbid).code == 0);
}

TEST_CASE("a launcher's ignored SIGCHLD is not the command line's") {
  const CommandLine attnjit;
  const std::string compiler = attnjit.file("c++");
  write_file(compiler, "#!/bin/sh\nexec grep SigIgn /proc/$$/status\n");
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const Outcome outcome =
      attnjit({"doctor", "--json"}, {{"ATTNJIT_HOST_CXX", compiler}}, "env --ignore-signal=CHLD");
  const std::string host = outcome.json().at("CPU executor").at("host compiler");
  REQUIRE(host.starts_with("SigIgn:\t"));
  const std::uint64_t ignored = std::stoull(host.substr(8), nullptr, 16);
  CHECK((ignored >> (SIGCHLD - 1) & 1) == 0);
}

TEST_CASE("doctor names the host compiler, or says what to do") {
  const CommandLine attnjit;
  const auto found = attnjit({"doctor", "--json"}).json();
  CHECK(found.at("CPU executor").at("host compiler") != "not found");
  const Outcome missing = attnjit({"doctor"}, {{"ATTNJIT_HOST_CXX", "/nonexistent/c++"}});
  CHECK(missing.code == 0);
  CHECK(holds(missing.out, "* CPU executor: "));
  CHECK(holds(missing.out, "install g++, or set ATTNJIT_HOST_CXX"));
}

#else

TEST_CASE("exit 5: run --on cpu in a build without the executor") {
  const CommandLine attnjit;
  const Outcome outcome = attnjit(cpu_run({}));
  CHECK(outcome.code == 5);
  CHECK(holds(outcome.err, "ATTNJIT_BUILD_EXECUTOR=ON"));
  CHECK(holds(attnjit({"doctor"}).out, "not needed: this build has no CPU executor"));
}

#endif

}  // namespace
}  // namespace attnjit::test
