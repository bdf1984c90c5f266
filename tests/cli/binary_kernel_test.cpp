#include <algorithm>
#include <chrono>
#include <sstream>
#include <string_view>

#include "base/json.hpp"
#include "cache/store.hpp"
#include "command_line.hpp"
#include "skip.hpp"

namespace attnjit::test {
namespace {

std::string last_line(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// Problems with every feature of a kernel, small enough to compile quickly.
std::vector<std::vector<std::string>> feature_problems() {
  return {{},
          {"--causal", "bottom-right", "--heads-kv", "1"},
          {"--window", "15,3", "--diagonal", "top-left", "--seqlens"},
          {"--mask", "b11k", "--bias", "1hqk", "--bias-dtype", "fp32"},
          {"--mask", "bhqk", "--dtype", "fp16", "--head-dim-v", "24"}};
}

TEST_CASE("plan tells steps, grid, workspace, key and the origin of the configuration") {
  const CommandLine attnjit;
  auto line = small_problem({"plan", "--json", "--batch", "3", "--mask", "b1qk"});
  const auto plan = attnjit(line).json().at("plans").at(0);
  CHECK(plan.at("arch") == "sm_80");
  CHECK(plan.at("config_from") == "configuration 0");
  CHECK(plan.at("workspace_bytes") > 0);
  REQUIRE(plan.at("steps").size() == 3);
  CHECK(plan.at("steps")[0].at("entry") == "mask_to_bits");
  const auto& step = plan.at("steps")[1];
  CHECK(step.at("entry") == "attn_fwd");
  // Planes of 64 rows and keys are a tile each.
  CHECK(plan.at("config").at("path") == "single_tile");
  CHECK(step.at("threads") == 128);
  CHECK(step.at("grid") == base::Json({3 * 2, 1, 1}));
  CHECK(plan.at("steps")[2].at("entry") == "attn_fwd_combine");
  CHECK(plan.at("steps")[2].at("grid").at(0) == 0);
  CHECK(plan.at("steps")[2].at("runs") == false);
  CHECK(step.at("runs") == true);
  CHECK(step.at("key").get<std::string>().size() == 64);
  CHECK(step.at("cached") == false);
}

TEST_CASE("plan tells what is derived from expressions") {
  const CommandLine attnjit;
  const auto lines = [&](std::vector<std::string> said) {
    said.insert(said.begin(), {"plan", "--json", "--arch", "sm_90a", "--seqlen-q", "4096"});
    return attnjit(said).json().at("plans").at(0).at("expressions");
  };
  CHECK(lines({"--batch", "2"}) == base::Json::array());
  CHECK(lines({"--keep", "doc[b, i] == doc[b, j] && j <= i", "--operand", "doc=int32:b,k"}) ==
        base::Json({"keep: empty tiles are skipped, full ones not masked, by ranges of doc; rows "
                    "are shared out as causal ones"}));
  CHECK(
      lines({"--keep", "gate[b, i, j] > 0.0 && pad[j]", "--operand", "gate=fp32:b,q,k", "--operand",
             "pad=bool:k", "--score", "s + rel[j - i + 9]", "--operand", "rel=fp32:20"}) ==
      base::Json({"keep: empty tiles are skipped, full ones not masked, by ranges of pad; has "
                  "keys that no row reads",
                  "score: adds to s, so that its gradient is that of s"}));
  CHECK(lines({"--keep", "gate[i, j] > 0.0", "--operand", "gate=fp32:q,k", "--score",
               "50.0 * tanh(s / 50.0)", "--backward"}) ==
        base::Json({"keep: every tile is masked", "score: a softcap of 50"}));
  CHECK(lines({"--heads-q", "2", "--score", "s * gate + rel[h, j - i] + far[i + j]", "--operand",
               "gate=fp32", "--operand", "rel=fp32:h,9", "--operand", "far=fp32:99", "--backward",
               "--grad", "gate", "--grad", "rel", "--grad", "far"}) ==
        base::Json({"score: changes s, so that the backward multiplies by slopes",
                    "gradient of gate: scale, deterministic where dq is, 32768 bytes",
                    "gradient of rel: diagonals, deterministic, 260096 bytes",
                    "gradient of far: atomics, not deterministic, 396 bytes"}));
}

// The rows of bench/shapes/windows.json of 12 by 12 windows.
TEST_CASE("plan names single_tile for longer windows, with a tile of their length") {
  const CommandLine attnjit;
  const std::vector<std::string> windows = {
      "plan",       "--json", "--batch", "512",  "--heads-q", "8",      "--seqlen-q", "144",
      "--head-dim", "32",     "--bias",  "1hqk", "--arch",    "sm_90a", "sm_86"};
  const auto forward = attnjit(windows).json().at("plans");
  for (const auto& plan : forward) {
    CHECK(plan.at("config").at("path") == "single_tile");
    CHECK(plan.at("config").at("block_q") == 144);
    CHECK(plan.at("config").at("block_kv") == 160);
  }
  std::vector<std::string> backward = windows;
  backward.insert(backward.end(), {"--backward", "--dbias"});
  const auto plans = attnjit(backward).json().at("plans");
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].at("config").at("dkv").at("path") == "single_tile");
  CHECK(plans[0].at("config").at("dbias_method") == "per_block");
  // Its shared memory holds no such plane.
  CHECK(plans[1].at("config").at("dkv").at("path") == "mma");
}

// Triangle attention, of a length that no bucket has.
TEST_CASE("plan names shared_bias for triangles, with strips that hold their length") {
  const CommandLine attnjit;
  const auto plans = attnjit({"plan",   "--json",     "--batch",      "371",        "--heads-q",
                              "4",      "--seqlen-q", "371",          "--head-dim", "32",
                              "--bias", "1hqk",       "--bias-dtype", "fp32",       "--mask",
                              "b11k",   "--backward", "--dbias",      "--arch",     "sm_90a"})
                         .json()
                         .at("plans");
  REQUIRE(plans.size() == 1);
  const auto& config = plans[0].at("config");
  CHECK(config.at("dkv").at("path") == "shared_bias");
  CHECK(config.at("dkv").at("block_q") == 384);
  CHECK(config.at("dq").at("path") == "shared_bias");
  CHECK(config.at("dq").at("block_kv") == 384);
  CHECK(config.at("dbias_method") == "per_block");
}

TEST_CASE("plan names shared_bias for a triangle's forward") {
  const CommandLine attnjit;
  const auto plans = attnjit({"plan", "--json", "--batch", "371", "--heads-q", "4", "--seqlen-q",
                              "371", "--head-dim", "32", "--bias", "1hqk", "--bias-dtype", "fp32",
                              "--mask", "b11k", "--arch", "sm_90a"})
                         .json()
                         .at("plans");
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].at("config").at("path") == "shared_bias");
  CHECK(plans[0].at("config").at("block_kv") == 384);
}

TEST_CASE("plan says which steps a problem skips") {
  const CommandLine attnjit;
  const auto steps = [&](const char* keys) {
    return attnjit({"plan", "--arch", "sm_80", "--seqlen-q", "1", "--seqlen-kv", keys}).out;
  };
  const std::string few = steps("64");  // a tile or two: nothing to split
  const std::size_t combine = few.find("attn_fwd_combine");
  REQUIRE(combine != std::string::npos);
  CHECK(few.find("skipped: nothing to do for this problem") > combine);
  CHECK_FALSE(holds(few, "grid 0"));
  CHECK_FALSE(holds(steps("65536"), "skipped"));
}

TEST_CASE("plan takes a configuration and says so") {
  const CommandLine attnjit;
  const auto line = small_problem(
      {"plan", "--json", "--config", R"({"path": "mma", "block_q": 32, "num_warps": 2})"});
  const auto plan = attnjit(line).json().at("plans").at(0);
  CHECK(plan.at("config_from") == "--config");
  CHECK(plan.at("config").at("block_q") == 32);
  CHECK(plan.at("steps")[0].at("threads") == 64);
}

TEST_CASE("plan knows what the cache holds") {
  const CommandLine attnjit;
  CHECK(holds(attnjit(small_problem({"plan"})).out, "not compiled yet"));
  REQUIRE(attnjit(small_problem({"emit", "--format", "facts"})).code == 0);
  CHECK(holds(attnjit(small_problem({"plan"})).out, " (compiled)\n"));
}

TEST_CASE("a second pass over a manifest compiles nothing") {
  const CommandLine attnjit;
  // The last two need the same kernels, and all add up splits in the same way.
  write_file(attnjit.file("m.json"), R"({"schema": 1, "archs": ["sm_80"], "problems": [
      {"name": "masked", "heads": 2, "head_dim": 32, "seqlens": 64, "mask": "b11k"},
      {"name": "plain", "heads": 2, "head_dim": 32, "seqlens": [[64, 64], [50, 64]]}]})");
  const Outcome first = attnjit({"emit", "--manifest", attnjit.file("m.json"), "--jobs", "2"});
  CAPTURE(first.err);
  CHECK(first.code == 0);
  CHECK(last_line(first.out) == "4 kernels: 4 compiled, 0 from cache, 0 failed");
  CHECK(holds(first.out, "same kernel"));
  std::istringstream lines(first.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 140);

  const Outcome second = attnjit({"emit", "--manifest", attnjit.file("m.json")});
  CHECK(last_line(second.out) == "4 kernels: 0 compiled, 4 from cache, 0 failed");
  // A manifest's kernels that are in the cache need no compiler.
  const Outcome third = attnjit({"emit", "--json", "--manifest", attnjit.file("m.json")},
                                {{"ATTNJIT_NVRTC", "/nonexistent"}});
  CHECK(third.code == 0);
  const auto object = third.json();
  CHECK(object.at("cached") == 4);
  CHECK(object.at("kernels").at(0).at("facts").at("registers") > 0);
  CHECK(object.at("kernels").at(2).at("problems").size() == 3);
}

TEST_CASE("emitted source compiles with nvcc as it is") {
  if (std::string_view(ATTNJIT_NVCC).empty()) ATTNJIT_SKIP("this machine has no nvcc");
  const CommandLine attnjit;
  for (const auto& flags : feature_problems()) {
    auto line = small_problem({"emit", "-o", attnjit.file("kernel.cu")});
    line.insert(line.end(), flags.begin(), flags.end());
    REQUIRE(attnjit(line).code == 0);
    const std::string command = std::string(ATTNJIT_NVCC) + " -std=c++20 -arch=sm_80 -cubin -o " +
                                quoted(attnjit.file("kernel.cubin")) + " " +
                                quoted(attnjit.file("kernel.cu"));
    CAPTURE(command);
    CHECK(std::system(command.c_str()) == 0);
    CHECK(read_file(attnjit.file("kernel.cubin")).substr(0, 4) ==
          "\x7f"
          "ELF");
  }
}

TEST_CASE("emit writes each form of a kernel") {
  const CommandLine attnjit;
  const auto form = [&](const char* format) {
    const Outcome outcome = attnjit(small_problem({"emit", "--format", format}));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  CHECK(holds(form("cuda"), "extern \"C\" __global__"));
  CHECK_FALSE(holds(form("cuda"), "#include \"attnjit/"));
  CHECK(holds(form("stub"), "#include \"attnjit/forward/mma/single_tile.cuh\""));
  CHECK(holds(form("ptx"), ".entry attn_fwd"));
  CHECK(form("cubin").substr(0, 4) ==
        "\x7f"
        "ELF");
  CHECK(holds(form("facts"), "regs"));
  CHECK(attnjit(small_problem({"emit", "--format", "cubin", "--json"})).code == 2);
  const Outcome json = attnjit(small_problem({"emit", "--json", "--format", "stub"}));
  CHECK(json.json().at("text") == form("stub"));
}

TEST_CASE("emit --step picks a kernel by number or name") {
  const CommandLine attnjit;
  const auto stub = [&](const char* step) {
    return attnjit(small_problem({"emit", "--format", "stub", "--mask", "b11k", "--step", step}))
        .out;
  };
  CHECK(holds(stub("1"), "MaskToBitsConfig"));
  CHECK(stub("1") == stub("mask_to_bits"));
  CHECK(stub("2") == stub("attn_fwd"));
  CHECK(stub("2") == attnjit(small_problem({"emit", "--format", "stub", "--mask", "b11k"})).out);
}

TEST_CASE("plan, emit and warmup take backwards") {
  const CommandLine attnjit;
  const std::vector<std::string> flags = {"--backward", "--bias",  "11qk",
                                          "--dbias",    "--dtype", "fp16"};
  const auto backward = [&](std::vector<std::string> line) {
    line = small_problem(std::move(line));
    line.insert(line.end(), flags.begin(), flags.end());
    return attnjit(line);
  };
  const auto plan = backward({"plan", "--json"}).json().at("plans").at(0);
  CHECK(plan.at("config").at("dbias_method") == "per_block");
  REQUIRE(plan.at("steps").size() == 2);
  CHECK(plan.at("steps")[0].at("grid").at(0) > 0);
  CHECK(holds(backward({"emit", "--format", "stub"}).out, "attn_bwd_dkv("));
  CHECK(holds(backward({"emit", "--format", "stub", "--step", "bias_sum"}).out, "BiasSumConfig"));
  const Outcome warm = backward({"warmup", "--jobs", "2"});
  CAPTURE(warm.err);
  CHECK(warm.code == 0);
  CHECK(last_line(warm.out) == "2 kernels: 2 compiled, 0 from cache, 0 failed");
  CHECK(backward({"warmup", "--check"}).code == 0);
}

TEST_CASE("the cache can be listed, shown, verified and cleared") {
  const CommandLine attnjit;
  CHECK(attnjit({"cache", "path"}).out == attnjit.cache().string() + "\n");
  CHECK(attnjit({"cache", "ls", "--json"}).json().at("entries").empty());
  REQUIRE(attnjit(small_problem({"emit", "--format", "facts"})).code == 0);

  const auto entries = attnjit({"cache", "ls", "--json"}).json().at("entries");
  REQUIRE(entries.size() == 2);
  const std::string key = entries[0].at("key");
  CHECK(holds(attnjit({"cache", "ls"}).out, key.substr(0, 12)));
  CHECK(holds(attnjit({"cache", "ls"}).out, "attn_fwd"));
  const auto shown = attnjit({"cache", "show", key.substr(0, 6)});
  CHECK(shown.code == 0);
  CHECK(shown.json().at("meta").at("facts").at("registers") > 0);
  CHECK(attnjit({"cache", "show", "zz"}).code == 4);
  CHECK(attnjit({"cache", "verify"}).code == 0);

  CHECK(attnjit({"cache", "clear", "--json"}).json().at("removed") == 2);
  CHECK(attnjit({"cache", "clear"}).out == "0 kernels removed\n");
}

TEST_CASE("metadata of other types fails neither warmup nor the list of kernels") {
  const CommandLine attnjit;
  REQUIRE(attnjit(small_problem({"warmup"})).code == 0);
  base::Log log;
  cache::Store store(attnjit.cache(), log);
  std::vector<std::string> metas = {R"({"title":7,"facts":{"registers":"many"}})",
                                    R"({"title":"fine","facts":[]})"};
  for (const cache::StoredFile& file : store.list()) {
    cache::Entry entry = std::get<cache::Entry>(store.read(file));
    entry.meta_json = metas.back();
    metas.pop_back();
    store.replace(entry);
  }
  REQUIRE(metas.empty());
  CHECK(attnjit(small_problem({"warmup"})).code == 0);
  CHECK(attnjit(small_problem({"warmup", "--check", "--json"})).json().at("cached") == 2);
  const Outcome listed = attnjit({"cache", "ls"});
  CHECK(listed.code == 0);
  CHECK(holds(listed.out, "no title: its metadata is not readable"));
  CHECK(holds(listed.out, "fine"));
}

TEST_CASE("the cache tells its size, and gc keeps it below the limit") {
  const CommandLine attnjit;
  REQUIRE(attnjit(small_problem({"emit", "--format", "facts"})).code == 0);
  const auto stat = attnjit({"cache", "stat", "--json"}).json();
  CHECK(stat.at("kernels") == 2);
  CHECK(stat.at("bytes") > 10000);
  CHECK(stat.at("max_bytes") == std::uint64_t{2} << 30);
  CHECK(stat.at("max_kernels") == 50000);
  for (const auto& item : std::filesystem::recursive_directory_iterator(attnjit.cache())) {
    if (item.path().extension() != ".atk") continue;
    std::filesystem::last_write_time(item.path(), item.last_write_time() - std::chrono::hours(2));
  }
  write_file(attnjit.cache() / "v1/tmp/elsewhere.1.0123456789abcdef.tmp", "");
  std::filesystem::last_write_time(
      attnjit.cache() / "v1/tmp/elsewhere.1.0123456789abcdef.tmp",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  CHECK(attnjit({"cache", "verify"}).code == 4);
  CHECK(attnjit({"cache", "gc", "--json"}).json().at("unfinished_removed") == 1);
  CHECK(attnjit({"cache", "verify"}).code == 0);
  const auto small = attnjit({"cache", "gc", "--json"}, {{"ATTNJIT_CACHE_MAX_BYTES", "1"}}).json();
  CHECK(small.at("removed") == 2);
  CHECK(small.at("kernels") == 0);
  CHECK(attnjit({"cache", "gc"}, {{"ATTNJIT_CACHE_DIR", "0"}}).code == 1);
  CHECK(attnjit({"cache", "stat", "--json"}, {{"ATTNJIT_CACHE_DIR", "0"}}).json().at("kernels") ==
        0);
}

TEST_CASE("a damaged kernel fails verification and is compiled again") {
  const CommandLine attnjit;
  REQUIRE(attnjit(small_problem({"emit", "--format", "cubin"})).code == 0);
  std::string bytes = read_file(attnjit.entry());
  bytes[bytes.size() / 2] ^= 1;
  write_file(attnjit.entry(), bytes);
  const Outcome verdict = attnjit({"cache", "verify"});
  CHECK(verdict.code == 4);
  CHECK(holds(verdict.out, attnjit.entry().string()));
  CHECK(attnjit({"cache", "verify", "--json"}).json().at("bad").size() == 1);
  CHECK(attnjit({"cache", "show", ""}).code == 4);

  const Outcome again = attnjit(small_problem({"emit", "--format", "facts"}));
  CHECK(again.code == 0);
  CHECK(holds(again.err, "warning"));
  CHECK(last_line(again.out) == "2 kernels: 2 compiled, 0 from cache, 0 failed");
  CHECK(attnjit({"cache", "verify"}).code == 0);
}

TEST_CASE("a cache directory that cannot be written costs a warning, not the kernel") {
  const CommandLine attnjit;
  write_file(attnjit.file("plain"), "a file, so nothing can be created below it");
  const CommandLine::Variables blocked = {{"ATTNJIT_CACHE_DIR", attnjit.file("plain") + "/cache"}};
  const Outcome outcome = attnjit(small_problem({"emit", "--format", "facts"}), blocked);
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.err, "warning: cannot write to the cache"));
  CHECK(last_line(outcome.out) == "2 kernels: 2 compiled, 0 from cache, 0 failed, 2 not kept");
  CHECK(attnjit(small_problem({"emit", "--format", "facts", "-q"}), blocked).err.empty());
}

TEST_CASE("a kernel that may not be compiled is an error") {
  const CommandLine attnjit;
  const CommandLine::Variables forbid = {{"ATTNJIT_JIT", "forbid"}};
  const Outcome refused = attnjit(small_problem({"emit", "--format", "cubin"}), forbid);
  CHECK(refused.code == 1);
  // The line that it ends with is a manifest.
  write_file(attnjit.file("m.jsonl"), refused.err.substr(refused.err.find(": {") + 2));
  const Outcome warm =
      attnjit({"warmup", "--manifest", attnjit.file("m.jsonl"), "--arch", "sm_80", "--json"});
  CHECK(warm.code == 0);
  CHECK(warm.json().at("counters").at("compiles") == 2);
  CHECK(warm.json().at("counters").at("bundle_hits") == 0);
  CHECK(attnjit(small_problem({"emit", "--format", "cubin"}), forbid).code == 0);
}

TEST_CASE("output that cannot be written is an error") {
  const CommandLine attnjit;
  CHECK(attnjit(small_problem({"emit", "-o", "/nonexistent/kernel.cu"})).code == 1);
}

}  // namespace
}  // namespace attnjit::test
