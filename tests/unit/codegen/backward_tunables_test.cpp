#include <doctest/doctest.h>

#include <string>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "codegen/tunables.hpp"

using namespace attnjit;
using codegen::BackwardTile;
using codegen::BackwardTunables;
using codegen::DbiasMethod;
using codegen::DqMethod;
using codegen::Path;
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
  t.dkv = t.dbias = {Path::kMma, 64, 64, 1, 4, 2, 1};
  t.dq = {Path::kMma, 64, 64, 1, 4, 4, 1};
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

BackwardTunables patched(const BackwardTunables& t, const std::string& json) {
  return base::patched(t, base::parse_patch<BackwardTunables>(base::parse_json(json), "config"));
}

std::string error_of(const std::string& json) {
  try {
    patched(legal(), json);
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
  t.dbias_method = DbiasMethod::kStore;
  CHECK(unfit(t, f) == "dbias_method: it does not support the axes that dbias keeps");
  f.dbias = Extent::kPerPair;
  CHECK(unfit(t, f) == "");
  t.dbias_method = DbiasMethod::kNone;
  CHECK(unfit(t, f) != "");
  f.dbias_reduces_planes = true;
  for (const DbiasMethod method : {DbiasMethod::kAdd, DbiasMethod::kKernel}) {
    t.dbias_method = method;
    CHECK(unfit(t, f) == "");
  }
  f.deterministic = true;
  t.dbias_method = DbiasMethod::kAdd;
  CHECK(unfit(t, f) == "dbias_method: add is not deterministic; use kernel");
  t.dbias_method = DbiasMethod::kKernel;
  CHECK(unfit(t, f) == "dq_method: add is not deterministic with path mma; use kernel");
  t.dq_method = DqMethod::kKernel;
  CHECK(unfit(t, f) == "split: it is not deterministic; set it to false");
  t.split = false;
  CHECK(unfit(t, f) == "");
}

TEST_CASE("each tile that is used must be legal") {
  const auto rule = [](auto member, int value) {
    return unfit_after([=](BackwardTunables& t) { t.dkv.*member = value; });
  };
  CHECK(rule(&BackwardTile::block_q, 48).find("dkv: block_q must be") == 0);
  CHECK(rule(&BackwardTile::block_kv, 40).find("dkv: block_kv must be") == 0);
  CHECK(rule(&BackwardTile::num_stages, 3).find("dkv: num_stages must be") == 0);
  CHECK(rule(&BackwardTile::num_warps, 0).find("dkv: num_warps must be") == 0);
  CHECK(rule(&BackwardTile::query_warps, 3).find("dkv: query_warps must divide") == 0);
  CHECK(rule(&BackwardTile::min_blocks, 0).find("dkv: min_blocks must be") == 0);
  // A tile of a kernel that is not part of the plan does not matter.
  CHECK(unfit_after([](BackwardTunables& t) { t.dq = t.dbias = {}; }) == "");
  CHECK(unfit_after([](BackwardTunables& t) {
          t.dq_method = DqMethod::kKernel;
          t.dq.query_warps = 2;
        }) == "dq: query_warps must equal num_warps");
}

TEST_CASE("a tile must fit the shared memory of the architecture") {
  BackwardFamily f = family();
  f.scores.head_dim = f.scores.head_dim_v = 256;
  const BackwardTunables t = legal();
  CHECK(unfit(t, f, "sm_90a") == "");
  const std::string rule = unfit(t, f, "sm_86");
  CHECK(rule.find("dkv: needs ") == 0);
  CHECK(rule.find(" bytes of shared memory; sm_86 has ") != std::string::npos);
}

TEST_CASE("tunables survive JSON, and a patch leaves out what it does not name") {
  BackwardTunables t = legal();
  t.dq_method = DqMethod::kKernel;
  t.dbias_method = DbiasMethod::kColumns;
  t.split = false;
  CHECK(base::from_json_value<BackwardTunables>(base::to_json_value(t), "config") == t);
  t = patched(t, R"({"dbias_method": "kernel", "dkv": {"block_q": 32}})");
  CHECK(t.dbias_method == DbiasMethod::kKernel);
  CHECK(t.dkv.block_q == 32);
  CHECK(t.dkv.block_kv == 64);
  CHECK(t.dq_method == DqMethod::kKernel);
  CHECK(codegen::describe_tile(t.dkv) == "q32 kv64 s1 w4 qw2 b1");
  for (const char* method : {"none", "rows", "store", "columns", "add", "kernel", "per_plane"}) {
    CHECK(error_of(std::string(R"({"dbias_method": ")") + method + "\"}") == "");
  }
}

TEST_CASE("a patch that cannot be read says why") {
  CHECK(error_of("[]") == "config is []; expected an object");
  CHECK(error_of(R"({"block_q": 64})") ==
        "config: unknown member \"block_q\"; expected one of dq_method, dbias_method, split, dkv, "
        "dq, dbias");
  CHECK(
      error_of(R"({"dq_method": "atomics"})") ==
      R"(config: dq_method is "atomics"; expected one of "add", "first_stores", "kernel", "own_kv_head")");
  CHECK(error_of(R"({"dbias_method": 1})").starts_with("config: dbias_method is 1; expected one"));
  CHECK(error_of(R"({"split": 1})") == "config: split is 1; expected true or false");
  CHECK(error_of(R"({"dkv": 64})") == "config: dkv is 64; expected an object");
  CHECK(error_of(R"({"dq": {"block": 64}})").starts_with("config: dq: unknown member \"block\""));
  CHECK(error_of(R"({"dbias": {"block_q": 64.5}})")
            .starts_with("config: dbias: block_q is 64.5; expected an integer"));
}

TEST_CASE("a path that a kernel of the backward does not have is refused") {
  BackwardFamily f = family();
  f.scores.bias = f.dbias = problem::Extent::kPerPair;
  f.dbias_reduces_planes = true;
  BackwardTunables t = legal();
  t.dbias.path = Path::kWgmma;
  t.dbias_method = DbiasMethod::kAdd;
  CHECK(unfit(t, f) == "");  // it does not run
  t.dbias_method = DbiasMethod::kKernel;
  CHECK(unfit(t, f) == "dbias: path: wgmma has no kernel of dbias; use mma");
}
