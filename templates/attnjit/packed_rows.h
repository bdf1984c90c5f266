#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// Rows of sequences that lie one after another in a tensor without a batch axis.
struct PackedRows {
  const int32* begins;  // [num_sequences + 1]; sequence b has rows begins[b] ... begins[b + 1] - 1
  int32 num_sequences;
  int32 num_rows;  // of the tensor; those past begins[num_sequences] belong to no sequence
};

// A tile of a sequence's rows. One that begins past them has none.
struct PackedTile {
  int32 sequence, tile;
};

// Tiles of `size` rows begin anew in each sequence. They are numbered without a look at the other
// sequences: a sequence has numbers enough, for ceil(n / size) <= (begin + n) / size - begin / size
// + 1, and numbers that are left over have no rows. Rows that belong to no sequence follow as if
// they were one more.
ATTNJIT_CONSTEXPR int first_packed_tile(int begin, int sequence, int size) {
  return begin / size + sequence;
}
ATTNJIT_CONSTEXPR int num_packed_tiles(int num_rows, int num_sequences, int size) {
  return first_packed_tile(num_rows, num_sequences, size) + 1;
}

}  // namespace attnjit::kernel
