#include "runtime/load/engine.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/forward_fixtures.hpp"
#include "unit/runtime_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace runtime_engine_test {
using attnjit::test::environment;
using attnjit::test::slurp;
using attnjit::test::TempDirectory;
using attnjit::test::Variables;
using runtime::Engine;
namespace fs = std::filesystem;

namespace {

const codegen::Arch& arch() { return codegen::find_arch("sm_80"); }

// A small problem: its kernel compiles in half a second.
problem::Problem small_problem() {
  return problem::make_problem(test::forward_args({.head_dim = 16, .head_dim_v = 16}));
}

codegen::Source source(Engine& engine) {
  return engine.plan(small_problem(), arch()).steps[0].source;
}

std::shared_ptr<const cache::Entry> compiled(Engine& engine) {
  return engine.kernel(source(engine), arch(), problem::problem_text(small_problem()));
}

template <class Call>
std::string message_of(ErrorKind kind, Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return "";
}

void check_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, "missing: ", part, "\nin: ", message);
  }
}

// A copy of the templates to be changed.
void copy_templates(const fs::path& to) {
  fs::copy(ATTNJIT_SOURCE_DIR "/templates", to, fs::copy_options::recursive);
}

}  // namespace

TEST_CASE("a kernel is compiled once, and the next process finds it on disk") {
  const TempDirectory temp;
  const Variables variables = {{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                               {"XDG_RUNTIME_DIR", temp.path().string()}};
  Engine first(environment(variables));
  const auto entry = compiled(first);
  CHECK(compiled(first) == entry);
  CHECK(first.cache().counters().builds == 1);
  CHECK(first.cache().counters().memory_hits == 1);
  CHECK(first.cache().counters().disk_hits == 0);
  CHECK(entry->cubin.size() > 1000);
  const compiler::Facts facts = runtime::facts(*entry).value();
  CHECK(facts.registers > 0);
  CHECK(entry->meta_json.find("\"title\":\"attn_fwd bf16 d16 gqa4") != std::string::npos);

  Engine second(environment(variables));
  const auto again = compiled(second);
  CHECK(second.cache().counters().builds == 0);
  CHECK(second.cache().counters().disk_hits == 1);
  CHECK(again->cubin == entry->cubin);
  CHECK(runtime::facts(*again) == facts);

  // Kernels on disk need no compile, so forbidding it changes nothing.
  Variables forbidden = variables;
  forbidden["ATTNJIT_JIT"] = "forbid";
  Engine third(environment(forbidden));
  CHECK(compiled(third)->cubin == entry->cubin);
}

TEST_CASE("two compiles of a kernel leave the same bytes on disk") {
  std::vector<std::string> files;
  for (int i = 0; i < 2; ++i) {
    const TempDirectory temp;
    Engine engine(environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                               {"XDG_RUNTIME_DIR", temp.path().string()}}));
    compiled(engine);
    files.push_back(slurp(engine.cache().store().list().at(0).path));
  }
  CHECK(files[0] == files[1]);
}

TEST_CASE("a forbidden compile says which kernel of which problem is missing") {
  const TempDirectory temp;
  Engine engine(environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                             {"XDG_RUNTIME_DIR", temp.path().string()},
                             {"ATTNJIT_JIT", "forbid"}}));
  const std::string message = message_of(ErrorKind::kCache, [&] { compiled(engine); });
  check_parts(message, {"[" + source(engine).title + "]", "sm_80",
                        "[" + problem::describe(small_problem()) + "]", "ATTNJIT_JIT=forbid",
                        "attnjit warmup --arch sm_80", problem::manifest_line(small_problem())});

  // Once another process has warmed the cache up, the kernel is there.
  Engine warmup(environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                             {"XDG_RUNTIME_DIR", temp.path().string()}}));
  const auto warmed = compiled(warmup);
  CHECK(compiled(engine)->cubin == warmed->cubin);
}

TEST_CASE("a compile that only warns says so and goes on") {
  const TempDirectory temp;
  std::vector<std::string> messages;
  std::string title;
  {
    Engine engine(environment({{"ATTNJIT_CACHE_DIR", "0"},
                               {"XDG_RUNTIME_DIR", temp.path().string()},
                               {"ATTNJIT_JIT", "warn"}}),
                  [&](base::LogLevel, std::string_view text) { messages.emplace_back(text); });
    CHECK(compiled(engine)->cubin.size() > 1000);
    title = source(engine).title;
  }
  // A slow machine is told of as well.
  std::erase_if(messages, [](const auto& text) { return text.starts_with("still compiling"); });
  REQUIRE(messages.size() == 1);
  check_parts(messages[0], {"compiling", title, "sm_80"});
}

TEST_CASE("a template directory takes the place of the embedded templates, and decides the key") {
  const TempDirectory temp;
  const fs::path templates = temp / "templates";
  copy_templates(templates);
  const Variables variables = {{"ATTNJIT_CACHE_DIR", "0"},
                               {"ATTNJIT_TEMPLATE_DIR", templates.string()}};
  Engine embedded(environment({{"ATTNJIT_CACHE_DIR", "0"}}));
  Engine same(environment(variables));
  CHECK(source(same).text == source(embedded).text);
  CHECK(same.key(source(same), arch()) == embedded.key(source(embedded), arch()));

  std::ofstream(templates / "attnjit/forward/softmax.cuh", std::ios::app) << "// changed\n";
  Engine changed(environment(variables));
  CHECK(source(changed).text.find("// changed\n") != std::string::npos);
  CHECK(changed.key(source(changed), arch()) != embedded.key(source(embedded), arch()));
  CHECK(source(same).text == source(embedded).text);  // read once, when the engine was made
}

TEST_CASE("a template directory that is not there, or not complete, is named") {
  const TempDirectory temp;
  const std::string missing = (temp / "nothing").string();
  const std::string unread = message_of(ErrorKind::kInvalidEnvironment, [&] {
    Engine engine(environment({{"ATTNJIT_CACHE_DIR", "0"}, {"ATTNJIT_TEMPLATE_DIR", missing}}));
  });
  check_parts(unread, {"ATTNJIT_TEMPLATE_DIR", missing});

  const fs::path templates = temp / "templates";
  copy_templates(templates);
  fs::remove(templates / "attnjit/forward/softmax.cuh");
  Engine engine(
      environment({{"ATTNJIT_CACHE_DIR", "0"}, {"ATTNJIT_TEMPLATE_DIR", templates.string()}}));
  check_parts(message_of(ErrorKind::kInvalidEnvironment, [&] { source(engine); }),
              {"attnjit/forward/softmax.cuh", "ATTNJIT_TEMPLATE_DIR"});
}

TEST_CASE("a kernel that does not compile is an error that can be worked on") {
  const TempDirectory temp;
  const fs::path templates = temp / "templates";
  copy_templates(templates);
  std::ofstream(templates / "attnjit/forward/softmax.cuh", std::ios::app)
      << "int broken = nowhere;\n";
  Engine engine(environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                             {"XDG_RUNTIME_DIR", temp.path().string()},
                             {"ATTNJIT_TEMPLATE_DIR", templates.string()},
                             {"ATTNJIT_DUMP", (temp / "dump").string()}}));
  const std::string message = message_of(ErrorKind::kCompile, [&] { compiled(engine); });
  check_parts(message, {source(engine).title, "sm_80", problem::describe(small_problem()),
                        "identifier \"nowhere\" is undefined", "Source: "});
  const auto begin = message.find("Source: ") + 8;
  const fs::path saved = message.substr(begin, message.find(".cu", begin) + 3 - begin);
  CHECK(saved.parent_path() == temp / "dump");
  CHECK(slurp(saved) == source(engine).text);
  // Nothing of it is kept.
  Engine next(environment({{"ATTNJIT_CACHE_DIR", (temp / "cache").string()},
                           {"XDG_RUNTIME_DIR", temp.path().string()}}));
  CHECK(next.cache().store().list().empty());
}

TEST_CASE("a configuration is taken only if it is legal for the problem") {
  Engine engine(environment({{"ATTNJIT_CACHE_DIR", "0"}}));
  const auto refused = [&](auto change) {
    codegen::ForwardTunables config = engine.plan(small_problem(), arch()).tunables;
    change(config);
    return message_of(ErrorKind::kInvalidProblem,
                      [&] { engine.plan(small_problem(), arch(), config); });
  };
  check_parts(refused([](auto& c) { c.block_kv = 48; }),
              {"config q", "kv48", "block_kv must be a multiple of 32 keys"});
  check_parts(refused([](auto& c) { c.block_kv = 1024, c.num_stages = 4; }),
              {"shared memory", "sm_80"});
  check_parts(refused([](auto& c) { c.path = codegen::Path::kWgmma; }), {"config", "use mma"});

  codegen::ForwardTunables other = engine.plan(small_problem(), arch()).tunables;
  other.block_kv = 128;
  CHECK(engine.plan(small_problem(), arch(), other).facts.block_kv == 128);
}

TEST_CASE("a mask over keys brings its prepass, the same for every tile of the forward kernel") {
  Engine engine(environment({{"ATTNJIT_CACHE_DIR", "0"}}));
  ForwardArgs args = test::forward_args();
  args.mask = test::mask(args, "b1qk");
  const auto spec = engine.plan(problem::make_problem(args), arch());
  REQUIRE(spec.steps.size() == 3);
  REQUIRE(spec.mask_to_bits.has_value());
  codegen::ForwardTunables other = spec.tunables;
  other.block_kv = spec.facts.block_kv == 64 ? 32 : 64;
  const auto other_spec = engine.plan(problem::make_problem(args), arch(), other);
  CHECK(other_spec.steps[0].source.text == spec.steps[0].source.text);
  CHECK(other_spec.steps[1].source.text != spec.steps[1].source.text);
  args.mask = test::mask(args, "b1q1");
  CHECK(engine.plan(problem::make_problem(args), arch()).steps.size() == 2);
}

}  // namespace runtime_engine_test
