// Calls that are written to files and read again.
#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "dump/call_json.hpp"
#include "dump/pages.hpp"
#include "random_problem.hpp"
#include "unit/dump_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;

namespace {

std::map<std::string, std::vector<std::byte>> packed_parts(const dump::Call& call) {
  std::map<std::string, std::vector<std::byte>> parts;
  for (const dump::Part& part : call.parts()) {
    if (part.view.data == nullptr) continue;
    parts[part.name] = dump::packed(part.view, dump::fetch_from_host);
  }
  return parts;
}

// Whether part `name` of a paged call is another in the dump, whose pool has other pages.
bool renumbered(const dump::Call& call, const std::string& name) {
  return dump::is_pool(call.forward_args(), name) ||
         (call.forward_args().block_table != nullptr && name == "block_table");
}

void check_round_trip(const instance::ProblemSpec& spec) {
  CAPTURE(instance::describe(spec));
  const test::TempDirectory temp;
  const instance::HostProblem host(spec, 1);
  const dump::Call call = test::call_of(host);
  const auto wanted = packed_parts(call);
  const auto file = test::write_dump(temp.path(), call, {.problem = "a problem", .number = 3});
  REQUIRE(!file.empty());

  const dump::CallFile found = dump::CallFile::open(file);
  CHECK(found.origin().problem == "a problem");
  CHECK(found.origin().number == 3);
  const dump::HostCall loaded = found.load(test::kDumpMemory);
  const auto results = found.load_results();
  REQUIRE(results);
  const std::vector<dump::Part> parts = loaded.call().parts();
  std::size_t inputs = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(parts[i].name);
    if (parts[i].view.data == nullptr || renumbered(call, parts[i].name)) continue;
    const bool output = parts[i].role == dump::Role::kOutput;
    const auto got = output ? (*results)[i] : dump::packed(parts[i].view, dump::fetch_from_host);
    CHECK(got == wanted.at(parts[i].name));
    inputs += output ? 0 : 1;
  }
  CHECK(inputs >= 1);
  if (call.forward_args().block_table == nullptr) {
    CHECK(dump::to_json(loaded.call()) == dump::to_json(call));
  }
}

// Key j of element b in the pages of `args`.
const std::byte* key_of(const ForwardArgs& args, std::int64_t b, std::int64_t j) {
  const std::int64_t size = args.k.shape[2];
  const std::int32_t page = args.block_table[b * args.block_table_stride + j / size];
  const std::int64_t at = page * args.k.strides[0] + j % size * args.k.strides[2];
  return static_cast<const std::byte*>(args.k.data) + at * element_size(args.k.dtype);
}

}  // namespace

TEST_CASE("random calls of both passes come back as they were") {
  for (std::uint64_t index = 0; index < 40; ++index) {
    check_round_trip(test::small_problem(index));
    check_round_trip(test::small_backward_problem(index));
  }
}

TEST_CASE("a call with expressions and gradients of their operands comes back") {
  instance::ProblemSpec spec = {.heads_q = 2, .heads_kv = 2, .seqlen_q = 20, .seqlen_kv = 30};
  spec.score = "s + a[h, j] + w[]";
  spec.keep = "c[i] == c[j]";
  spec.operands = {{.name = "a", .dtype = DType::kFloat32, .axes = {"h", "k"}},
                   {.name = "w", .dtype = DType::kFloat32},
                   {.name = "c", .dtype = DType::kInt32, .axes = {"k"}}};
  check_round_trip(spec);
  spec.backward = true;
  spec.want_lse = true;
  spec.grad = {"a"};
  check_round_trip(spec);
}

TEST_CASE("of a pool only the pages in use are kept, and every key is found in them") {
  const test::TempDirectory temp;
  instance::ProblemSpec spec = {.batch = 3, .heads_q = 2, .heads_kv = 1, .seqlen_q = 4};
  spec.seqlen_kv = 96;
  spec.page_size = 16;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {33, 0, 96};
  const instance::HostProblem host(spec, 1);
  const ForwardArgs before = host.args();
  const auto file = test::write_dump(temp.path(), test::call_of(host));
  const dump::HostCall loaded = dump::CallFile::open(file).load(test::kDumpMemory);
  const ForwardArgs& after = loaded.call().forward_args();
  CHECK(before.k.shape[0] > 9);
  CHECK(after.k.shape[0] == 9);  // 3, 0 and 6
  CHECK(after.v.shape[0] == 9);
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t j = 0; j < spec.seqlens_kv[static_cast<std::size_t>(b)]; ++j) {
      const auto bytes = static_cast<std::size_t>(spec.head_dim * 2);
      CHECK(std::memcmp(key_of(before, b, j), key_of(after, b, j), bytes) == 0);
    }
  }
  // An entry that names no page still names none.
  const_cast<std::int32_t*>(before.block_table)[1] = 1000;
  const auto faulty = test::write_dump(temp.path(), test::call_of(host));
  const dump::HostCall again = dump::CallFile::open(faulty).load(test::kDumpMemory);
  CHECK(again.call().forward_args().block_table[1] == 1000);
}

TEST_CASE("elements of any strides are packed and unpacked") {
  std::vector<std::uint16_t> memory(4000);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint16_t>(i);
  const auto base = memory.data() + 2000;
  const std::array<std::int64_t, 4> strides[] = {
      {600, 200, 20, 1}, {1, 2, 8, 40}, {0, 300, 0, 1}, {-300, 1, 50, -7}, {1000, 100, 10, 3}};
  for (const auto& each : strides) {
    CAPTURE(each[0]);
    const Tensor view{base, DType::kFloat16, {2, 3, 5, 3}, each};
    const auto bytes = dump::packed(view, dump::fetch_from_host);
    CHECK(bytes.size() == dump::packed_bytes(view));
    const auto before = memory;
    for (std::int64_t at = 0; at < 90; ++at) {
      const std::int64_t i[] = {at / 45, at / 15 % 3, at / 3 % 5, at % 3};
      base[i[0] * each[0] + i[1] * each[1] + i[2] * each[2] + i[3] * each[3]] = 0xffff;
    }
    CHECK(memory != before);
    dump::unpack(view, bytes);
    CHECK(memory == before);
  }
  const Tensor none{base, DType::kFloat16, {2, 0, 5, 3}, {1, 1, 1, 1}};
  CHECK(dump::packed(none, dump::fetch_from_host).empty());
  const Tensor endless{base, DType::kFloat16, {2, 2, 2, 2}, {INT64_MIN, INT64_MAX, 1, 1}};
  CHECK_FALSE(dump::extent_of(endless));
}
