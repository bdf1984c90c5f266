// cache export and import as their users start them, on a machine without a GPU.
#include <filesystem>

#include "base/json.hpp"
#include "command_line.hpp"
#include "tuner/space.hpp"
#include "unit/tuner_fixtures.hpp"

namespace attnjit::test {
namespace {

namespace fs = std::filesystem;

// Two kernels: a forward and the step that adds up splits.
constexpr const char* kManifest = R"({"schema": 1, "archs": ["sm_80"], "problems": [
    {"name": "small", "heads": [2, 2], "head_dim": 32, "seqlens": 64}]})";
constexpr const char* kMore = R"({"schema": 1, "archs": ["sm_80"], "problems": [
    {"name": "small", "heads": [2, 2], "head_dim": 32, "seqlens": 64},
    {"name": "masked", "heads": [2, 2], "head_dim": 32, "seqlens": 64, "mask": "b11k"}]})";

/// A command line with the kernels of kManifest in its cache.
struct Warm {
  CommandLine attnjit;
  std::string manifest = attnjit.file("m.json");
  std::string bundle = attnjit.file("kernels.atkb");

  Warm() {
    write_file(manifest, kManifest);
    REQUIRE(attnjit({"warmup", "--manifest", manifest, "--jobs", "2"}).code == 0);
  }
  void write() const { REQUIRE(attnjit({"cache", "export", bundle}).code == 0); }
  CommandLine::Variables other_cache() const {
    return {{"ATTNJIT_CACHE_DIR", attnjit.file("other")}};
  }
};

// A record of another problem than kManifest's, for a device of another architecture.
std::string record_line() {
  tuner::TuneKey key = tune_key();
  key.space = tuner::SearchSpace().name();
  return to_json(make_record(key)) + "\n";
}

TEST_CASE("an exported bundle serves in place of a cache and a compiler") {
  const Warm warm;
  const Outcome written = warm.attnjit({"cache", "export", warm.bundle, "--json"});
  CHECK(written.code == 0);
  CHECK(written.json().at("kernels") == 2);
  CHECK(written.json().at("bytes") == fs::file_size(warm.bundle));

  const CommandLine::Variables bare = {{"ATTNJIT_CACHE_DIR", "0"},
                                       {"ATTNJIT_BUNDLE_PATH", warm.bundle},
                                       {"ATTNJIT_NVRTC", "/nonexistent"},
                                       {"ATTNJIT_JIT", "forbid"}};
  const Outcome check =
      warm.attnjit({"warmup", "--json", "--manifest", warm.manifest, "--check"}, bare);
  CHECK(check.code == 0);
  CHECK(check.json().at("bundled") == 2);
  CHECK(check.json().at("kernels").at(0).at("from") == "bundle");
  CommandLine::Variables unused = bare;
  unused["ATTNJIT_CACHE_DIR"] = warm.attnjit.file("other");
  const Outcome found = warm.attnjit({"warmup", "--manifest", warm.manifest}, unused);
  CHECK(found.code == 0);
  CHECK(holds(found.out, "2 kernels: 0 compiled, 0 from cache, 0 failed, 2 from bundles"));
  CHECK_FALSE(fs::exists(warm.attnjit.file("other")));
  CHECK(holds(warm.attnjit({"plan", "--manifest", warm.manifest}, bare).out, " (compiled)\n"));
  const auto bundles = warm.attnjit({"cache", "ls", "--json"}, bare).json().at("bundles");
  REQUIRE(bundles.size() == 1);
  CHECK(bundles[0].at("kernels") == 2);
  CHECK(warm.attnjit({"cache", "stat", "--json"}, bare).json().at("bundles") == bundles);
  CHECK(holds(warm.attnjit({"doctor"}, bare).out, warm.bundle + ": 2 kernels"));

  write_file(warm.manifest, kMore);
  CHECK(warm.attnjit({"warmup", "--manifest", warm.manifest, "--check"}, bare).code == 4);
}

TEST_CASE("what ATTNJIT_BUNDLE_PATH names and cannot be used is a warning and an advice") {
  const CommandLine attnjit;
  write_file(attnjit.file("text.atkb"), "no bundle");
  const CommandLine::Variables set = {
      {"ATTNJIT_BUNDLE_PATH", attnjit.file("absent.atkb") + ":" + attnjit.file("text.atkb")}};
  const Outcome outcome = attnjit({"doctor", "--json"}, set);
  CHECK(outcome.code == 0);
  for (const char* const name : {"absent.atkb", "text.atkb"}) {
    CHECK(holds(outcome.err, attnjit.file(name) + " is not used"));
    CHECK(holds(outcome.json().at("what_to_do").dump(), attnjit.file(name)));
  }
  CHECK(attnjit(small_problem({"plan"}), set).code == 0);
}

TEST_CASE("two machines export the same bytes") {
  const Warm first, second;
  for (const Warm* each : {&first, &second}) {
    write_file(each->attnjit.file("records.jsonl"), record_line());
    REQUIRE(each->attnjit({"records", "import", each->attnjit.file("records.jsonl")}).code == 0);
    each->write();
  }
  CHECK(read_file(first.bundle) == read_file(second.bundle));
}

TEST_CASE("export takes what a manifest or an architecture needs, and says what is missing") {
  const Warm warm;
  REQUIRE(warm.attnjit({"warmup", "--head-dim", "16", "--arch", "sm_90a"}).code == 0);
  const auto kernels = [&](std::vector<std::string> line) {
    line.insert(line.begin(), {"cache", "export", warm.bundle, "--json"});
    return warm.attnjit(line).json().value("kernels", base::Json()).get<int>();
  };
  CHECK(kernels({}) == 4);
  CHECK(kernels({"--arch", "sm_90a"}) == 2);
  CHECK(kernels({"--arch", "sm_90a", "--arch", "sm_80"}) == 4);
  CHECK(kernels({"--manifest", warm.manifest}) == 2);

  const std::string before = read_file(warm.bundle);
  write_file(warm.manifest, kMore);
  const Outcome missing =
      warm.attnjit({"cache", "export", warm.bundle, "--manifest", warm.manifest});
  CHECK(missing.code == 4);
  CHECK(holds(missing.err, "masked on sm_80"));
  CHECK(read_file(warm.bundle) == before);
  CHECK(warm.attnjit({"cache", "export", warm.bundle, "--arch", "sm_86"}).code == 1);
  CHECK(warm.attnjit({"cache", "export", warm.bundle, "--arch", "sm_1"}).code == 5);
  CHECK(warm.attnjit({"cache", "export", "/nonexistent/x.atkb"}).code == 1);
  CHECK(read_file(warm.bundle) == before);
}

TEST_CASE("a damaged kernel is left out of an export, which says so") {
  const Warm warm;
  for (const auto& item : fs::recursive_directory_iterator(warm.attnjit.cache())) {
    if (item.path().extension() != ".atk") continue;
    write_file(item.path(), "torn");
    break;
  }
  const Outcome outcome = warm.attnjit({"cache", "export", warm.bundle, "--json"});
  CHECK(outcome.code == 3);
  CHECK(outcome.json().at("kernels") == 1);
  CHECK(outcome.json().at("unusable").size() == 1);
}

TEST_CASE("import puts kernels and records into the cache, once") {
  const Warm warm;
  write_file(warm.attnjit.file("records.jsonl"), record_line());
  REQUIRE(warm.attnjit({"records", "import", warm.attnjit.file("records.jsonl")}).code == 0);
  warm.write();
  const auto import = [&] {
    const Outcome outcome =
        warm.attnjit({"cache", "import", warm.bundle, "--json"}, warm.other_cache());
    CHECK(outcome.code == 0);
    return outcome.json();
  };
  const auto first = import();
  CHECK(first.at("kernels").at("added") == 2);
  CHECK(first.at("records").at("added") == 1);
  const auto again = import();
  CHECK(again.at("kernels").at("kept") == 2);
  CHECK(again.at("records").at("kept") == 1);
  CHECK(warm.attnjit({"cache", "verify"}, warm.other_cache()).code == 0);
  CHECK(warm.attnjit({"warmup", "--manifest", warm.manifest, "--check"}, warm.other_cache()).code ==
        0);
  CHECK(warm.attnjit({"records", "ls", "--json"}, warm.other_cache()).json().at("records").size() ==
        1);
}

TEST_CASE("a damaged bundle is not imported, not even in part") {
  const Warm warm;
  warm.write();
  std::string bytes = read_file(warm.bundle);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(warm.bundle, bytes);
  const Outcome outcome = warm.attnjit({"cache", "import", warm.bundle}, warm.other_cache());
  CHECK(outcome.code == 4);
  CHECK(holds(outcome.err, "1 of its members are damaged"));
  CHECK_FALSE(fs::exists(warm.attnjit.file("other")));
  CHECK(warm.attnjit({"cache", "import", "/nonexistent"}, warm.other_cache()).code == 4);
}

TEST_CASE("import tells by its exit code what is there: nothing, a part, all") {
  const Warm warm;
  warm.write();
  CHECK(warm.attnjit({"cache", "import", warm.bundle}, {{"ATTNJIT_CACHE_DIR", "0"}}).code == 2);
  CHECK(warm.attnjit({"cache", "export", warm.bundle}, {{"ATTNJIT_CACHE_DIR", "0"}}).code == 2);

  fs::create_directory(warm.attnjit.file("real"));
  fs::create_symlink(warm.attnjit.file("real"), warm.attnjit.file("other"));
  CHECK(warm.attnjit({"cache", "import", warm.bundle}, warm.other_cache()).code == 1);
  fs::remove(warm.attnjit.file("other"));

  // One is there already, and a file-size limit keeps the other out.
  fs::copy(warm.attnjit.cache(), warm.attnjit.file("other"), fs::copy_options::recursive);
  for (const auto& item : fs::recursive_directory_iterator(warm.attnjit.file("other"))) {
    if (item.path().extension() != ".atk") continue;
    fs::remove(item.path());
    break;
  }
  const std::string command =
      fmt::format("ulimit -f 8; env {} {} cache import {} >{} 2>&1",
                  quoted("ATTNJIT_CACHE_DIR=" + warm.attnjit.file("other")), quoted(ATTNJIT_BINARY),
                  quoted(warm.bundle), quoted(warm.attnjit.file("limited")));
  const int status = std::system(command.c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(holds(read_file(warm.attnjit.file("limited")), "1 of 2 kernels are not on disk"));
  CHECK(warm.attnjit({"cache", "import", warm.bundle}, warm.other_cache()).code == 0);
}

}  // namespace
}  // namespace attnjit::test
