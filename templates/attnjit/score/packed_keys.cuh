#pragma once
#include "attnjit/score/feature.cuh"

// Policies for a bias or a dbias with one row of the keys of all packed sequences, read where the
// caller keeps it. Each wraps the policy for a row per sequence, which begins at the sequence's
// keys.
namespace attnjit::kernel {

template <class Inner>
struct PackedKeys : Inner {
  using Inner::Inner;

  ATTNJIT_DEVICE void begin(const Block& block) {
    Inner::begin(block);
    this->plane += block.kv_begin * this->params.key_stride * Inner::kElementBytes;
  }
};

// A gradient of the bias whose queries are reduced, on path wgmma and on path mma.
template <class Inner>
struct PackedKeysSums : Inner {
  using Inner::Inner;

  ATTNJIT_DEVICE void begin_tile(const Block& block, int head, int first_key) {
    Inner::begin_tile(block, head, first_key);
    this->first += block.kv_begin;
  }
};
template <class Inner>
struct PackedKeysGrad : Inner {
  using Inner::Inner;

  ATTNJIT_DEVICE void enter_head(const Block& block) {
    Inner::enter_head(block);
    this->plane += block.kv_begin;
  }
};

}  // namespace attnjit::kernel
