#include "explain/pairs.hpp"

#include <doctest/doctest.h>

#include "unit/forward_fixtures.hpp"

namespace attnjit::explain {
namespace {

using test::forward_args;
using test::Sizes;

constexpr TileSize kTile{128, 64};

TEST_CASE("pairs of all tiles are counted where nothing bounds the keys") {
  const Pairs pairs = count_pairs(
      problem::make_problem(forward_args({.seqlen_q = 200, .seqlen_kv = 192})), kTile, {});
  constexpr double kPlanes = 4 * 32;
  CHECK(pairs.kept == kPlanes * 200 * 192);
  CHECK(pairs.tiles == kPlanes * 2 * 3);
  CHECK(pairs.walked == kPlanes * 256 * 192);
  CHECK(pairs.longest == 3);
}

TEST_CASE("query heads that share a tile have fewer tiles, and the same pairs") {
  const auto problem =
      problem::make_problem(forward_args({.batch = 1, .seqlen_q = 16, .seqlen_kv = 192}));
  const Pairs pairs = count_pairs(problem, {64, 64, 4}, {});
  CHECK(pairs.kept == 32.0 * 16 * 192);
  CHECK(pairs.tiles == 8 * 3);
}

TEST_CASE("a causal mask and a window leave the pairs of their bands") {
  ForwardArgs args = forward_args({.batch = 1, .heads_q = 8, .seqlen_q = 256, .seqlen_kv = 256});
  args.causal = true;
  args.diagonal = Diagonal::kTopLeft;
  const Pairs causal = count_pairs(problem::make_problem(args), kTile, {});
  CHECK(causal.kept == 8.0 * 256 * 257 / 2);
  CHECK(causal.tiles == 8 * (2 + 4));
  CHECK(causal.longest == 4);

  args.window = {.left = 0};
  const Pairs diagonal = count_pairs(problem::make_problem(args), kTile, {});
  CHECK(diagonal.kept == 8.0 * 256);
  CHECK(diagonal.tiles == 8 * (2 + 2));
}

TEST_CASE("the diagonal from the bottom right lies further right where there are more keys") {
  ForwardArgs args = forward_args({.batch = 1, .heads_q = 8, .seqlen_q = 1, .seqlen_kv = 192});
  args.causal = true;
  args.diagonal = Diagonal::kBottomRight;
  CHECK(count_pairs(problem::make_problem(args), kTile, {}).kept == 8.0 * 192);
  args.diagonal = Diagonal::kTopLeft;
  CHECK(count_pairs(problem::make_problem(args), kTile, {}).kept == 8.0);
}

TEST_CASE("packed sequences have pairs of their own, as long as they are known to be") {
  ForwardArgs args = forward_args({.batch = 1, .heads_q = 8, .seqlen_q = 100, .seqlen_kv = 100});
  args.cu_seqlens_q = args.cu_seqlens_kv = test::fake_address<std::int32_t>(8);
  args.num_sequences = 2;
  const problem::Problem problem = problem::make_problem(args);
  CHECK(count_pairs(problem, kTile, {}).kept == 8.0 * 2 * 50 * 50);
  const Values values{.cu_seqlens_q = {0, 10, 100}, .cu_seqlens_kv = {0, 10, 100}};
  CHECK(count_pairs(problem, kTile, values).kept == 8.0 * (10 * 10 + 90 * 90));
}

TEST_CASE("the share of kept tiles counts where a mask or lists can drop some") {
  ForwardArgs args = forward_args();
  const Values values{.kept_tiles = [](int rows, int keys) {
    CHECK(rows == kTile.block_q);
    CHECK(keys == kTile.block_kv);
    return 0.25;
  }};
  const Pairs all = count_pairs(problem::make_problem(args), kTile, values);
  args.mask = test::mask(args, "b1qk");
  const Pairs some = count_pairs(problem::make_problem(args), kTile, values);
  CHECK(some.tiles == all.tiles / 4);
  CHECK(some.kept == all.kept / 4);
}

}  // namespace
}  // namespace attnjit::explain
