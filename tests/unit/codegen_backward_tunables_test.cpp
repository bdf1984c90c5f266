#include <doctest/doctest.h>

#include <string>

#include "attnjit/error.hpp"
#include "codegen/backward_tunables.hpp"

using namespace attnjit;
using codegen::BackwardTile;
using codegen::BackwardTunables;
using codegen::DbiasMethod;
using codegen::DqMethod;
using problem::BackwardFamily;
using problem::Extent;

namespace {

BackwardFamily family() {
  BackwardFamily f;
  f.scores.head_dim = f.scores.head_dim_v = 64;
  f.scores.aligned = true;
  return f;
}

// Legal for family() everywhere.
BackwardTunables legal() {
  BackwardTunables t;
  t.keys = t.bias_tile = {64, 64, 1, 4, 2, 1};
  t.queries = {64, 64, 1, 4, 4, 1};
  return t;
}

std::string unfit(const BackwardTunables& tunables, const BackwardFamily& f = family(),
                  const char* arch = "sm_80") {
  return codegen::why_unfit(tunables, f, codegen::find_arch(arch)).value_or("");
}
template <class Change>
std::string unfit_after(Change change) {
  BackwardTunables t = legal();
  change(t);
  return unfit(t);
}

std::string error_of(const std::string& json) {
  BackwardTunables t = legal();
  try {
    codegen::update_from_json(t, json);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the method of dbias follows from what it keeps") {
  BackwardFamily f = family();
  CHECK(codegen::default_dbias_method(f) == DbiasMethod::kNone);
  f.dbias = Extent::kPerQuery;
  CHECK(codegen::default_dbias_method(f) == DbiasMethod::kRows);
  f.dbias = Extent::kPerKey;
  CHECK(codegen::default_dbias_method(f) == DbiasMethod::kColumns);
  f.dbias = Extent::kPerPair;
  CHECK(codegen::default_dbias_method(f) == DbiasMethod::kStore);
  f.dbias_reduces_planes = true;
  CHECK(codegen::default_dbias_method(f) == DbiasMethod::kAdd);
  f.deterministic = true;
  CHECK(codegen::default_dbias_method(f) == DbiasMethod::kKernel);
}

TEST_CASE("a method must serve the axes of dbias, and be deterministic where that is asked for") {
  BackwardFamily f = family();
  BackwardTunables t = legal();
  CHECK(unfit(t, f) == "");
  t.dbias = DbiasMethod::kStore;
  CHECK(unfit(t, f) == "dbias: this method does not serve the axes that dbias keeps");
  f.dbias = Extent::kPerPair;
  CHECK(unfit(t, f) == "");
  t.dbias = DbiasMethod::kNone;
  CHECK(unfit(t, f) != "");
  f.dbias_reduces_planes = true;
  for (const DbiasMethod method : {DbiasMethod::kAdd, DbiasMethod::kKernel}) {
    t.dbias = method;
    CHECK(unfit(t, f) == "");
  }
  f.deterministic = true;
  t.dbias = DbiasMethod::kAdd;
  CHECK(unfit(t, f) == "dbias: add is not deterministic; use kernel");
  t.dbias = DbiasMethod::kKernel;
  CHECK(unfit(t, f) == "dq: add is not deterministic; use kernel");
  t.dq = DqMethod::kKernel;
  CHECK(unfit(t, f) == "split: it is not deterministic; set it to false");
  t.split = false;
  CHECK(unfit(t, f) == "");
}

TEST_CASE("each tile that is used must be legal") {
  const auto rule = [](auto member, int value) {
    return unfit_after([=](BackwardTunables& t) { t.keys.*member = value; });
  };
  CHECK(rule(&BackwardTile::block_q, 48).find("keys: block_q must be") == 0);
  CHECK(rule(&BackwardTile::block_kv, 40).find("keys: block_kv must be") == 0);
  CHECK(rule(&BackwardTile::num_stages, 3).find("keys: num_stages must be") == 0);
  CHECK(rule(&BackwardTile::num_warps, 0).find("keys: num_warps must be") == 0);
  CHECK(rule(&BackwardTile::query_warps, 3).find("keys: query_warps must divide") == 0);
  CHECK(rule(&BackwardTile::min_blocks, 0).find("keys: min_blocks must be") == 0);
  // A tile of a kernel that is not part of the plan does not matter.
  CHECK(unfit_after([](BackwardTunables& t) { t.queries = t.bias_tile = {}; }) == "");
  CHECK(unfit_after([](BackwardTunables& t) {
          t.dq = DqMethod::kKernel;
          t.queries.query_warps = 2;
        }) == "queries: query_warps must equal num_warps");
}

TEST_CASE("a tile must fit the shared memory of the architecture") {
  BackwardFamily f = family();
  f.scores.head_dim = f.scores.head_dim_v = 256;
  const BackwardTunables t = legal();
  CHECK(unfit(t, f, "sm_90a") == "");
  const std::string rule = unfit(t, f, "sm_86");
  CHECK(rule.find("keys: needs ") == 0);
  CHECK(rule.find(" bytes of shared memory; sm_86 has ") != std::string::npos);
}

TEST_CASE("tunables survive JSON, and an update leaves out what it does not name") {
  BackwardTunables t = legal();
  t.dq = DqMethod::kKernel;
  t.dbias = DbiasMethod::kColumns;
  t.split = false;
  BackwardTunables back;
  codegen::update_from_json(back, codegen::to_json(t));
  CHECK(back == t);
  codegen::update_from_json(t, R"({"dbias": "kernel", "keys": {"block_q": 32}})");
  CHECK(t.dbias == DbiasMethod::kKernel);
  CHECK(t.keys.block_q == 32);
  CHECK(t.keys.block_kv == 64);
  CHECK(t.dq == DqMethod::kKernel);
  CHECK(codegen::describe_tile(t.keys) == "q32 kv64 s1 w4 qw2 b1");
  for (const char* method : {"none", "rows", "store", "columns", "add", "kernel"}) {
    CHECK(error_of(std::string(R"({"dbias": ")") + method + "\"}") == "");
  }
}

TEST_CASE("an update that cannot be read says why") {
  CHECK(error_of("[]") == "config: not a JSON object");
  CHECK(error_of("{") == "config: not a JSON object");
  CHECK(error_of(R"({"block_q": 64})") ==
        "config: unknown member block_q; expected dq, dbias, split, keys, queries or bias_tile");
  CHECK(error_of(R"({"dq": "atomics"})") ==
        R"(config: dq is "atomics"; expected one of add, kernel)");
  CHECK(error_of(R"({"dbias": 1})") ==
        "config: dbias is 1; expected one of none, rows, store, columns, add, kernel");
  CHECK(error_of(R"({"split": 1})") == "config: split must be true or false");
  CHECK(error_of(R"({"keys": 64})") == "config: keys must be an object");
  CHECK(error_of(R"({"queries": {"block": 64}})") == "config: unknown member queries.block");
  CHECK(error_of(R"({"bias_tile": {"block_q": 64.5}})") ==
        "config: bias_tile.block_q must be a whole number");
}
