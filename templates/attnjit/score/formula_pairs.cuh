#pragma once
#include "attnjit/score/formula_reads.cuh"
#include "attnjit/score/score_shape.h"
#include "attnjit/tile/fragments.cuh"

// Loops over a thread's pairs of a row and a key that compute what depends on the row once for each
// row, and what depends on the key once for each key.
namespace attnjit::kernel::formula {

// A formula at the rows and keys of a thread in the tile that begins at `first_key`.
template <ScoreShape kShape, class Formula, class Params>
struct Pairs {
  static constexpr bool kPacked = kShape.pack_gqa_heads > 1;
  using Head = typename Formula::Head;
  struct Row {
    Place at;
    int i;
    typename Formula::Row values;
  };
  struct Key {
    int j;
    typename Formula::Key values;
  };

  const Params& params;
  const Block& block;
  const Place& at;
  const int first_key;
  const Head head;

  ATTNJIT_DEVICE Pairs(const Params& p, const Block& b, const Place& place, int key)
      : params(p), block(b), at(place), first_key(key + b.thread_key), head(Formula::head(p, at)) {}

  ATTNJIT_DEVICE Row row(int line) const {
    const int distance = ScoreShape(kShape).row(line), i = block.thread_row + distance;
    if constexpr (kPacked) {
      const RowOwner owner = owner_of<kShape.pack_gqa_heads>(block, i);
      Place place = at;
      place.h = owner.head;
      return {place, owner.query, Formula::row(params, place, head, owner.query, {owner.query, 0})};
    } else {
      return {at, i, Formula::row(params, at, head, i, {block.thread_row, distance})};
    }
  }
  ATTNJIT_DEVICE Key key(int distance) const {
    const int j = first_key + distance;
    const Along along = {first_key, distance, kShape.queries_in_rows()};
    return {j, Formula::key(params, at, head, j, along)};
  }

  // visit(row, key, line, distance, m, n, e) for each pair. Of the rows or keys that are those of
  // the fragments there are few, whose values wait in registers.
  template <class Visit>
  ATTNJIT_DEVICE void for_each(Visit visit) const {
    constexpr int kFew = 2 * kShape.row_tiles;
    const auto few_of = [&](int index) {
      const int m = index / 2, e = index % 2 * 2;
      if constexpr (kShape.queries_in_rows()) {
        return row(ScoreShape(kShape).line(m, 0, e));
      } else {
        return key(ScoreShape(kShape).key(m, 0, e));
      }
    };
    using Few = TypeIf<kShape.queries_in_rows(), Row, Key>;
    Few few[kFew];
#pragma unroll
    for (int index = 0; index < kFew; ++index) few[index] = few_of(index);
#pragma unroll
    for (int n = 0; n < kShape.groups; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if constexpr (kShape.queries_in_rows()) {
          const Key of_column = key(ScoreShape(kShape).key(0, n, c));
#pragma unroll
          for (int index = 0; index < kFew; ++index) {
            visit_pair(visit, few[index], of_column, index / 2, n, index % 2 * 2 + c);
          }
        } else {
          const Row of_column = row(ScoreShape(kShape).line(0, n, c));
#pragma unroll
          for (int index = 0; index < kFew; ++index) {
            visit_pair(visit, of_column, few[index], index / 2, n, index % 2 * 2 + c);
          }
        }
      }
    }
  }

 private:
  template <class Visit>
  ATTNJIT_DEVICE static void visit_pair(Visit& visit, const Row& row, const Key& key, int m, int n,
                                        int e) {
    visit(row, key, ScoreShape(kShape).line(m, n, e), ScoreShape(kShape).key(m, n, e), m, n, e);
  }
};

}  // namespace attnjit::kernel::formula
