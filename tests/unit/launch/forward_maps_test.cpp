// Maps that an earlier call has made, with the addresses of a later one.

#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "attnjit/error.hpp"
#include "launch/kernels/forward_kernels.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;

namespace {

int moves = 0;
void* refused = nullptr;

// A stand-in for the driver's encoding: the address, the rank, the first extents and the box.
CUresult CUDAAPI encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address,
                        const cuuint64_t* extents, const cuuint64_t*, const cuuint32_t* box,
                        const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle,
                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  map->opaque[0] = reinterpret_cast<std::uintptr_t>(address);
  map->opaque[1] = rank;
  map->opaque[2] = extents[1];
  map->opaque[3] = box[1];
  map->opaque[4] = steps[1];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI replace(CUtensorMap* map, void* address) {
  ++moves;
  map->opaque[0] = reinterpret_cast<std::uintptr_t>(address);
  return address == refused ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

kernel::ForwardWgmmaConfig config(bool pack_gqa = false, int head_dim = 128) {
  return {.dtype = kernel::DType::kBFloat16,
          .head_dim = head_dim,
          .head_dim_v = head_dim,
          .gqa_ratio = 4,
          .scale_first = false,
          .pack_gqa = pack_gqa,
          .block_q = 128,
          .block_kv = 64,
          .page_kv = 64,
          .num_stages = 2,
          .producer_registers = 40,
          .min_blocks = 1,
          .teams = 1};
}

ForwardArgs args_of(std::int64_t seqlen_kv, bool with_bias = false) {
  ForwardArgs args =
      test::forward_args({.seqlen_kv = seqlen_kv, .head_dim = 128, .head_dim_v = 128});
  if (with_bias) args.bias = test::bias(args, "1hqk");
  return args;
}

bool same_maps(const kernel::ForwardWgmmaParams& a, const kernel::ForwardWgmmaParams& b) {
  const auto same = [](const kernel::TensorMap& one, const kernel::TensorMap& other) {
    return std::memcmp(&one, &other, sizeof one) == 0;
  };
  return same(a.q, b.q) && same(a.k, b.k) && same(a.v, b.v) && same(a.k_tail, b.k_tail) &&
         same(a.v_tail, b.v_tail) && same(a.out, b.out) && same(a.bias, b.bias);
}

// The maps of `args` as they are made at once.
kernel::ForwardWgmmaParams fresh(const kernel::ForwardWgmmaConfig& c, const ForwardArgs& args) {
  kernel::ForwardWgmmaParams params{};
  launch::set_maps(c, problem::make_problem(args), args, encode, {}, params);
  return params;
}

// Those that `first` left, moved to where `args` are.
kernel::ForwardWgmmaParams moved(const kernel::ForwardWgmmaConfig& c, const ForwardArgs& first,
                                 const ForwardArgs& args) {
  launch::TensorMapTable table;
  const launch::TensorMapMaker maker(encode, replace, table);
  const problem::Problem problem = problem::make_problem(args);
  const launch::KeptMaps kept = launch::keep_maps(c, problem, first, maker);
  REQUIRE(kept.has_value());
  kernel::ForwardWgmmaParams params = *kept;
  moves = 0;
  launch::set_maps(c, problem, args, maker, kept, params);
  return params;
}

}  // namespace

TEST_CASE("maps that were kept are those that would be made, whichever tensors have moved") {
  for (const bool pack_gqa : {false, true}) {
    for (const int head_dim : {128, 256}) {
      for (const std::int64_t seqlen_kv : {192, 203}) {
        for (const bool with_bias : {false, true}) {
          const kernel::ForwardWgmmaConfig c = config(pack_gqa, head_dim);
          const ForwardArgs first = args_of(seqlen_kv, with_bias);
          for (int which = 0; which < 32; ++which) {
            ForwardArgs args = first;
            const auto move = [&](int bit, Tensor& tensor) {
              if ((which >> bit & 1) != 0) tensor.data = test::fake_address(40 + bit);
            };
            move(0, args.q);
            move(1, args.k);
            move(2, args.v);
            move(3, args.out);
            if (args.bias) move(4, *args.bias);
            CAPTURE(which);
            CHECK(same_maps(moved(c, first, args), fresh(c, args)));
          }
        }
      }
    }
  }
}

TEST_CASE("the driver is asked for what has moved and has a map") {
  const ForwardArgs first = args_of(203);
  ForwardArgs args = first;
  moved(config(), first, args);
  CHECK(moves == 0);
  args.k.data = test::fake_address(40);
  moved(config(), first, args);
  CHECK(moves == 2);  // and the tail's
  args = first;
  args.out.data = test::fake_address(40);
  moved(config(), first, args);
  CHECK(moves == 1);
  moved(config(true), first, args);
  CHECK(moves == 0);  // written from registers
}

TEST_CASE("nothing is kept without maps of k and v") {
  const auto kept = [](const auto& c, const ForwardArgs& args) {
    return launch::keep_maps(c, problem::make_problem(args), args, encode).has_value();
  };
  CHECK(kept(config(), args_of(192)));
  CHECK_FALSE(kept(kernel::ForwardMmaConfig{}, args_of(192)));
  CHECK_FALSE(kept(config(), args_of(0)));
  CHECK_FALSE(kept(config(), test::forward_args({.seqlen_q = 0})));
}

TEST_CASE("an address that the driver refuses is named") {
  const ForwardArgs first = args_of(192);
  ForwardArgs args = first;
  args.v.data = refused = test::fake_address(40);
  CHECK_THROWS_WITH_AS(moved(config(), first, args), doctest::Contains("for a tensor map of v"),
                       Error);
  refused = nullptr;
}
