#include "cli/input/manifest.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "base/json.hpp"
#include "cli/input/manifest_members.hpp"
#include "cli_fixtures.hpp"

namespace attnjit::cli {
namespace {

using test::error_of;

// A document whose only problem has these members besides a name.
std::string document(const std::string& members) {
  return "{\"schema\": 1, \"problems\": [{\"name\": \"n\", " + members + "}]}";
}
// The same with everything that is required.
std::string problem(const std::string& more) {
  return document("\"heads\": [8, 2], \"head_dim\": 64, \"seqlens\": [100, 200]" +
                  (more.empty() ? "" : ", " + more));
}
instance::ProblemSpec only_spec(const std::string& more) {
  const Manifest manifest = parse_manifest(problem(more), "m.json");
  REQUIRE(manifest.cases.size() == 1);
  return manifest.cases.front().spec;
}
std::string manifest_error(const std::string& text) {
  return error_of(ErrorKind::kInvalidEnvironment, [&] { parse_manifest(text, "m.json"); });
}

TEST_CASE("a manifest's problem has the defaults of a specification") {
  const instance::ProblemSpec spec = only_spec("");
  CHECK(spec.dtype == DType::kBFloat16);
  CHECK(spec.batch == 1);
  CHECK(spec.heads_q == 8);
  CHECK(spec.heads_kv == 2);
  CHECK(spec.seqlen_q == 100);
  CHECK(spec.seqlen_kv == 200);
  CHECK(spec.value_dim() == 64);
  CHECK(spec.mask.empty());
  CHECK_FALSE(spec.causal);
}

TEST_CASE("every member reaches its field") {
  CHECK(only_spec(R"("dtype": "fp16")").dtype == DType::kFloat16);
  CHECK(only_spec(R"("batch": 5)").batch == 5);
  CHECK(only_spec(R"("head_dim_v": 32)").value_dim() == 32);
  CHECK(only_spec(R"("causal": "top_left")").causal);
  CHECK(only_spec(R"("causal": "top-left")").diagonal == Diagonal::kTopLeft);
  CHECK_FALSE(only_spec(R"("causal": false)").causal);
  const auto windowed = only_spec(R"("window": [7, -1], "diagonal": "bottom_right")");
  CHECK(windowed.window.left == 7);
  CHECK(windowed.window.right == -1);
  CHECK(windowed.diagonal == Diagonal::kBottomRight);
  CHECK(only_spec(R"("mask": "bgqk")").mask == "bgqk");
  CHECK(only_spec(R"("batch": 6, "mask": "sgqk/2")").mask == "sgqk/2");
  CHECK(only_spec(R"("mask": "none")").mask.empty());
  CHECK(only_spec(R"("mask": "b11k", "mask_kind": "dead_rows")").mask_kind ==
        tensor::MaskKind::kDeadRows);
  CHECK(only_spec(R"("mask": "b11k", "mask_density": 1)").mask_density == 1);
  const auto biased =
      only_spec(R"("bias": "1hqk", "bias_dtype": "fp32", "bias_kind": "huge-logit")");
  CHECK(biased.bias == "1hqk");
  CHECK(biased.bias_dtype == DType::kFloat32);
  CHECK(biased.bias_kind == tensor::BiasKind::kHugeLogit);
  CHECK(only_spec(R"("scale": -0.5)").scale == -0.5f);
  CHECK(only_spec(R"("causal": "top_left", "diagonal_offset": -9)").diagonal_offset == -9);
  CHECK(only_spec(R"("sink": true, "sink_dtype": "fp32")").sink_dtype == DType::kFloat32);
  CHECK(only_spec(R"("pass": "backward", "sink": true, "dsink": true)").want_dsink);
  CHECK(only_spec(R"("causal": "top_left", "alibi": "bh")").alibi == "bh");
  CHECK(only_spec(R"("alibi": "none")").alibi.empty());
  CHECK(only_spec(R"("page_size": 2)").page_size == 2);
  CHECK(only_spec(R"("page_size": 2, "shared_pages": 1)").shared_pages == 1);
  CHECK(only_spec(R"("tail_mask": "b")").tail_mask == "b");
  CHECK(only_spec(R"("tail_mask": "none")").tail_mask.empty());
  CHECK(only_spec(R"("mask": "b11k", "prepared_mask": true)").prepare_mask);
  CHECK(only_spec(R"("blocks": "random:0.2/64x128/bg")").blocks == "random:0.2/64x128/bg");
  CHECK(only_spec(R"("softcap": 50)").softcap == 50.0f);
  CHECK(only_spec(R"("row_max": true)").want_row_max);
  CHECK(only_spec(R"("max_logits": true)").want_max_logits);
  CHECK(only_spec(R"("layout": "bshd")").memory.layout == instance::Layout::kBshd);
  CHECK(only_spec(R"("use_seqlens": true)").use_seqlens_q);
  CHECK(only_spec(R"("use_seqlens": true)").use_seqlens_kv);
  CHECK(only_spec(R"("batch": 3, "packed": true)").packed);
  CHECK(only_spec(R"("batch": 2, "packed": true, "cu_seqlens_q": [0, 3, 9])").cu_seqlens_q ==
        std::vector<std::int32_t>{0, 3, 9});
  CHECK(only_spec(R"("seed": 3)").seed == 3);
  CHECK(only_spec(R"("pass": ["forward"])").batch == 1);
}

TEST_CASE("one number stands for both of a pair") {
  const auto manifest =
      parse_manifest(document(R"("heads": 4, "head_dim": 64, "seqlens": 77)"), "m.json");
  CHECK(manifest.cases.front().spec.heads_kv == 4);
  CHECK(manifest.cases.front().spec.seqlen_q == 77);
  CHECK(manifest.cases.front().spec.seqlen_kv == 77);
}

TEST_CASE("lists cross, and what varies is in the name") {
  const auto manifest = parse_manifest(
      document(R"("heads": [[8, 2], [4, 4]], "head_dim": [64, 128], "seqlens": [[1, 9]],
                  "causal": [false, "bottom_right"], "source": "s")"),
      "m.json");
  REQUIRE(manifest.cases.size() == 8);
  std::set<std::string> names;
  for (const Case& job : manifest.cases) {
    names.insert(job.name);
    CHECK(job.source == "s");
    CHECK(job.spec.seqlen_kv == 9);
  }
  CHECK(names.size() == 8);
  CHECK(manifest.cases[0].name == "n heads=8/2 head_dim=64 causal=false");
  CHECK(manifest.cases[1].name == "n heads=8/2 head_dim=64 causal=bottom_right");
  CHECK(manifest.cases[7].spec.heads_q == 4);
  CHECK(manifest.cases[7].spec.head_dim == 128);
  CHECK(manifest.cases[7].spec.causal);
  CHECK_FALSE(manifest.cases[6].spec.causal);
}

TEST_CASE("comments, architectures and JSON lines are read") {
  const auto commented =
      parse_manifest("// first\n{\"schema\": 1, /* two */ \"archs\": [\"sm_80\"]," +
                         problem("").substr(std::string("{\"schema\": 1,").size()),
                     "m.json");
  CHECK(commented.archs == std::vector<std::string>{"sm_80"});
  CHECK(commented.cases.size() == 1);

  const std::string line = R"({"name": "a", "heads": 1, "head_dim": 64, "seqlens": 5})";
  const std::string with_schema =
      R"({"schema": 1, "name": "b", "heads": 1, "head_dim": [64, 32], "seqlens": 5})";
  const auto lines = parse_manifest(line + "\n\n" + with_schema + "\n", "m.jsonl");
  REQUIRE(lines.cases.size() == 3);
  CHECK(lines.cases[0].name == "a");
  CHECK(lines.cases[2].name == "b head_dim=32");
  CHECK(manifest_error(line + "\n{\"name\": 3}\n").find("m.json: line 2: name is 3") == 0);
  CHECK(manifest_error(line + "\n{\"schema\": 2, \"name\": \"x\"}").find("schema is 2") !=
        std::string::npos);
}

TEST_CASE("a recorded file's equal lines count once, and a torn line is skipped with a warning") {
  const auto line = [](int length) {
    return fmt::format("{{\"name\": \"n\", \"heads\": 1, \"head_dim\": 64, \"seqlens\": {}}}\n",
                       length);
  };
  std::string text;
  for (int i = 0; i < 10'001; ++i) text += line(5);
  CHECK(parse_manifest(text, "m.jsonl").cases.size() == 1);
  text.clear();
  for (int i = 0; i < 10'001; ++i) text += line(i);
  CHECK(parse_manifest(text, "m.jsonl").cases.size() == 10'001);

  const auto torn_at = [](const std::string& whole, const char* where) {
    const Manifest manifest = parse_manifest(whole, "m.jsonl");
    REQUIRE(manifest.warnings.size() == 1);
    CHECK(manifest.warnings.front().find(where) == 0);
    return manifest.cases.size();
  };
  const std::string half = line(7).substr(0, 30);
  CHECK(torn_at(line(1) + line(2) + half, "m.jsonl: line 3") == 2);
  CHECK(torn_at(line(1) + half + "\n" + line(2), "m.jsonl: line 2") == 2);
  CHECK(torn_at(half + '\n' + line(1), "m.jsonl: line 1") == 1);
  CHECK(torn_at(line(1) + half + line(2) + line(3), "m.jsonl: line 2") ==
        2);  // no end between them
  CHECK(parse_manifest(line(1), "m.jsonl").warnings.empty());
  // A whole line needs no end.
  std::string last = line(2);
  last.pop_back();
  CHECK(parse_manifest(line(1) + last, "m.jsonl").cases.size() == 2);
}

TEST_CASE("a malformed document says what is wrong with it") {
  CHECK(manifest_error("").find("m.json:") == 0);
  CHECK(manifest_error("{\n\"schema\": 1,\n oops").find("line 3") != std::string::npos);
  CHECK(manifest_error("[]").find("expected an object") != std::string::npos);
  CHECK(manifest_error(R"({"problems": []})").find("no schema") != std::string::npos);
  CHECK(manifest_error(R"({"schema": 2, "problems": []})").find("schema is 2; expected 1") !=
        std::string::npos);
  CHECK(manifest_error(R"({"schema": 1, "problems": []})").find("at least one") !=
        std::string::npos);
  CHECK(manifest_error(R"({"schema": 1, "problems": {}})").find("problems is {}") !=
        std::string::npos);
  CHECK(manifest_error(R"({"schema": 1, "archs": "sm_80", "problems": []})").find("archs is") !=
        std::string::npos);
  CHECK(manifest_error(R"({"schema": 1, "problem": [], "problems": []})")
            .find("unknown member 'problem'") != std::string::npos);
}

TEST_CASE("merges go with the forwards of an entry") {
  const auto both =
      parse_manifest(problem(R"("merges": true, "pass": ["forward", "backward"])"), "m.json");
  REQUIRE(both.cases.size() == 2);
  CHECK(both.cases[0].merges);
  CHECK_FALSE(both.cases[1].merges);
  CHECK_FALSE(parse_manifest(problem(R"("merges": false)"), "m.json").cases[0].merges);
  CHECK(manifest_error(problem(R"("merges": 1)")).find("merges is 1; expected true or false") !=
        std::string::npos);
  CHECK(manifest_error(problem(R"("merges": true, "pass": "backward")"))
            .find("merges goes with a forward") != std::string::npos);
}

TEST_CASE("a malformed entry is named by number, name and member") {
  const std::string second = R"({"schema": 1, "problems": [
      {"name": "a", "heads": 1, "head_dim": 64, "seqlens": 5},
      {"name": "b", "heads": 1, "head_dim": "wide", "seqlens": 5}]})";
  CHECK(manifest_error(second) ==
        "m.json: problem 2 (b): head_dim is \"wide\"; expected an integer from 1, or a list of "
        "such");
  CHECK(manifest_error(R"({"schema": 1, "problems": [7]})").find("problem 1: the entry is 7") !=
        std::string::npos);
  CHECK(manifest_error(R"({"schema": 1, "problems": [{"heads": 1}]})").find("no name") !=
        std::string::npos);
  CHECK(manifest_error(document(R"("heads": 1, "head_dim": 64)")).find("no seqlens") !=
        std::string::npos);
  CHECK(manifest_error(problem(R"("dropout": 0.1)")).find("unknown member 'dropout'") !=
        std::string::npos);
  CHECK(manifest_error(problem(R"("source": "")")).find("source") != std::string::npos);
}

TEST_CASE("every member refuses what it does not allow") {
  const char* const bad[] = {
      R"("dtype": "fp32")",
      R"("dtype": 16)",
      R"("dtype": [])",
      R"("batch": -1)",
      R"("batch": 1.5)",
      R"("batch": 99999999999999999999)",
      R"("head_dim_v": 0)",
      R"("causal": true)",
      R"("causal": "left")",
      R"("window": 5)",
      R"("window": [5])",
      R"("window": [-2, 0])",
      R"("diagonal": false)",
      R"("mask": "b11q")",
      R"("mask": "bhqkk")",
      R"("mask": true)",
      R"("mask_kind": "odd")",
      R"("mask_density": 2)",
      R"("mask_density": "all")",
      R"("bias": "x")",
      R"("bias_dtype": "fp8")",
      R"("bias_kind": 1)",
      R"("scale": "default")",
      R"("layout": "sbhd")",
      R"("use_seqlens": 1)",
      R"("seed": -1)",
      R"("pass": "sideways")",
      R"("pass": [])",
      R"("alibi": "1h11")",
      R"("alibi": true)",
      R"("page_size": -1)",
      R"("page_size": "all")",
      R"("shared_pages": -1)",
      R"("tail_mask": "1qk")",
      R"("batch": [1, [2]])",
      R"("window": [[1, 2], 3])",
      R"("cu_seqlens_q": [0, 50, 30])",
  };
  for (const char* member : bad) {
    CAPTURE(member);
    const std::string error = manifest_error(problem(member));
    const std::string name = std::string(member).substr(1, std::string(member).find('"', 1) - 1);
    CHECK(error.find("m.json: problem 1 (n): " + name + " is ") == 0);
    CHECK(error.find("; expected ") != std::string::npos);
  }
}

TEST_CASE("members that contradict each other are refused where they stand") {
  CHECK(manifest_error(problem(R"("blocks": "sorted:0.2/64")"))
            .find("blocks 'sorted:0.2/64': fill 'sorted' is none of random, faulty; expected "
                  "random:SHARE[+SHARE]/ROWS[xKEYS][/AXES]") != std::string::npos);
  CHECK(manifest_error(document(R"("heads": [8, 3], "head_dim": 64, "seqlens": 5)"))
            .find("m.json: problem 1 (n): heads_kv") == 0);
  CHECK(manifest_error(problem(R"("window": [5, 0])")).find("diagonal") != std::string::npos);
  CHECK(manifest_error(problem(R"("causal": "top_left", "diagonal": "bottom_right")"))
            .find("contradicts causal") != std::string::npos);
  CHECK(manifest_error(problem(R"("bias": "1hqk", "bias_dtype": "fp16")")).find("bias_dtype") !=
        std::string::npos);
}

TEST_CASE("a crossing that explodes is refused") {
  std::string numbers = "1";
  for (int i = 2; i <= 400; ++i) numbers += ", " + std::to_string(i);
  const std::string list = "[" + numbers + "]";
  CHECK(manifest_error(problem("\"batch\": " + list + ", \"seed\": " + list))
            .find("more than 100000") != std::string::npos);
}

TEST_CASE("a pass is forward unless the entry says otherwise, and both are two problems") {
  CHECK_FALSE(only_spec("").backward);
  CHECK_FALSE(only_spec(R"("pass": "forward")").backward);
  CHECK(only_spec(R"("pass": ["backward"])").backward);
  const auto cases =
      parse_manifest(problem(R"("pass": ["forward", "backward"], "bias": "1hqk", "dbias": true,
                                "deterministic": [false, true])"),
                     "m.json")
          .cases;
  REQUIRE(cases.size() == 3);  // what only a backward has does not multiply the forward
  CHECK(cases[0].name == "n");
  CHECK_FALSE(cases[0].spec.backward);
  CHECK_FALSE(cases[0].spec.want_dbias);
  CHECK(cases[1].name == "n backward deterministic=false");
  CHECK(cases[1].spec.want_dbias);
  CHECK(cases[2].name == "n backward deterministic=true");
  CHECK(cases[2].spec.deterministic);
  for (const char* pass : {"\"sideways\"", "[]", "1", "[\"forward\", 2]"}) {
    CAPTURE(pass);
    CHECK(manifest_error(problem("\"pass\": " + std::string(pass))).find("forward, backward") !=
          std::string::npos);
  }
}

TEST_CASE("the members of a backward reach their fields, and need its pass") {
  const std::string backward = R"("pass": "backward", "bias": "1hqk", )";
  CHECK(only_spec(backward + R"("dbias": true)").want_dbias);
  CHECK(only_spec(backward + R"("dbias": true, "dbias_dtype": "fp32")").dbias_dtype ==
        DType::kFloat32);
  CHECK(only_spec(backward + R"("dlse": true)").want_dlse);
  CHECK(only_spec(backward + R"("deterministic": true)").deterministic);
  CHECK(manifest_error(problem(R"("deterministic": true)")).find("goes with a backward") !=
        std::string::npos);
  CHECK(manifest_error(problem(R"("pass": "backward", "dbias": true)")).find("without a bias") !=
        std::string::npos);
  CHECK(manifest_error(problem(R"("pass": "backward", "dlse": 1)")).find("true or false") !=
        std::string::npos);
}

TEST_CASE("the shipped schema knows the same members as the parser") {
  const std::filesystem::path root = ATTNJIT_SOURCE_DIR;
  const auto schema =
      base::parse_json(test::read_file(root / "configs" / "schema" / "manifest.schema.json"));
  const auto& entry = schema.at("$defs").at("problem");
  std::set<std::string> in_schema;
  for (const auto& [name, value] : entry.at("properties").items()) in_schema.insert(name);
  std::set<std::string> in_parser = {"name", "source", "pass", "merges"};
  std::set<std::string> required = {"name"};
  for (const Member& member : members()) {
    in_parser.emplace(member.name);
    if (member.required) required.emplace(member.name);
  }
  CHECK(in_schema == in_parser);
  CHECK(entry.at("required").get<std::set<std::string>>() == required);
  CHECK_FALSE(entry.at("additionalProperties").get<bool>());
  // The words of the schema's lists are the parser's.
  for (const auto& kind : schema.at("$defs").at("mask_kind").at("enum")) {
    CAPTURE(kind);
    CHECK(only_spec("\"mask\": \"b11k\", \"mask_kind\": " + kind.dump()).mask == "b11k");
  }
  for (const auto& kind : schema.at("$defs").at("bias_kind").at("enum")) {
    CAPTURE(kind);
    CHECK(only_spec("\"bias\": \"1hqk\", \"bias_kind\": " + kind.dump()).bias == "1hqk");
  }
}

TEST_CASE("the shipped manifest of models is sound and served") {
  const std::filesystem::path root = ATTNJIT_SOURCE_DIR;
  const Manifest manifest = load_manifest(root / "configs" / "manifests" / "models.json");
  CHECK(manifest.cases.size() >= 15);
  int backwards = 0;
  int capped_windows = 0;  // Gemma 2's local layers
  for (const Case& job : manifest.cases) {
    CAPTURE(job.name);
    CHECK_FALSE(job.source.empty());
    const bool empty = job.spec.backward ? make_backward_problem(job.spec).empty()
                                         : make_problem(job.spec).empty();
    CHECK_FALSE(empty);
    backwards += job.spec.backward;
    capped_windows += job.spec.softcap > 0 && job.spec.window.left >= 0;
  }
  CHECK(backwards >= 5);
  CHECK(capped_windows >= 1);
}

TEST_CASE("nested, endless and unprintable values are refused in a short line") {
  const std::string nested = std::string(200'000, '[') + std::string(200'000, ']');
  CHECK(manifest_error(R"({"schema": 1, "problems": )" + nested + "}").find("levels of brackets") !=
        std::string::npos);
  CHECK(manifest_error(R"({"schema": 1, "problems": [)" + nested + "]}").size() < 200);
  CHECK(manifest_error(R"({"name": "n", "heads": )" + nested + "}").size() < 200);
  const std::string endless(1'000'000, 'a');
  CHECK(manifest_error(problem("\"mask\": \"" + endless + '"')).size() < 400);
  CHECK(manifest_error(problem('"' + endless + "\": 1")).size() < 600);
  CHECK(manifest_error("{\"schema\": 1, \"archs\": \"" + endless + "\"}").size() < 300);
  CHECK(manifest_error("{\"schema\": 1, \"" + endless + "\": 1}").size() < 300);
  CHECK(manifest_error(document("\"source\": \"" + endless + '"')).size() < 300);
  const std::string error = manifest_error(document(R"("\u001b[2J\n": 1)"));
  CHECK(error.find("\\x1b[2J\\x0a") != std::string::npos);
  CHECK(error.find('\x1b') == std::string::npos);
}

TEST_CASE("a manifest that cannot be read is an error") {
  const auto error =
      error_of(ErrorKind::kInvalidEnvironment, [] { load_manifest("/nonexistent/m.json"); });
  error_of(ErrorKind::kInvalidEnvironment, [] { load_manifest("/tmp"); });
  const auto endless = error_of(ErrorKind::kInvalidEnvironment, [] { load_manifest("/dev/zero"); });
  CHECK(endless.find("/dev/zero has more than") != std::string::npos);
  CHECK(error.find("/nonexistent/m.json") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::cli
