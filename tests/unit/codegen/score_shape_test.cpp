// The positions that kernels give their scores: every score of a warp's tile is somebody's.
#include "attnjit/score/score_shape.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "attnjit/backward/mma/config.h"
#include "attnjit/forward/mma/config.h"

namespace codegen_score_shape_test {

using namespace attnjit::kernel;

namespace {

using Positions = std::multiset<std::pair<int, int>>;

Positions positions_of(const ScoreShape& shape) {
  Positions positions;
  for (int lane = 0; lane < 32; ++lane) {
    for (int m = 0; m < shape.row_tiles; ++m) {
      for (int n = 0; n < shape.groups; ++n) {
        for (int e = 0; e < 4; ++e) {
          positions.emplace(ScoreShape(shape).lane_row(lane) +
                                ScoreShape(shape).row(ScoreShape(shape).line(m, n, e)),
                            ScoreShape(shape).lane_key(lane) + ScoreShape(shape).key(m, n, e));
        }
      }
    }
  }
  return positions;
}

Positions rectangle(int rows, int keys) {
  Positions positions;
  for (int row = 0; row < rows; ++row) {
    for (int key = 0; key < keys; ++key) positions.emplace(row, key);
  }
  return positions;
}

constexpr ScoreShape shape(QueryAxis axis) {
  return {.query_axis = axis, .row_tiles = 2, .groups = 8, .pack_gqa_heads = 1, .gqa_ratio = 1};
}

}  // namespace

TEST_CASE("each score of a warp's tile belongs to one lane, whichever axis the queries have") {
  CHECK(positions_of(shape(QueryAxis::kRows)) == rectangle(32, 64));
  CHECK(positions_of(shape(QueryAxis::kColumns)) == rectangle(64, 32));
}

TEST_CASE(
    "strided keys: each score is one lane's, and a thread holds eight neighbouring keys of every "
    "32") {
  for (const int groups : {4, 8, 12, 16}) {
    ScoreShape strided = shape(QueryAxis::kRows);
    strided.groups = groups;
    strided.strided_keys = 8 * groups;
    CHECK(positions_of(strided) == rectangle(32, 8 * groups));
    for (int n = 0; n < groups; ++n) {
      for (int e = 0; e < 2; ++e) CHECK(ScoreShape(strided).key(0, n, e) % 32 < 8);
    }
    // Column c of group n is row 8 n + c of the tile that the copy engine brings.
    for (int n = 0; n < groups; ++n) {
      for (int c = 0; c < 8; ++c) {
        const int key = ScoreShape(strided).lane_key(c / 2) + ScoreShape(strided).key(0, n, c % 2);
        CHECK(attnjit::kernel::StridedKeyOrder::key(8 * groups, 8 * n + c) == key);
      }
    }
  }
}

TEST_CASE(
    "strided keys in boxes: the same within each, and four neighbours where they are 16 keys") {
  for (const int box : {16, 32, 64}) {
    ScoreShape strided = shape(QueryAxis::kRows);
    strided.groups = 16;
    strided.strided_keys = box;
    CHECK(strided.neighbours() == (box == 16 ? 4 : 8));
    CHECK(positions_of(strided) == rectangle(32, 128));
    for (int n = 0; n < strided.groups; ++n) {
      for (int c = 0; c < 8; ++c) {
        CHECK(ScoreShape(strided).key(0, n, c % 2) % strided.span() < strided.neighbours());
        const int row = 8 * n + c, first = row / box * box;
        const int key = ScoreShape(strided).lane_key(c / 2) + ScoreShape(strided).key(0, n, c % 2);
        CHECK(first + attnjit::kernel::StridedKeyOrder::key(box, row % box) == key);
      }
    }
  }
}

TEST_CASE("a shape counts its lines and keys") {
  CHECK(shape(QueryAxis::kRows).lines() == 4);
  CHECK(shape(QueryAxis::kRows).keys() == 64);
  CHECK(shape(QueryAxis::kColumns).lines() == 16);
  CHECK(shape(QueryAxis::kColumns).keys() == 32);
}

TEST_CASE("queries in rows: a thread holds eight neighbouring keys of every 32") {
  constexpr ScoreShape s = shape(QueryAxis::kRows);
  for (int n = 0; n < s.groups; ++n) {
    for (int e = 0; e < 4; ++e) CHECK(ScoreShape(s).key(0, n, e) % 32 < 8);
  }
}

TEST_CASE("the kernels' configs say what their warps hold") {
  ForwardMmaConfig forward{};
  forward.block_q = 128, forward.block_kv = 64, forward.num_warps = 4;
  forward.gqa_ratio = 4, forward.pack_gqa = true;
  CHECK(forward.scores().row_tiles == 2);
  CHECK(forward.scores().keys() == 64);
  CHECK(forward.scores().pack_gqa_heads == 4);
  BackwardMmaConfig backward{};
  backward.block_q = 64, backward.block_kv = 128, backward.num_warps = 8, backward.query_warps = 2;
  backward.gqa_ratio = 4;
  CHECK(backward.scores().row_tiles == 2);
  CHECK(backward.scores().keys() == 32);  // a span
  CHECK(backward.scores().block_kv == 128);
  CHECK(backward.scores().pack_gqa_heads == 1);
}

}  // namespace codegen_score_shape_test
