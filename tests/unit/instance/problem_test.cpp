#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "attnjit/error.hpp"
#include "instance/host_problem.hpp"
#include "instance/sequences.hpp"
#include "reference/forward.hpp"
#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

using reference::Arithmetic;
using reference::ForwardResult;
using reference::Rows;
using tensor::load;
using tensor::MaskKind;
using tensor::store;

ProblemSpec full_spec() {
  ProblemSpec spec;
  spec.batch = 3;
  spec.heads_q = 4;
  spec.heads_kv = 2;
  spec.seqlen_q = 10;
  spec.seqlen_kv = 12;
  spec.head_dim = 8;
  spec.mask = "bgqk";
  spec.bias = "1h1k";
  spec.bias_dtype = DType::kFloat32;
  spec.use_seqlens_q = true;
  spec.use_seqlens_kv = true;
  return spec;
}

TEST_CASE("patterns become shapes, malformed ones are refused by name") {
  const ProblemSpec spec = full_spec();
  using Shape = std::array<std::int64_t, 4>;
  CHECK(pattern_shape(spec, "bhqk", "mask") == Shape{3, 4, 10, 12});
  CHECK(pattern_shape(spec, "bg1k", "mask") == Shape{3, 2, 1, 12});
  CHECK(pattern_shape(spec, "1111", "mask") == Shape{1, 1, 1, 1});
  for (const char* bad : {"",
                          "bhq",
                          "bhqkk",
                          "hbqk",
                          "b1kq",
                          "BHQK",
                          "b0qk",
                          "s",
                          "shqk",
                          "shqk/",
                          "shqk/0",
                          "shqk/-3",
                          "shqk/3x",
                          "shq/3",
                          "s3hqk",
                          "bhqk/3",
                          "shqk/99999999999999999999",
                          "p1qk",
                          "p1qk/2",
                          "p1qk/2x",
                          "p1qk/2x0",
                          "p1qk/x1",
                          "p1qk/2x1x",
                          "p1qk/2x1x2x2",
                          "s1qk/2x1"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_pattern(bad));
    CHECK_THROWS_AS(pattern_shape(spec, bad, "mask"), Error);
  }
  CHECK_THROWS_WITH_AS(
      pattern_shape(spec, "bxqk", "bias"),
      "bias: pattern 'bxqk'; expected four letters such as bhqk, 1hqk, bgqk, b11k, shqk/2 or "
      "p1qk/64x1",
      Error);
}

TEST_CASE("a pattern's p says which planes repeat") {
  ProblemSpec spec = full_spec();
  spec.batch = 24;
  CHECK(pattern_shape(spec, "p1qk/4x1", "mask")[0] == 4);
  CHECK(pattern_shape(spec, "p1qk/4x3x2", "mask")[0] == 4);
  const PlaneOrder order = pattern_order("p1qk/4x3x2"), whole = pattern_order("p1qk/4x1");
  CHECK((order.inner == 3 && order.cycle == 2));
  CHECK((whole.inner == 1 && whole.cycle == 0));
  CHECK(pattern_order("shqk/4").inner == 0);
  CHECK(pattern_order("").inner == 0);
  CHECK(pattern_order("p1qk/1x4").inner == 0);  // one plane has no order
  const auto refusal = [&](const char* pattern) -> std::string {
    try {
      pattern_shape(spec, pattern, "mask");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal("p1qk/5x1") ==
        "mask: pattern 'p1qk/5x1' has 5 planes over the batch; expected a divisor of 24");
  CHECK(refusal("p1qk/4x4") ==
        "mask: pattern 'p1qk/4x4' has planes for 4 neighbours; expected a divisor of 6, the batch "
        "by the planes");
  CHECK(refusal("p1qk/4x1x3") ==
        "mask: pattern 'p1qk/4x1x3' has a cycle of 3 planes; expected a divisor of 4");
}

TEST_CASE("a pattern's s has as many planes as divide the batch") {
  ProblemSpec spec = full_spec();
  spec.batch = 12;
  CHECK(pattern_shape(spec, "shqk/4", "mask")[0] == 4);
  CHECK(pattern_shape(spec, "s111/12", "mask")[0] == 12);
  CHECK_THROWS_WITH_AS(
      pattern_shape(spec, "shqk/5", "bias"),
      "bias: pattern 'shqk/5' has 5 planes over the batch; expected a divisor of 12", Error);
}

TEST_CASE("specs that cannot become tensors are refused") {
  ProblemSpec spec = full_spec();
  SUBCASE("heads") { spec.heads_q = 5; }
  SUBCASE("negative size") { spec.seqlen_q = -1; }
  SUBCASE("mask pattern") { spec.mask = "bbqk"; }
  SUBCASE("slopes of another pattern") { spec.alibi = "1h"; }
  SUBCASE("slopes without the diagonal that they need") {
    spec.alibi = "h";
    spec.use_seqlens_kv = true;
  }
  SUBCASE("parts of pages") { spec.page_size = 5; }
  SUBCASE("more pages in common than there are") {
    spec.page_size = 6;
    spec.shared_pages = 3;
  }
  SUBCASE("pages beside where sequences of keys begin") {
    spec.page_size = 6;
    spec.packed = true;
    spec.cu_seqlens_kv = std::vector<std::int32_t>(static_cast<std::size_t>(spec.batch) + 1, 0);
  }
  SUBCASE("a mask over the last keys of packed sequences") {
    spec.mask = spec.bias = "";
    spec.packed = true;
    spec.tail_mask = "b";
  }
  SUBCASE("a mask over the last keys of another pattern") { spec.tail_mask = "h"; }
  SUBCASE("a prepared mask that is the same for all keys") {
    spec.mask = "b1q1";
    spec.prepare_mask = true;
  }
  SUBCASE("a prepared mask without a mask") {
    spec.mask = "";
    spec.prepare_mask = true;
  }
  SUBCASE("boolean bias") { spec.bias_dtype = DType::kBool; }
  SUBCASE("bias of the other half type") { spec.bias_dtype = DType::kFloat16; }
  SUBCASE("fp32 problem") { spec.dtype = DType::kFloat32; }
  SUBCASE("no diagonal") { spec.causal = true; }
  SUBCASE("seqlens of another batch") { spec.seqlens_kv = {1, 2}; }
  SUBCASE("scale") { spec.scale = INFINITY; }
  CHECK_THROWS_AS(HostProblem(spec, 1), Error);
}

TEST_CASE("the default problem has q, k, v, out and lse, dense and aligned") {
  HostProblem problem(ProblemSpec{}, 1);
  REQUIRE(problem.buffers().size() == 5);
  CHECK(problem.find(BufferRole::kMask) == nullptr);
  const ForwardArgs args = problem.args();
  CHECK(args.k.strides == std::array<std::int64_t, 4>{128 * 64, 128 * 64, 64, 1});
  CHECK_FALSE(args.mask.has_value());
  CHECK_FALSE(args.bias.has_value());
  CHECK(args.seqlens_q == nullptr);
  CHECK(args.lse != nullptr);
  for (const HostBuffer& buffer : problem.buffers()) {
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % HostBuffer::kAlignment == 0);
    CHECK(buffer.bytes().size() % HostBuffer::kAlignment == 0);
    CHECK(buffer.data_offset() >= HostBuffer::kGuardBytes);
  }
}

TEST_CASE("memory options shape the views") {
  ProblemSpec spec = full_spec();
  spec.memory.layout = Layout::kBshd;
  spec.memory.base_offset = 1;
  spec.memory.row_padding = 5;
  spec.memory.v_differs = true;
  spec.memory.expand_broadcast = true;
  const HostProblem problem(spec, 1);
  const ForwardArgs args = problem.args();
  using Sizes = std::array<std::int64_t, 4>;
  CHECK(args.q.strides == Sizes{10 * 4 * 13, 13, 4 * 13, 1});
  CHECK(args.k.strides == Sizes{12 * 2 * 13, 13, 2 * 13, 1});
  CHECK(args.v.strides == Sizes{2 * 12 * 21, 12 * 21, 21, 1});
  CHECK(args.mask->shape == Sizes{3, 2, 10, 12});
  CHECK(args.bias->shape == Sizes{3, 4, 10, 12});
  CHECK(args.bias->strides == Sizes{0, 17, 0, 1});
  CHECK(reinterpret_cast<std::uintptr_t>(args.q.data) % 4 == 2);
  CHECK(reinterpret_cast<std::uintptr_t>(args.mask->data) % 4 == 1);
  CHECK(reinterpret_cast<std::uintptr_t>(args.lse) % 8 == 4);
}

TEST_CASE("layouts change addresses, not values") {
  ProblemSpec spec = full_spec();
  const HostProblem plain(spec, 1);
  spec.memory = {Layout::kBshd, 3, 7, true, true};
  const HostProblem strange(spec, 2);
  const ForwardResult a = reference::forward(plain.args(), Arithmetic::kExact, Rows::every(), 1);
  const ForwardResult b = reference::forward(strange.args(), Arithmetic::kExact, Rows::every(), 1);
  CHECK(a.out == b.out);
  CHECK(a.lse == b.lse);
  spec.seed = 2;
  CHECK(reference::forward(HostProblem(spec, 1).args(), Arithmetic::kExact, Rows::every(), 1).out !=
        a.out);
}

TEST_CASE("mirrored bases give the same call") {
  const HostProblem problem(full_spec(), 1);
  std::vector<std::vector<std::byte>> copies;
  std::vector<void*> bases;
  for (const HostBuffer& buffer : problem.buffers()) {
    copies.emplace_back(buffer.bytes().begin(), buffer.bytes().end());
    bases.push_back(copies.back().data());
  }
  const ForwardResult here =
      reference::forward(problem.args(), Arithmetic::kExact, Rows::every(), 1);
  const ForwardResult there =
      reference::forward(problem.args_at(bases), Arithmetic::kExact, Rows::every(), 1);
  CHECK(here.out == there.out);
  bases.pop_back();
  CHECK_THROWS_AS(problem.args_at(bases), Error);
}

TEST_CASE("packed sequences: drawn ones rise within the rows, given ones are used") {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const ProblemSpec spec{
        .batch = 5, .seqlen_q = 90, .seqlen_kv = 70, .packed = true, .seed = seed};
    const PackedBegins begins = packed_begins(spec);
    CHECK(begins.q.size() == 6);
    CHECK(begins.q.front() == 0);
    CHECK(begins.kv.back() <= 70);
    CHECK(std::ranges::is_sorted(begins.q));
  }
  ProblemSpec spec{.batch = 3, .seqlen_q = 90, .seqlen_kv = 90, .packed = true};
  spec.cu_seqlens_q = {0, 50, 40, 1000};
  spec.cu_seqlens_kv = {0, 0, 7, 20};
  CHECK(operand_sizes(spec).queries == 50);
  CHECK(pattern_shape(spec, "bhqk", "mask") == std::array<std::int64_t, 4>{3, 1, 50, 13});
  CHECK(pattern_shape(spec, "1h1t", "mask") == std::array<std::int64_t, 4>{1, 1, 1, 90});
  CHECK_THROWS_WITH(pattern_shape(spec, "b11t", "mask"),
                    doctest::Contains("expected 1h1t, 1g1t or 111t"));
  const HostProblem problem(spec, 1);
  const ForwardArgs args = problem.args();
  CHECK(args.num_sequences == 3);
  CHECK(args.q.shape[0] == 1);
  CHECK(args.cu_seqlens_q[3] == 1000);
  spec.packed = false;
  CHECK_THROWS_WITH(validate(spec), doctest::Contains("expected packed to be set"));
}

TEST_CASE("packed pages: a table of all sequences, and no begins of their keys") {
  ProblemSpec spec{.batch = 3, .seqlen_q = 90, .seqlen_kv = 96, .packed = true};
  spec.page_size = 32;
  spec.use_seqlens_kv = true;
  spec.seqlens_kv = {96, 0, 33};
  CHECK(operand_sizes(spec).keys == 96);
  CHECK_THROWS_WITH(pattern_shape(spec, "1h1t", "bias"),
                    doctest::Contains("of keys without pages"));
  spec.mask = "111k";
  CHECK(can_prepare_mask(spec));
  spec.mask = "";
  spec.cu_seqlens_q = {0, 40, 50, 90};
  const HostProblem problem(spec, 1);
  const ForwardArgs args = problem.args();
  CHECK(args.num_sequences == 3);
  CHECK(args.cu_seqlens_kv == nullptr);
  CHECK(args.q.shape == std::array<std::int64_t, 4>{1, 1, 90, 64});
  CHECK(args.k.shape == std::array<std::int64_t, 4>{10, 1, 32, 64});
  const std::int32_t* const last = args.block_table + 2 * args.block_table_stride;
  CHECK(last[0] >= 0);
  CHECK(last[1] < 10);
  CHECK((last[2] < 0 || last[2] > 9));
  // Row 1 of the page of key 33, which is the first past those in use.
  const std::int64_t unread = last[1] * args.v.strides[0] + args.v.strides[2];
  CHECK(!std::isfinite(tensor::load(args.v.data, args.v.dtype, unread)));
  CHECK(std::isfinite(tensor::load(args.v.data, args.v.dtype, unread - args.v.strides[2])));
}

TEST_CASE("seqlens: drawn ones hold the edge cases, given ones are used") {
  ProblemSpec spec = full_spec();
  spec.batch = 40;
  const HostProblem drawn(spec, 1);
  const std::int32_t* lengths = drawn.args().seqlens_kv;
  CHECK(std::vector<std::int32_t>(lengths, lengths + 4) ==
        std::vector<std::int32_t>{12, 0, 13, -1});
  CHECK(std::all_of(lengths + 4, lengths + 40, [](auto n) { return n >= 0 && n <= 12; }));
  spec.batch = 3;
  spec.seqlens_kv = {5, 6, 7};
  const HostProblem given(spec, 1);
  CHECK(given.args().seqlens_kv[1] == 6);
}

// Writes 1 to every element of the outputs.
void write_all(HostProblem& problem) {
  const Tensor out = problem.args().out;
  for (std::int64_t b = 0; b < out.shape[0]; ++b) {
    for (std::int64_t h = 0; h < out.shape[1]; ++h) {
      for (std::int64_t i = 0; i < out.shape[2]; ++i) {
        problem.args().lse[(b * out.shape[1] + h) * out.shape[2] + i] = 1;
        for (std::int64_t d = 0; d < out.shape[3]; ++d) {
          store(out.data, out.dtype,
                b * out.strides[0] + h * out.strides[1] + i * out.strides[2] + d * out.strides[3],
                1);
        }
      }
    }
  }
}

TEST_CASE("poisoned outputs are NaN and count as unwritten") {
  HostProblem problem(full_spec(), 1);
  CHECK(problem.check_guards() == "");
  CHECK(problem.check_written() ==
        "out: 960 elements were never written, the first [0, 0, 0, 0]\n"
        "lse: 120 elements were never written, the first [0, 0, 0, 0]\n");
  const Tensor out = problem.args().out;
  for (std::int64_t i = 0; i < 960; ++i) {
    REQUIRE(std::isnan(load(out.data, out.dtype, i)));
  }
  CHECK(std::isnan(problem.args().lse[119]));
  write_all(problem);
  CHECK(problem.check_written() == "");
  problem.poison_outputs();
  CHECK(problem.check_written() != "");
}

TEST_CASE("a write outside the outputs is found and placed") {
  for (const bool padded : {false, true}) {
    ProblemSpec spec = full_spec();
    spec.memory.row_padding = padded ? 3 : 0;
    spec.memory.base_offset = padded ? 1 : 0;
    HostProblem problem(spec, 1);
    write_all(problem);
    CHECK(problem.check_guards() == "");
    auto* out = static_cast<std::uint16_t*>(problem.args().out.data);
    auto* lse = problem.args().lse;
    lse[120] = 0;  // the row after the last head's
    CHECK(problem.check_guards() ==
          "lse: 4 bytes outside the tensor changed, the first 0 bytes past its end\n");
    problem.poison_outputs();
    CHECK(problem.check_guards() == "");
    out[-1] = 0;
    CHECK(problem.check_guards() ==
          "out: 2 bytes outside the tensor changed, the first 2 bytes before its first element\n");
    problem.poison_outputs();
    if (padded) {
      out[8] = 0;
      CHECK(problem.check_guards() ==
            "out: 2 bytes outside the tensor changed, the first at byte 16, between its rows\n");
    }
    auto bytes = problem.find(BufferRole::kOut)->bytes();
    problem.poison_outputs();
    bytes.front() = bytes.back() = std::byte{0};
    CHECK(problem.check_guards().starts_with("out: 2 bytes"));
  }
}

TEST_CASE("a modified input is found") {
  HostProblem problem(full_spec(), 1);
  CHECK(problem.check_inputs() == "");
  static_cast<std::uint8_t*>(problem.args().mask->data)[17] ^= 1;
  CHECK(problem.check_inputs() == "mask: the input was modified\n");
}

TEST_CASE("guards of inputs read as NaN, so a read past K or V shows") {
  const HostProblem problem(full_spec(), 1);
  const ForwardArgs args = problem.args();
  CHECK(std::isnan(load(args.k.data, args.k.dtype, 3 * 2 * 12 * 8)));
  CHECK(std::isnan(load(args.v.data, args.v.dtype, -1)));
  CHECK(std::isnan(load(args.bias->data, args.bias->dtype, 4 * 12)));
}

TEST_CASE("a top-bias mask follows the bias of its own pattern and is random beside another") {
  ProblemSpec spec = full_spec();
  spec.mask = spec.bias = "bgqk";
  spec.mask_kind = MaskKind::kTopBias;
  spec.mask_density = 0.25;
  for (const bool expand : {false, true}) {
    spec.memory.expand_broadcast = expand;
    const HostProblem problem(spec, 2);
    const ForwardArgs args = problem.args();
    for (std::int64_t row = 0; row < 10; ++row) {  // of the first plane
      double least_kept = 1e9, largest_dropped = -1e9;
      int kept = 0;
      for (std::int64_t key = 0; key < 12; ++key) {
        const double value = load(args.bias->data, args.bias->dtype,
                                  row * args.bias->strides[2] + key * args.bias->strides[3]);
        const bool keep = load(args.mask->data, DType::kBool,
                               row * args.mask->strides[2] + key * args.mask->strides[3]) != 0;
        kept += keep;
        (keep ? least_kept : largest_dropped) =
            keep ? std::min(least_kept, value) : std::max(largest_dropped, value);
      }
      CHECK(kept == 3);
      CHECK(least_kept >= largest_dropped);
    }
  }
  spec.bias = "b11k";
  const HostProblem other(spec, 1);
  spec.mask_kind = MaskKind::kRandom;
  const HostProblem random(spec, 1);
  CHECK(other.find(BufferRole::kMask)->checksum() == random.find(BufferRole::kMask)->checksum());
}

TEST_CASE("poisoned keys are there and never reach the reference") {
  ProblemSpec spec = full_spec();
  spec.mask = "b11k";
  spec.mask_kind = MaskKind::kScattered;
  spec.causal = true;
  spec.diagonal = Diagonal::kTopLeft;
  const HostProblem clean(spec, 1);
  spec.poison_dropped_keys = true;
  const HostProblem poisoned(spec, 1);
  CHECK(std::isfinite(load(clean.args().k.data, spec.dtype, 0)));
  CHECK(std::isnan(load(poisoned.args().k.data, spec.dtype, 0)));            // off by the mask
  CHECK_FALSE(std::isfinite(load(poisoned.args().v.data, spec.dtype, 88)));  // past the diagonal
  for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kRounded}) {
    const ForwardResult a = reference::forward(clean.args(), arithmetic, Rows::every(), 1);
    const ForwardResult b = reference::forward(poisoned.args(), arithmetic, Rows::every(), 1);
    CHECK(a.lse == b.lse);
    // Tiles with NaN take another path, which need not fuse its products: no bitwise equality.
    double difference = 0;
    for (std::size_t i = 0; i < a.out.size(); ++i) {
      const double one = std::fabs(a.out[i] - b.out[i]);
      difference = std::isnan(one) ? 1e9 : std::max(difference, one);
    }
    CHECK(difference <
          (arithmetic == Arithmetic::kExact ? 1e-14 : 2 * tensor::unit_roundoff(spec.dtype)));
  }
}

TEST_CASE("empty axes: no batch, no rows, no keys") {
  for (const int axis : {0, 1, 2}) {
    ProblemSpec spec = full_spec();
    spec.mask = "bhqk";
    (axis == 0 ? spec.batch : axis == 1 ? spec.seqlen_q : spec.seqlen_kv) = 0;
    HostProblem problem(spec, 2);
    const ForwardResult result =
        reference::forward(problem.args(), Arithmetic::kExact, Rows::every(), 2);
    CHECK(result.lse.size() == static_cast<std::size_t>(spec.batch * 4 * spec.seqlen_q));
    CHECK(std::all_of(result.out.begin(), result.out.end(), [](double x) { return x == 0; }));
    CHECK(problem.check_guards() == "");
  }
}

TEST_CASE("a description names what is not default") {
  ProblemSpec spec = full_spec();
  CHECK(describe(ProblemSpec{}) == "bf16 b1 h1/1 q128 k128 d64");
  CHECK(describe(spec) ==
        "bf16 b3 h4/2 q10 k12 d8 mask=bgqk:random bias=1h1k:normal:fp32 seqlens-q seqlens-kv");
}

}  // namespace
}  // namespace attnjit::instance
