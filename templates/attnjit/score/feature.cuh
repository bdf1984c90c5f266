#pragma once
#include "attnjit/ptx/device.cuh"
#include "attnjit/score/block.cuh"
#include "attnjit/tensor_map.h"
#include "attnjit/tile/tile_use.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// TileUse::kPlain as a type: of a tile that is known to need no mask when the kernel is compiled,
// and to lie inside of the tensors.
struct PlainTile {
  ATTNJIT_DEVICE operator TileUse() const { return TileUse::kPlain; }
};

// Keys that any query of the block may see.
struct KeyRange {
  int begin, end;
};

// What softmax knows of one row at the end.
struct RowState {
  float max;  // largest score, scale and bias included; -inf if there is none
  float sum;  // of exp(score - max); 0 marks a dead row
  // What `out` is divided by: the sum of the probabilities that multiplied V. Where these were
  // rounded against a reference other than the largest score, it is the sum of the rounded ones.
  float divisor;
};

// A feature changes scores or drops them. Its verbs do nothing unless the feature says otherwise.
//
// Those of the walk find out which tiles of keys are worked on. Those of the scores work on a tile.
// The two share nothing but what begin() sets, so that different warps may call them, each on a set
// of features of its own.
struct Feature {
  // Whether scores are changed by more than an addition: transform() and differentiate() are there.
  static constexpr bool kTransforms = false;
  // Whether scores are added to: add() is there.
  static constexpr bool kAdds = false;
  // Whether what is added may be infinite or NaN, also where keys are dropped.
  static constexpr bool kAddsAny = false;
  // Whether exponents can be computed from the scores that transform() and add() have not changed.
  static constexpr bool kInExponents = false;
  // Whether narrow() may leave out keys inside of the tensors; whether reads_key() may, in masked
  // tiles.
  static constexpr bool kNarrows = false, kPicksKeys = false;
  // Whether keys begin and end later from row to row, so that a part of a block's rows sees fewer
  // tiles than the block.
  static constexpr bool kSlides = false;
  // Whether the feature has dropped keys as bits, so that keep() of all features, which takes more
  // registers, is faster than mask().
  static constexpr bool kHasBits = false;
  // Whether begin() looks at the head.
  static constexpr bool kPerHead = false;
  // Whether the kernel ahead may write what the feature reads.
  static constexpr bool kAwaits = false;
  // Whether tiles are those of packed sequences: find_queries() and find_keys() tell of which.
  static constexpr bool kPacksSequences = false;
  // Whether the largest scores of rows are wanted: write_max() is there.
  static constexpr bool kKeepsMaxima = false;
  // Keys of a page, where each has an address of its own: find_pages() and load_keys() are there.
  static constexpr int kPageSize = 0;
  // Whether k and v are pools of pages for all batch elements: tile_source() is there.
  static constexpr bool kHasPools = false;

  // Sets the batch element of tile `tile` of queries, whose rows are kHeads of each, or of keys, if
  // tiles of all batch elements are numbered together. Returns the tile's number in the element.
  // Warps call it whole.
  template <int kHeads>
  ATTNJIT_DEVICE int find_queries(int&, int tile, int) const {
    return tile;
  }
  ATTNJIT_DEVICE int find_keys(int&, int tile, int) const { return tile; }

  // Whether the last keys tend to have the greatest scores of causal rows, so that a walk which
  // begins with them keeps its first reference.
  static constexpr bool kLastFirst = false;
  // Sets the lengths of the block's batch element.
  ATTNJIT_DEVICE void set_lengths(Block&) {}
  // Finds out what the feature needs to know of the block.
  ATTNJIT_DEVICE void begin(const Block&) {}

  // The walk. Narrows the keys that the block's queries may see; the threads of `Team` call it
  // together.
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team, const Block&, KeyRange&) {}
  // Tells what the tile of keys `tile` needs. Warps call it whole, of one tile, where a feature
  // has a use_of_lane() for lanes that ask about a tile each.
  ATTNJIT_DEVICE TileUse use(const Block&, int) { return TileUse::kPlain; }
  // Whether K and V of `key` may be read.
  ATTNJIT_DEVICE bool reads_key(int) const { return true; }

  // Asks for what fetch() will read of the tile that begins at `first_key`, as far as L2; one
  // thread does.
  ATTNJIT_DEVICE void prefetch_tile(const Block&, int, const TensorMap&) {}

  // Starts loading the tile of a bias that begins at `first_key` and block.first_query to shared
  // memory at `tile`, which lands at the mbarrier `full`; one thread does.
  ATTNJIT_DEVICE void load_tile(const Block&, int, const TensorMap&, uint32, uint32) {}
  // Learns where the tile at hand has landed.
  ATTNJIT_DEVICE void receive_tile(uint32) {}
  // Reads that of a bias from global memory and keeps it there.
  ATTNJIT_DEVICE void hold_tile(const Block&, int) {}

  // The scores of a tile that begins at `first_key`, in the order of the calls. Starts reading what
  // the others will want.
  ATTNJIT_DEVICE void fetch(const Block&, int, TileUse) {}
  // Changes scaled scores in place.
  template <class S>
  ATTNJIT_DEVICE void transform(const Block&, S&, int) {}
  // The same, and multiplies `slopes` by the derivative.
  template <class S>
  ATTNJIT_DEVICE void differentiate(const Block&, S&, S&, int) {}
  // Multiplies the scores by the scale that they lack and adds to them, where kAdds.
  template <class S>
  ATTNJIT_DEVICE void add(const Block&, S&, float, int) {}
  // The same score by score, for loops that go through them anyway: begin_add() once, then each
  // score times its scale with all that is added to it.
  ATTNJIT_DEVICE void begin_add(const Block&, int) {}
  ATTNJIT_DEVICE float added(float score, float, int, int) const { return score; }
  // These stand for transform() and add(), score by score on the way to the exponent: unscaled
  // scores of the tile that begins at `first_key` are transformed(), multiplied by
  // exponent_factor(), and the addends come on top of `start` in log2 units: of a line, and of each
  // of its keys. in_exponents_fit() tells after the tile whether that was as exact as the other
  // way.
  ATTNJIT_DEVICE void begin_exponents(const Block&, int) {}
  ATTNJIT_DEVICE float exponent_factor(float factor) const { return factor; }
  ATTNJIT_DEVICE float transformed(float score) { return score; }
  ATTNJIT_DEVICE float line_addend(float start, int) const { return start; }
  ATTNJIT_DEVICE float addend(float start, int, int) const { return start; }
  ATTNJIT_DEVICE bool in_exponents_fit() const { return true; }
  // Sets dropped scores to -inf; called for masked tiles only.
  template <class S>
  ATTNJIT_DEVICE void mask(const Block&, S&, int) {}
  // The same in bits (score/kept_keys.cuh, score/kept_queries.cuh), in place of mask().
  template <class K>
  ATTNJIT_DEVICE void keep(const Block&, K&, int) {}
  // Last word on a row.
  ATTNJIT_DEVICE void finish(const Block&, const RowOwner&, RowState&) {}
  // Adds to a ClosedRow what has no key; called once for a row.
  template <class Row>
  ATTNJIT_DEVICE void close(const Block&, Row&) {}
};

// All features of a kernel as one.
template <class... Features>
struct FeatureSet : Features... {
  static constexpr bool kTransforms = (Features::kTransforms || ...);
  static constexpr bool kAdds = (Features::kAdds || ...);
  static constexpr bool kAddsAny = (Features::kAddsAny || ...);
  // Both at once need more registers than there are.
  static constexpr bool kInExponents =
      kTransforms != kAdds &&
      ((Features::kInExponents || !(Features::kTransforms || Features::kAdds)) && ...);
  static constexpr bool kNarrows = (Features::kNarrows || ...);
  static constexpr bool kPicksKeys = (Features::kPicksKeys || ...);
  static constexpr bool kSlides = (Features::kSlides || ...);
  static constexpr bool kHasBits = (Features::kHasBits || ...);
  static constexpr bool kPerHead = (Features::kPerHead || ...);
  static constexpr bool kAwaits = (Features::kAwaits || ...);
  static constexpr bool kPacksSequences = (Features::kPacksSequences || ...);
  static constexpr bool kKeepsMaxima = (Features::kKeepsMaxima || ...);
  static constexpr bool kLastFirst = (Features::kLastFirst || ...);
  static constexpr int kPageSize = (0 + ... + Features::kPageSize);
  static constexpr bool kHasPools = (Features::kHasPools || ...);

  ATTNJIT_DEVICE explicit FeatureSet(Features... features) : Features(features)... {}

  template <int kHeads>
  ATTNJIT_DEVICE int find_queries(int& batch, int tile, int size) const {
    ((tile = Features::template find_queries<kHeads>(batch, tile, size)), ...);
    return tile;
  }
  ATTNJIT_DEVICE int find_keys(int& batch, int tile, int size) const {
    ((tile = Features::find_keys(batch, tile, size)), ...);
    return tile;
  }
  ATTNJIT_DEVICE void set_lengths(Block& block) { (Features::set_lengths(block), ...); }
  ATTNJIT_DEVICE void begin(const Block& block) { (Features::begin(block), ...); }
  template <class Team>
  ATTNJIT_DEVICE void narrow(Team team, const Block& block, KeyRange& keys) {
    (Features::narrow(team, block, keys), ...);
  }
  ATTNJIT_DEVICE TileUse use(const Block& block, int tile) {
    TileUse lowest = TileUse::kPlain;
    ((lowest = lower(lowest, Features::use(block, tile))), ...);
    return lowest;
  }
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) {
    TileUse lowest = TileUse::kPlain;
    ((lowest = lower(lowest, use_of_lane<Features>(block, tile))), ...);
    return lowest;
  }
  ATTNJIT_DEVICE bool reads_key(int key) const { return (Features::reads_key(key) && ...); }
  ATTNJIT_DEVICE void prefetch_tile(const Block& block, int first_key, const TensorMap& bias) {
    (Features::prefetch_tile(block, first_key, bias), ...);
  }
  ATTNJIT_DEVICE void load_tile(const Block& block, int first_key, const TensorMap& bias,
                                uint32 tile, uint32 full) {
    (Features::load_tile(block, first_key, bias, tile, full), ...);
  }
  ATTNJIT_DEVICE void receive_tile(uint32 tile) { (Features::receive_tile(tile), ...); }
  ATTNJIT_DEVICE void hold_tile(const Block& block, int first_key) {
    (Features::hold_tile(block, first_key), ...);
  }
  template <class Use>
  ATTNJIT_DEVICE void fetch(const Block& block, int first_key, Use use) {
    (Features::fetch(block, first_key, use), ...);
  }
  // Scales the scores and transforms them, where kTransforms. Returns the scale that they still
  // lack.
  template <class S>
  ATTNJIT_DEVICE float transform(const Block& block, S& scores, float scale, int first_key) {
    if constexpr (!kTransforms) return scale;
    scores *= scale;
    (Features::transform(block, scores, first_key), ...);
    return 1.0f;
  }
  // The same, and sets `slopes` to the derivatives.
  template <class S>
  ATTNJIT_DEVICE float differentiate(const Block& block, S& scores, S& slopes, float scale,
                                     int first_key) {
    scores *= scale;
    slopes = 1.0f;
    (Features::differentiate(block, scores, slopes, first_key), ...);
    return 1.0f;
  }
  // The first feature that adds scales the scores as well, in one fused product.
  template <class S>
  ATTNJIT_DEVICE void add(const Block& block, S& scores, float scale, int first_key) {
    ((Features::add(block, scores, scale, first_key), scale = Features::kAdds ? 1.0f : scale), ...);
    if constexpr (!kAdds) scores *= scale;
  }
  ATTNJIT_DEVICE void begin_add(const Block& block, int first_key) {
    (Features::begin_add(block, first_key), ...);
  }
  ATTNJIT_DEVICE float added(float score, float scale, int line, int key) const {
    ((score = Features::added(score, scale, line, key), scale = Features::kAdds ? 1.0f : scale),
     ...);
    return kAdds ? score : score * scale;
  }
  ATTNJIT_DEVICE void begin_exponents(const Block& block, int first_key) {
    (Features::begin_exponents(block, first_key), ...);
  }
  ATTNJIT_DEVICE float exponent_factor(float factor) const {
    ((factor = Features::exponent_factor(factor)), ...);
    return factor;
  }
  ATTNJIT_DEVICE float transformed(float score) {
    ((score = Features::transformed(score)), ...);
    return score;
  }
  ATTNJIT_DEVICE float line_addend(float start, int line) const {
    ((start = Features::line_addend(start, line)), ...);
    return start;
  }
  ATTNJIT_DEVICE float addend(float start, int line, int key) const {
    ((start = Features::addend(start, line, key)), ...);
    return start;
  }
  ATTNJIT_DEVICE bool in_exponents_fit() const { return (Features::in_exponents_fit() && ...); }
  template <class S>
  ATTNJIT_DEVICE void mask(const Block& block, S& scores, int first_key) {
    (Features::mask(block, scores, first_key), ...);
  }
  template <class K>
  ATTNJIT_DEVICE void keep(const Block& block, K& kept, int first_key) {
    (Features::keep(block, kept, first_key), ...);
  }
  // Sets dropped scores to -inf, by the one or the other.
  template <class K, class S>
  ATTNJIT_DEVICE void drop(const Block& block, S& scores, int first_key) {
    if constexpr (kHasBits) {
      K kept;
      keep(block, kept, first_key);
      kept.apply(scores);
    } else {
      mask(block, scores, first_key);
    }
  }
  ATTNJIT_DEVICE void finish(const Block& block, const RowOwner& owner, RowState& row) {
    (Features::finish(block, owner, row), ...);
  }
  template <class Row>
  ATTNJIT_DEVICE void close(const Block& block, Row& row) {
    (Features::close(block, row), ...);
  }

 private:
  template <class F>
  ATTNJIT_DEVICE TileUse use_of_lane(const Block& block, int tile) {
    if constexpr (requires(F & f) { f.use_of_lane(block, tile); }) {
      return F::use_of_lane(block, tile);
    } else {
      return F::use(block, tile);
    }
  }
  ATTNJIT_DEVICE static TileUse lower(TileUse a, TileUse b) { return a < b ? a : b; }
};

}  // namespace attnjit::kernel
