// Calls that are cut: what is left of them computes what it did in the whole.
#include "check/call_cut.hpp"

#include <doctest/doctest.h>

#include "check/call_features.hpp"
#include "check/call_shrink.hpp"
#include "check/call_verdict.hpp"
#include "instance/forward_results.hpp"
#include "problem/manifest_line.hpp"
#include "unit/dump_fixtures.hpp"

using namespace attnjit;
using check::CallCut;
using check::Range;

namespace call_cut_test {

using instance::ProblemSpec;

dump::HostCall host_call(const ProblemSpec& spec) {
  const instance::HostProblem problem(spec, 1);
  const dump::Call call = test::call_of(problem);
  dump::HostCall copy(call, test::kDumpMemory);
  for (std::size_t i = 0; i < copy.parts().size(); ++i) {
    copy.fill(i, dump::packed(call.parts()[i].view, dump::fetch_from_host));
  }
  return copy;
}

std::vector<double> out_of(const ForwardArgs& args) {
  return reference::forward(args, reference::Arithmetic::kExact, reference::Rows::every(), 1).out;
}

// Expects the outs of `cut` to be those that the whole has there. The keys are all kept.
void expect_same_out(const dump::HostCall& call, const CallCut& cut) {
  const auto part = check::cut_call(call, cut, 1);
  REQUIRE(part);
  const ForwardArgs& all = call.call().forward_args();
  const ForwardArgs& left = part->call().forward_args();
  const auto& [batch, heads, rows, width] = left.q.shape;
  CHECK(batch == cut.batch.size());
  CHECK(rows == cut.rows.size());
  const std::vector<double> whole = out_of(all), got = out_of(left);
  const std::int64_t columns = all.out.shape[3];
  const std::int64_t first_head = cut.heads_kv.begin * (all.q.shape[1] / all.k.shape[1]);
  std::size_t wrong = 0;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(got.size()); ++at) {
    const std::int64_t column = at % columns, row = at / columns % rows + cut.rows.begin;
    const std::int64_t head = at / columns / rows % heads + first_head;
    const std::int64_t b = at / columns / rows / heads + cut.batch.begin;
    const std::int64_t index =
        ((b * all.q.shape[1] + head) * all.q.shape[2] + row) * columns + column;
    wrong += got[static_cast<std::size_t>(at)] == whole[static_cast<std::size_t>(index)] ? 0 : 1;
  }
  CHECK(wrong == 0);
}

const ProblemSpec kSmall = {
    .batch = 4, .heads_q = 4, .heads_kv = 2, .seqlen_q = 20, .seqlen_kv = 30, .head_dim = 16};

TEST_CASE("a call that is cut computes what it did in the whole") {
  ProblemSpec spec = kSmall;
  spec.mask = "bhqk";
  spec.bias = "1gqk";
  spec.alibi = "bh";
  spec.use_sink = true;
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.memory.layout = instance::Layout::kBshd;
  CallCut cut{
      .batch = {1, 3}, .heads_kv = {1, 2}, .group = {0, 2}, .rows = {7, 19}, .keys = {0, 30}};
  expect_same_out(host_call(spec), cut);

  ProblemSpec lengths = kSmall;
  lengths.use_seqlens_q = lengths.use_seqlens_kv = true;
  lengths.seqlens_q = {20, 0, 11, 15};
  lengths.seqlens_kv = {30, 7, 30, 0};
  expect_same_out(host_call(lengths), cut);

  ProblemSpec said = kSmall;
  said.score = "s + a[h, j] * 0.5 - 0.1 * abs(i - j)";
  said.operands = {{.name = "a", .dtype = DType::kFloat32, .axes = {"h", "k"}}};
  cut.heads_kv = {0, 2};
  expect_same_out(host_call(said), cut);
}

TEST_CASE("a prepared mask, pages and packed sequences are cut as far as they can be") {
  ProblemSpec paged = kSmall;
  paged.seqlen_kv = 32;
  paged.page_size = 8;
  const dump::HostCall pool = host_call(paged);
  CallCut cut = check::whole(pool.call().forward_args());
  cut.keys = {0, 16};
  cut.batch = {2, 3};
  const auto left = check::cut_call(pool, cut, 1);
  REQUIRE(left);
  CHECK(left->call().forward_args().max_pages == 2);
  CHECK(*left->call().forward_args().seqlens_kv <= 16);
  CHECK_NOTHROW(out_of(left->call().forward_args()));
  cut.keys = {16, 32};
  CHECK_FALSE(check::cut_call(pool, cut, 1));

  ProblemSpec packed = kSmall;
  packed.batch = 3;
  packed.packed = true;
  packed.cu_seqlens_q = {0, 5, 5, 20};
  packed.cu_seqlens_kv = {0, 9, 14, 30};
  const dump::HostCall sequences = host_call(packed);
  cut = check::whole(sequences.call().forward_args());
  CHECK_FALSE(check::cut_call(sequences, cut, 1));
  cut = {.batch = {2, 3}, .heads_kv = {0, 2}, .group = {0, 2}, .rows = {5, 20}, .keys = {14, 30}};
  const auto one = check::cut_call(sequences, cut, 1);
  REQUIRE(one);
  CHECK(one->call().forward_args().cu_seqlens_q == nullptr);
  const std::vector<double> all = out_of(sequences.call().forward_args());
  const std::vector<double> got = out_of(one->call().forward_args());
  for (std::int64_t head = 0; head < 4; ++head) {
    for (std::int64_t at = 0; at < 15 * 16; ++at) {
      CHECK(got[static_cast<std::size_t>(head * 15 * 16 + at)] ==
            all[static_cast<std::size_t>((head * 20 + 5) * 16 + at)]);
    }
  }
}

TEST_CASE("every feature can be dropped, and is there no more") {
  ProblemSpec spec = kSmall;
  spec.backward = true;
  spec.mask = spec.bias = "bhqk";
  spec.alibi = "h";
  spec.use_sink = spec.want_dsink = spec.want_dbias = spec.want_dlse = true;
  spec.softcap = 3.0f;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  spec.use_seqlens_kv = true;
  dump::HostCall call = host_call(spec);
  int dropped = 0;
  for (const check::CallFeature& feature : check::call_features()) {
    CAPTURE(std::string(feature.name));
    auto less = check::drop_feature(call, feature, 1);
    if (!less) continue;
    ++dropped;
    CHECK_FALSE(check::drop_feature(*less, feature, 1));
    call = *std::move(less);
  }
  CHECK(dropped == 10);
  CHECK(problem::manifest_line(problem::make_problem(call.call().backward_args()))
            .ends_with("\"pass\":\"backward\"}"));
}

TEST_CASE("a call is made smaller for as long as it fails") {
  ProblemSpec spec = kSmall;
  spec.bias = "1hqk";
  spec.want_row_max = true;
  // Fails where a head has row 13 and key 21 of batch element 2, which q's first element tells.
  const dump::HostCall whole_call = host_call(spec);
  const ForwardArgs& all = whole_call.call().forward_args();
  const auto at = [](const Tensor& t, std::int64_t b, std::int64_t row) {
    return static_cast<const std::uint16_t*>(t.data)[b * t.strides[0] + row * t.strides[2]];
  };
  const std::uint16_t q = at(all.q, 2, 13), k = at(all.k, 2, 21);
  const auto has = [&](const Tensor& t, std::uint16_t value) {
    for (std::int64_t b = 0; b < t.shape[0]; ++b) {
      for (std::int64_t row = 0; row < t.shape[2]; ++row) {
        if (at(t, b, row) == value) return true;
      }
    }
    return false;
  };
  const auto fails = [&](dump::HostCall& call) {
    const ForwardArgs& args = call.call().forward_args();
    return has(args.q, q) && has(args.k, k) && args.bias.has_value();
  };
  const check::ShrunkCall shrunk = check::shrink_call(host_call(spec), fails, 200, 1);
  const ForwardArgs& args = shrunk.call.call().forward_args();
  CHECK(args.q.shape == std::array<std::int64_t, 4>{1, 1, 1, 16});
  CHECK(args.k.shape == std::array<std::int64_t, 4>{1, 1, 1, 16});
  CHECK(args.bias.has_value());
  CHECK(args.row_max == nullptr);
  CHECK(args.lse == nullptr);
  CHECK(shrunk.tried < 60);
  CHECK(check::shrink_call(host_call(spec), fails, 3, 1).tried == 3);
}

TEST_CASE("outputs are judged by their rows, and the wrong ones are listed") {
  dump::HostCall call = host_call(kSmall);
  const ForwardArgs& args = call.call().forward_args();
  instance::write_forward_results(args, 1);
  check::CallVerdict verdict = check::judge_call(call, 1);
  CHECK(verdict.pass);
  CHECK(verdict.worst_ratio() <= 1);
  auto* const out = static_cast<std::uint16_t*>(args.out.data);
  out[args.out.strides[1] * 3 + args.out.strides[2] * 17 + 5] ^= 0x4000;
  verdict = check::judge_call(call, 1);
  CHECK_FALSE(verdict.pass);
  CHECK(verdict.worst_ratio() > 1);
  REQUIRE(verdict.outputs[0].report.wrong.size() == 1);
  CHECK(verdict.outputs[0].name == "out");
  CHECK(verdict.outputs[0].report.wrong[0].head == 3);
  CHECK(verdict.outputs[0].report.wrong[0].rows == std::vector<std::int64_t>{17});
  args.lse[2 * 20 + 4] += 1;
  verdict = check::judge_call(call, 1);
  CHECK(verdict.outputs[1].report.wrong[0].rows == std::vector<std::int64_t>{4});
}

}  // namespace call_cut_test
