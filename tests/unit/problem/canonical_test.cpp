// One problem has one form: differences that cannot change the result must not make another kernel.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "problem/plan_key.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::forward_args;
using attnjit::test::mask;
using attnjit::test::operand;
using attnjit::test::Sizes;
using problem::Extent;
using problem::Family;
using problem::make_problem;
using problem::Problem;

namespace {

// The pattern under which a mask of pattern `asked` is known.
std::string canonical(const Sizes& sizes, const char* asked) {
  ForwardArgs args = forward_args(sizes);
  args.mask = mask(args, asked);
  args.bias = test::bias(args, asked);
  const Problem p = make_problem(args);
  CHECK(problem::pattern(p, p.mask) == problem::pattern(p, p.bias));
  return problem::pattern(p, p.mask);
}

Problem banded(bool causal, Window window, Diagonal diagonal = Diagonal::kTopLeft) {
  ForwardArgs args = forward_args();
  args.causal = causal;
  args.window = window;
  args.diagonal = diagonal;
  return make_problem(args);
}

template <class Change>
bool aligned_after(Change change) {
  ForwardArgs args = forward_args();
  change(args);
  return make_problem(args).aligned;
}

void shift(void*& data, std::uintptr_t bytes) {
  data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) + bytes);
}

}  // namespace

TEST_CASE("patterns are spelled canonically") {
  const Sizes grouped;  // Hq 32, Hkv 8
  for (const char* pattern :
       {"bhqk", "bgqk", "b11k", "1hqk", "1gq1", "11qk", "111k", "b1q1", "1111", "bg11"}) {
    CHECK(canonical(grouped, pattern) == pattern);
  }
  // g only if 1 < Hkv < Hq.
  CHECK(canonical({.heads_q = 8, .heads_kv = 8}, "bgqk") == "bhqk");
  CHECK(canonical({.heads_q = 8, .heads_kv = 1}, "bgqk") == "b1qk");
  CHECK(canonical({.heads_q = 1, .heads_kv = 1}, "bhqk") == "b1qk");
  // An axis of size 1 is 1, however it was written.
  CHECK(canonical({.batch = 1}, "bhqk") == "1hqk");
  CHECK(canonical({.seqlen_q = 1}, "bhqk") == "bh1k");
  CHECK(canonical({.seqlen_kv = 1}, "bhqk") == "bhq1");
  CHECK(canonical({.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 1, .seqlen_kv = 1},
                  "bhqk") == "1111");
  CHECK(problem::pattern(make_problem(forward_args()), {}) == "none");
}

TEST_CASE("a batch axis that divides the batch is named by its planes") {
  CHECK(canonical({}, "shqk") == "shqk/2");
  CHECK(canonical({}, "s11k") == "s11k/2");
  CHECK(canonical({.batch = 6}, "sgq1") == "sgq1/3");
  CHECK(canonical({.batch = 2}, "shqk") == "1hqk");
  ForwardArgs args = forward_args();
  args.mask = mask(args, "s11k");
  args.bias = test::bias(args, "shqk");
  const Problem p = make_problem(args);
  CHECK(p.mask.num_batches == 2);
  CHECK(problem::family(p).mask_groups_batch);
  CHECK(problem::family(p).bias_groups_batch);
  for (const char* pattern : {"bhqk", "1hqk"}) {
    args.mask = mask(args, pattern);
    args.bias = test::bias(args, pattern);
    CHECK_FALSE(problem::family(make_problem(args)).mask_groups_batch);
    CHECK_FALSE(problem::family(make_problem(args)).bias_groups_batch);
  }
  // Of no elements no plane is read, and any number of planes is a divisor.
  args = forward_args({.batch = 0});
  args.bias = operand(forward_args({.batch = 3}), "bhqk", DType::kBFloat16);
  CHECK_FALSE(problem::family(make_problem(args)).bias_groups_batch);
}

TEST_CASE("the order of planes over the batch is named as far as it differs from neighbours'") {
  const auto named = [](std::int64_t batch, const PlaneOrder& order) {
    ForwardArgs args = forward_args({.batch = batch});
    args.bias = test::bias(args, "s1qk");  // of half as many planes
    args.bias_order = order;
    return problem::pattern(make_problem(args), make_problem(args).bias);
  };
  CHECK(named(8, {1, 0}) == "p1qk/4x1");
  CHECK(named(8, {1, 4}) == "p1qk/4x1");
  CHECK(named(8, {1, 2}) == "p1qk/4x1x2");
  CHECK(named(8, {2, 0}) == "s1qk/4");
  CHECK(named(8, {2, 2}) == "s1qk/4");
  CHECK(named(8, {1, 1}) == "s1qk/4");  // a plane by turns with itself alone
  ForwardArgs args = forward_args({.batch = 12});
  args.mask = mask(args, "s1qk");
  args.mask->shape[0] = 3;
  args.mask_order = {.inner = 2};
  const Problem p = make_problem(args);
  CHECK(problem::pattern(p, p.mask) == "p1qk/3x2");
  CHECK(p.mask.cycle == problem::BatchCycle{3, 6});
  CHECK(p.run_length(3, p.mask.cycle) == 2);
  CHECK(problem::family(p).mask_groups_batch);
  CHECK_FALSE(problem::family(p).bias_groups_batch);
  // An expanded axis is one plane, in whatever order.
  args.mask->strides[0] = 0;
  CHECK(make_problem(args).mask.cycle == problem::BatchCycle{});
  CHECK_FALSE(problem::family(make_problem(args)).mask_groups_batch);
}

TEST_CASE("the extent of a mask follows from its pattern") {
  const std::pair<std::string, Extent> cases[] = {
      {"bhqk", Extent::kPerPair}, {"11qk", Extent::kPerPair},  {"b11k", Extent::kPerKey},
      {"111k", Extent::kPerKey},  {"bhq1", Extent::kPerQuery}, {"1111", Extent::kPerQuery}};
  for (const auto& [pattern, expected] : cases) {
    ForwardArgs args = forward_args();
    args.mask = mask(args, pattern);
    CAPTURE(pattern);
    CHECK(make_problem(args).mask.extent == expected);
    CHECK(make_problem(args).bias.extent == Extent::kAbsent);
  }
}

TEST_CASE("an axis that is expanded with stride 0 equals an axis of size 1") {
  for (const std::string pattern : {"1hqk", "b1qk", "bh1k", "bhq1", "b11k", "1111"}) {
    ForwardArgs size_one = forward_args();
    size_one.mask = mask(size_one, pattern);
    size_one.bias = test::bias(size_one, pattern);
    ForwardArgs expanded = size_one;
    const std::array<std::int64_t, 4> full = {4, 32, 128, 192};
    for (Tensor* tensor : {&*expanded.mask, &*expanded.bias}) {
      for (int axis = 0; axis < 4; ++axis) {
        if (tensor->shape[axis] == 1) tensor->strides[axis] = 0;
      }
      tensor->shape = full;
    }
    CAPTURE(pattern);
    CHECK(make_problem(expanded) == make_problem(size_one));
  }
}

TEST_CASE("causal is a window without keys to the right") {
  CHECK(banded(true, {}) == banded(false, {-1, 0}));
  CHECK(banded(true, {-1, 5}) == banded(true, {}));
  CHECK(banded(true, {3, 9}) == banded(false, {3, 0}));
  const Problem causal = banded(true, {});
  CHECK(causal.bounded_right);
  CHECK_FALSE(causal.bounded_left);
  CHECK(banded(false, {3, -1}).bounded_left);
  CHECK_FALSE(banded(false, {3, -1}).bounded_right);
  CHECK(banded(false, {3, 4}) != banded(false, {3, 5}));
  CHECK(banded(true, {}, Diagonal::kTopLeft) != banded(true, {}, Diagonal::kBottomRight));
}

TEST_CASE("a diagonal without a band is nothing, and widths past every length are one width") {
  CHECK(banded(false, {}, Diagonal::kBottomRight) == make_problem(forward_args()));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t most = 2 * problem::kMaxSeqlen;
  CHECK(banded(false, {kMost, kMost}) == banded(false, {most, most}));
  ForwardArgs args = forward_args();
  args.diagonal_offset = 7;
  CHECK(make_problem(args) == make_problem(forward_args()));
}

TEST_CASE("packed sequences are a batch of rows of one batch element") {
  test::Sizes sizes{.batch = 1};
  ForwardArgs args = forward_args(sizes);
  args.cu_seqlens_q = args.cu_seqlens_kv = test::fake_address<std::int32_t>(7);
  args.num_sequences = 6;
  const Problem plain = make_problem(args);
  CHECK(plain.batch == 6);
  CHECK(plain.tensor_batch() == 1);
  CHECK(problem::describe(plain).find(" packed") != std::string::npos);
  // Lengths beside them, other numbers of them and axes of operands make no other kernel.
  args.num_sequences = 8;
  args.seqlens_q = test::fake_address<std::int32_t>(8);
  CHECK(problem::family(make_problem(args)) == problem::family(plain));
  args.bias = test::bias(args, "1hqk");
  args.bias->shape[2] = 70;
  const Problem some = make_problem(args);
  CHECK(some.operand_queries == 70);
  CHECK(some.operand_keys == 192);
  args.bias->shape[2] = 1;  // the keys of all sequences
  const Problem keys = make_problem(args);
  CHECK(keys.bias.packs_keys);
  CHECK_FALSE(keys.bias.vectorized);
  CHECK(keys.operand_keys == problem::kMaxSeqlen);
  CHECK(problem::pattern(keys, keys.bias) == "1h1t");
}

TEST_CASE("a diagonal that moves is a run-time number") {
  ForwardArgs args = forward_args();
  args.causal = true;
  args.diagonal = Diagonal::kTopLeft;
  const Problem still = make_problem(args);
  args.diagonal_offset = -7;
  const Problem moved = make_problem(args);
  CHECK(moved != still);
  CHECK(problem::family(moved) == problem::family(still));
  CHECK(problem::describe(moved).find(" diagonal_offset=-7") != std::string::npos);
}

TEST_CASE("slopes and the diagonal that they need are run-time numbers") {
  ForwardArgs args = forward_args({.batch = 2, .seqlen_q = 64, .seqlen_kv = 64});
  args.alibi_slopes = Tensor::contiguous(args.q.data, DType::kFloat32, {1, args.q.shape[1], 1, 1});
  const Problem square = make_problem(args);
  CHECK(problem::family(square).alibi);
  CHECK_FALSE(problem::family(square).alibi_one_sided);
  CHECK(problem::alibi_pattern(square) == std::string("h"));
  args.diagonal = Diagonal::kTopLeft;
  CHECK(make_problem(args) == square);
  args.alibi_slopes->shape[0] = 2;
  const Problem each = make_problem(args);
  CHECK(problem::alibi_pattern(each) == std::string("bh"));
  args.diagonal = Diagonal::kBottomRight;
  args.diagonal_offset = 9;
  const Problem moved = make_problem(args);
  CHECK(moved != each);
  CHECK(problem::family(moved) == problem::family(square));
  CHECK(problem::describe(moved).find(" alibi=bh diagonal=bottom_right diagonal_offset=9") !=
        std::string::npos);
}

TEST_CASE("slopes are one-sided where no key past their diagonal is kept") {
  ForwardArgs args = forward_args({.batch = 2, .seqlen_q = 64, .seqlen_kv = 64});
  args.alibi_slopes = Tensor::contiguous(args.q.data, DType::kFloat32, {1, args.q.shape[1], 1, 1});
  const auto one_sided = [&](std::int64_t left, std::int64_t right) {
    args.window = {left, right};
    return problem::family(make_problem(args)).alibi_one_sided;
  };
  args.diagonal = Diagonal::kTopLeft;
  CHECK_FALSE(one_sided(5, -1));  // open
  CHECK_FALSE(one_sided(5, 1));
  CHECK(one_sided(5, 0));
  CHECK(one_sided(-1, 0));
  args.window = {};
  args.causal = true;
  CHECK(problem::family(make_problem(args)).alibi_one_sided);
  args.diagonal_offset = 40;  // of both, the slopes' and the mask's
  CHECK(problem::family(make_problem(args)).alibi_one_sided);
  args.alibi_slopes.reset();
  CHECK_FALSE(problem::family(make_problem(args)).alibi_one_sided);
}

TEST_CASE(
    "largest scores of rows and of heads are one family, and a problem without rows has some") {
  ForwardArgs args = forward_args();
  const Problem without = make_problem(args);
  CHECK_FALSE(problem::family(without).row_max);
  args.row_max = test::fake_address<float>(7);
  const Problem rows = make_problem(args);
  args.row_max = nullptr;
  args.max_logits = test::fake_address<float>(7);
  const Problem heads = make_problem(args);
  CHECK(rows != heads);
  CHECK(problem::family(rows) == problem::family(heads));
  CHECK(problem::family(rows).row_max);
  CHECK(problem::describe(rows).find(" row_max") != std::string::npos);
  CHECK(problem::describe(heads).find(" max_logits") != std::string::npos);
  CHECK(problem::describe(problem::family(heads)).find(" row_max") != std::string::npos);
  args.q.shape[2] = args.out.shape[2] = 0;
  CHECK_FALSE(make_problem(args).empty());
  CHECK_FALSE(make_problem(args).has_rows());
  args.row_max = std::exchange(args.max_logits, nullptr);
  CHECK(make_problem(args).empty());
}

TEST_CASE("the scale defaults to 1 / sqrt(D), and zero has no sign") {
  CHECK(make_problem(forward_args({.head_dim = 64})).scale == 0.125f);
  ForwardArgs args = forward_args();
  args.scale = -0.0f;
  CHECK_FALSE(std::signbit(make_problem(args).scale));
  CHECK_FALSE(problem::family(make_problem(args)).positive_scale);
  args.scale = 0.125f;
  CHECK(make_problem(args) == make_problem(forward_args()));
  CHECK(problem::family(make_problem(args)).positive_scale);
}

TEST_CASE("a softcap of 0 is none, and its value is a run-time number") {
  ForwardArgs args = forward_args();
  args.softcap = 0.0f;
  CHECK(make_problem(args) == make_problem(forward_args()));
  args.softcap = 30.0f;
  const Problem capped = make_problem(args);
  CHECK(problem::family(capped).softcap);
  CHECK(problem::describe(capped).find(" softcap=30") != std::string::npos);
  args.softcap = 50.0f;
  CHECK(problem::family(make_problem(args)) == problem::family(capped));
  CHECK_FALSE(make_problem(args) == capped);
}

TEST_CASE("aligned needs every base, stride and width to be multiples of 16 bytes") {
  CHECK(aligned_after([](auto&) {}));
  CHECK(aligned_after([](auto& a) { shift(a.q.data, 16); }));
  CHECK(aligned_after([](auto& a) { a.k.strides = {80, 0, 24, 1}; }));
  // Tensor maps have no such strides.
  CHECK_FALSE(aligned_after([](auto& a) { a.k.strides = {-80, 0, 24, 1}; }));
  CHECK_FALSE(aligned_after([](auto& a) { a.out.strides[0] = std::int64_t{1} << 50; }));
  CHECK_FALSE(aligned_after([](auto& a) { shift(a.q.data, 2); }));
  CHECK_FALSE(aligned_after([](auto& a) { shift(a.k.data, 8); }));
  CHECK_FALSE(aligned_after([](auto& a) { shift(a.v.data, 14); }));
  CHECK_FALSE(aligned_after([](auto& a) { shift(a.out.data, 4); }));
  CHECK_FALSE(aligned_after([](auto& a) { a.q.strides[0] += 4; }));
  CHECK_FALSE(aligned_after([](auto& a) { a.k.strides[1] += 1; }));
  CHECK_FALSE(aligned_after([](auto& a) { a.v.strides[2] += 12; }));
  CHECK_FALSE(aligned_after([](auto& a) { a.out.strides[0] += 2; }));
  CHECK_FALSE(make_problem(forward_args({.head_dim = 100})).aligned);
  CHECK_FALSE(make_problem(forward_args({.head_dim_v = 100})).aligned);
  CHECK(make_problem(forward_args({.head_dim = 8, .head_dim_v = 248})).aligned);
}

TEST_CASE("an operand is vectorised where 16 bytes of a row can be read at once") {
  ForwardArgs args = forward_args();
  const auto vectorized = [&](DType dtype, int axis, std::int64_t stride, std::uintptr_t offset) {
    const bool is_mask = dtype == DType::kBool;
    Tensor tensor = operand(args, "bhqk", dtype);
    if (axis >= 0) tensor.strides[axis] = stride;
    shift(tensor.data, offset);
    args.mask.reset();
    args.bias.reset();
    (is_mask ? args.mask : args.bias) = tensor;
    const Problem p = make_problem(args);
    CHECK(problem::family(p).mask_vectorized == p.mask.vectorized);
    CHECK(problem::family(p).bias_vectorized == p.bias.vectorized);
    return is_mask ? p.mask.vectorized : p.bias.vectorized;
  };
  CHECK(vectorized(DType::kBool, -1, 0, 0));
  CHECK(vectorized(DType::kBool, 2, 208, 16));
  CHECK_FALSE(vectorized(DType::kBool, 2, 200, 0));
  CHECK_FALSE(vectorized(DType::kBool, -1, 0, 8));
  CHECK_FALSE(vectorized(DType::kBool, 3, 2, 0));
  CHECK(vectorized(DType::kBFloat16, 2, 200, 0));
  CHECK_FALSE(vectorized(DType::kBFloat16, 2, 204, 0));
  CHECK_FALSE(vectorized(DType::kBFloat16, 0, 4, 0));
  CHECK(vectorized(DType::kFloat32, 1, 204, 0));
  CHECK_FALSE(vectorized(DType::kFloat32, 1, 206, 0));
  CHECK_FALSE(vectorized(DType::kFloat32, -1, 0, 8));
}

TEST_CASE("lengths fall into buckets") {
  const std::pair<int, int> cases[] = {
      {0, 1},         {1, 1},         {2, 16},        {16, 16},        {17, 64},     {64, 64},
      {65, 128},      {128, 128},     {129, 256},     {4096, 4096},    {4097, 8192}, {16384, 16384},
      {16385, 32768}, {32768, 32768}, {32769, 32768}, {1 << 29, 32768}};
  for (const auto& [length, bucket] : cases) {
    CAPTURE(length);
    CHECK(problem::length_bucket(length) == bucket);
  }
}

TEST_CASE("numbers of planes fall into buckets") {
  const std::pair<std::int64_t, int> cases[] = {{0, 1},
                                                {1, 1},
                                                {2, 4},
                                                {4, 4},
                                                {5, 16},
                                                {64, 64},
                                                {65, 256},
                                                {257, 1024},
                                                {1024, 1024},
                                                {1025, 1024},
                                                {std::int64_t{1} << 40, 1024}};
  for (const auto& [planes, bucket] : cases) {
    CAPTURE(planes);
    CHECK(problem::plane_bucket(planes) == bucket);
  }
}

TEST_CASE("a plan is looked up by family and buckets, and by nothing else") {
  const auto key = [](const Sizes& sizes) {
    ForwardArgs args = forward_args(sizes);
    args.bias = test::bias(args, "bhqk");
    args.causal = true;
    args.diagonal = Diagonal::kTopLeft;
    return problem::plan_key(make_problem(args));
  };
  const problem::PlanKey base = key({});
  CHECK(base == key({.batch = 5}));
  CHECK(base == key({.batch = 30, .heads_q = 4, .heads_kv = 1}));
  CHECK(base == key({.seqlen_q = 100, .seqlen_kv = 129}));
  CHECK(base != key({.heads_q = 16}));
  CHECK(base != key({.batch = 9}));
  CHECK(base != key({.batch = 2}));
  CHECK(base != key({.seqlen_q = 129}));
  CHECK(base != key({.seqlen_kv = 257}));
  CHECK(base != key({.head_dim = 72}));
  CHECK(base != key({.head_dim_v = 64}));
  CHECK(base != key({.dtype = DType::kFloat16}));
}

TEST_CASE("many short planes have buckets of 16 rows and keys") {
  const auto buckets = [](const Sizes& sizes, auto change) {
    ForwardArgs args = forward_args(sizes);
    change(args);
    const problem::PlanKey key = problem::plan_key(make_problem(args));
    return std::pair(key.bucket_q, key.bucket_kv);
  };
  const auto nothing = [](ForwardArgs&) {};
  Sizes sizes{.batch = 13, .heads_q = 5, .heads_kv = 5, .seqlen_q = 144, .seqlen_kv = 65};
  sizes.head_dim = sizes.head_dim_v = 64;
  CHECK(buckets(sizes, nothing) == std::pair(144, 80));
  CHECK(buckets(sizes, [](ForwardArgs& args) {
          args.causal = true;
          args.diagonal = Diagonal::kTopLeft;
        }) == std::pair(256, 128));
  sizes.seqlen_kv = 197;  // as ViT has it
  CHECK(buckets(sizes, nothing) == std::pair(256, 256));
  sizes.head_dim = sizes.head_dim_v = 32;
  CHECK(buckets(sizes, nothing) == std::pair(144, 208));
  sizes.head_dim = sizes.head_dim_v = 64;
  sizes.seqlen_kv = 65;
  for (const auto& [member, value] : {std::pair(&Sizes::batch, 12),
                                      {&Sizes::heads_kv, 1},
                                      {&Sizes::head_dim, 72},
                                      {&Sizes::seqlen_kv, 64},
                                      {&Sizes::seqlen_kv, 161}}) {
    Sizes other = sizes;
    other.*member = value;
    CAPTURE(value);
    CHECK(buckets(other, nothing).first == 256);
  }
}

TEST_CASE("texts name what there is and nothing else") {
  ForwardArgs args = forward_args();
  CHECK(problem::describe(make_problem(args)) == "bf16 b4 h32/8 lq128 lk192 d64 dv128");
  CHECK(problem::describe(problem::family(make_problem(args))) == "bf16 d64 dv128 gqa4");
  CHECK(problem::describe(problem::plan_key(make_problem(args))) ==
        "[bf16 d64 dv128 gqa4], lq <= 128, lk <= 256, planes <= 256");
  args.mask = mask(args, "b11k");
  args.bias = operand(args, "bgqk", DType::kFloat32);
  args.bias->strides[3] = 2;
  args.window = {7, -1};
  args.diagonal = Diagonal::kBottomRight;
  args.scale = -1.0f;
  args.lse = test::fake_address<float>(6);
  args.seqlens_kv = test::fake_address<std::int32_t>(7);
  shift(args.q.data, 2);
  CHECK(problem::describe(make_problem(args)) ==
        "bf16 b4 h32/8 lq128 lk192 d64 dv128 window=7,open diagonal=bottom_right seqlens_kv "
        "mask=b11k bias=bgqk(fp32) scale=-1 lse unaligned");
  CHECK(problem::describe(problem::family(make_problem(args))) ==
        "bf16 d64 dv128 gqa4 left seqlens mask=1k bias=qk,fp32,scalar unaligned scale<=0");
}

TEST_CASE("a plan knows whether a mask or bias differs between heads") {
  const auto key = [](const char* mask_pattern, const char* bias_pattern) {
    ForwardArgs args = forward_args();
    args.mask = mask(args, mask_pattern);
    args.bias = test::bias(args, bias_pattern);
    return problem::plan_key(make_problem(args));
  };
  CHECK_FALSE(key("b1qk", "11qk").mask_per_head);
  CHECK_FALSE(key("b1qk", "11qk").bias_per_head);
  CHECK(key("bgqk", "11qk").mask_per_head);
  CHECK(key("b1qk", "1hqk").bias_per_head);
  CHECK_FALSE(problem::plan_key(make_problem(forward_args())).mask_per_head);
}

TEST_CASE("keys of planes that share a bias have buckets of their own") {
  const auto bucket = [](std::int64_t batch, std::int64_t keys, const char* bias) {
    ForwardArgs args = forward_args();
    for (Tensor* tensor : {&args.q, &args.k, &args.v, &args.out}) {
      tensor->shape[0] = batch;
      tensor->shape[1] = 4;
    }
    args.k.shape[2] = args.v.shape[2] = keys;
    args.bias = test::bias(args, bias);
    return problem::plan_key(make_problem(args)).bucket_kv;
  };
  CHECK(bucket(64, 371, "1hqk") == 384);
  CHECK(bucket(64, 289, "11qk") == 384);
  CHECK(bucket(64, 256, "1hqk") == 288);
  CHECK(bucket(64, 209, "1hqk") == 288);
  CHECK(bucket(64, 208, "1hqk") != 288);
  CHECK(bucket(64, 385, "1hqk") == 512);
  CHECK(bucket(64, 371, "bhqk") == 512);
  CHECK(bucket(64, 371, "1h1k") == 512);
  CHECK(bucket(31, 371, "1hqk") == 512);
  for (std::int32_t length : problem::kLengthBuckets) CHECK_FALSE(problem::is_strip_bucket(length));
}
