#pragma once
#include "attnjit/ptx/math.cuh"
#include "attnjit/score/feature.cuh"
#include "attnjit/score/formula_pairs.cuh"
#include "attnjit/score/formula_ranges.cuh"
#include "attnjit/tile/tile_votes.cuh"

namespace attnjit::kernel {

// Keeps the pairs of a row and a key for which a formula holds, rendered from a keep expression as
// a struct (codegen/keep_code.cpp). It is evaluated pair by pair in tiles that it cuts; those that
// interval arithmetic proves full run without mask code, and keys that no row may keep by a bound
// or by a term about keys alone are not read.
template <ScoreShape kShape, class Formula>
struct KeepPairs : Feature {
  static constexpr bool kPerHead = Formula::kUsesHead;
  static constexpr bool kNarrows = Formula::kNarrows, kPicksKeys = Formula::kPicksKeys;
  static constexpr bool kSlides = kNarrows;
  using Params = ExpressionParams<Formula::kOperands>;

  const Params& params;
  formula::Place at;

  ATTNJIT_DEVICE explicit KeepPairs(const Params& p) : params(p), at{} {}

  ATTNJIT_DEVICE void begin(const Block& block) { at = formula::place_of<kShape>(params, block); }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team, const Block& block, KeyRange& keys) {
    if constexpr (kNarrows) {
      if (block.end_query <= block.first_query) {
        keys.end = keys.begin;
        return;
      }
      formula::Span span(keys.begin, keys.end - 1);
      Formula::narrow(params, at, {block.first_query, block.end_query - 1}, span);
      keys = {static_cast<int>(span.first), static_cast<int>(span.last) + 1};
    }
  }
  ATTNJIT_DEVICE bool reads_key(int key) const { return Formula::reads_key(params, at, key); }

  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    for_each(block, first_key, [&](bool keeps, int, int, int m, int n, int e) {
      if (!keeps) scores[m][n][e] = -ptx::infinity();
    });
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    if constexpr (kShape.queries_in_rows()) {
      keep_spans(block, kept, first_key);
    } else {
      for_each(block, first_key, [&](bool keeps, int line, int key, int, int, int) {
        kept.keep_pair(line, key, keeps);
      });
    }
  }

 protected:
  // The formula's verdict on the rows `i` and the keys of a tile, as far as there are any.
  ATTNJIT_DEVICE TileUse use_of(const formula::Place& place, formula::Span i, int first_key,
                                int end_key) const {
    if constexpr (Formula::kKnowsTiles) {
      constexpr int kHeads = kShape.pack_gqa_heads;
      const int last = end_key - 1;
      const formula::Span j = {first_key, last < first_key ? first_key : last};
      const formula::Truth kept =
          Formula::tile(params, place, {place.h, place.h + kHeads - 1}, i, j);
      return !kept.may_hold ? TileUse::kSkip : kept.may_fail ? TileUse::kMasked : TileUse::kPlain;
    } else {
      return TileUse::kMasked;
    }
  }

 private:
  // Span by span and key after key, so that neighbours that are read together wait in registers for
  // their pairs alone.
  template <class K>
  ATTNJIT_DEVICE void keep_spans(const Block& block, K& kept, int first_key) const {
    constexpr ScoreShape kSpan = one_span();
#pragma unroll
    for (int s = 0; s < kShape.keys() / kSpan.keys(); ++s) {
      uint32 dropped[kShape.lines()] = {};
      for_each<kSpan>(block, first_key + kSpan.keys() * s,
                      [&](bool keeps, int line, int key, int, int, int) {
                        dropped[line] |= keeps ? 0u : 1u << key;
                      });
#pragma unroll
      for (int line = 0; line < kShape.lines(); ++line) kept.drop(line, s, dropped[line]);
    }
  }
  // In KeyOrder a thread's keys of a span follow one another.
  ATTNJIT_CONSTEXPR static ScoreShape one_span() {
    ScoreShape shape = kShape;
    shape.groups = kShape.span() / 8;
    shape.strided_keys = 0;
    return shape;
  }
  template <ScoreShape kPart = kShape, class Visit>
  ATTNJIT_DEVICE void for_each(const Block& block, int first_key, Visit visit) const {
    const formula::Pairs<kPart, Formula, Params> pairs(params, block, at, first_key);
    pairs.for_each(
        [&](const auto& row, const auto& key, int line, int distance, int m, int n, int e) {
          visit(Formula::keeps(params, row.at, pairs.head, row.values, key.values, row.i, key.j),
                line, distance, m, n, e);
        });
  }
};

// In the forward, which asks about the tiles of keys of its rows.
template <ScoreShape kShape, class Formula>
struct KeepExpression : KeepPairs<kShape, Formula> {
  using Base = KeepPairs<kShape, Formula>;
  using Base::at;

  TileVotes votes;

  ATTNJIT_DEVICE explicit KeepExpression(const typename Base::Params& p) : Base(p) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    Base::begin(block);
    votes.begin();
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    if constexpr (!Formula::kKnowsTiles) return TileUse::kMasked;
    return votes.use(tile, [&](int lanes_tile) { return use_of_lane(block, lanes_tile); });
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) const {
    if (block.end_query <= block.first_query) return TileUse::kSkip;
    const int first = tile * kShape.block_kv, end = first + kShape.block_kv;
    return this->use_of(at, {block.first_query, block.end_query - 1}, first,
                        end < block.kv_len ? end : block.kv_len);
  }
};

// In the backward, which asks about whole tiles of any head of the kv head.
template <ScoreShape kShape, class Formula>
struct BackwardKeepExpression : KeepPairs<kShape, Formula> {
  using Base = KeepPairs<kShape, Formula>;
  using Base::at;

  int query_len, kv_len;

  ATTNJIT_DEVICE explicit BackwardKeepExpression(const typename Base::Params& p)
      : Base(p), query_len(0), kv_len(0) {}

  ATTNJIT_DEVICE void begin(const Block& block) {
    Base::begin(block);
    query_len = block.query_len;
    kv_len = block.kv_len;
  }
  ATTNJIT_DEVICE TileUse tile_use(int, int head, int q_tile, int kv_tile) const {
    return use_of_keys(head, q_tile, kv_tile * kShape.block_kv, kShape.block_kv);
  }
  template <int kParts>
  ATTNJIT_DEVICE TileUse part_use(int, int head, int q_tile, int kv_tile, int part) const {
    constexpr int kKeys = kShape.block_kv / kParts;
    const int first = kv_tile * kShape.block_kv + part * kKeys;
    return first < kv_len ? use_of_keys(head, q_tile, first, kKeys) : TileUse::kSkip;
  }

 private:
  // Of `keys` keys from `first` on.
  ATTNJIT_DEVICE TileUse use_of_keys(int head, int q_tile, int first, int keys) const {
    formula::Place place = at;
    place.h = head;
    const int first_row = q_tile * kShape.block_q, end_row = first_row + kShape.block_q;
    const int last_row = (end_row < query_len ? end_row : query_len) - 1;
    if (last_row < first_row) return TileUse::kSkip;
    const int end = first + keys;
    return this->use_of(place, {first_row, last_row}, first, end < kv_len ? end : kv_len);
  }
};

}  // namespace attnjit::kernel
