#pragma once
#include "attnjit/backward/params.h"
#include "attnjit/tensor_map.h"
#include "attnjit/types.h"

namespace attnjit::kernel {

// Run-time arguments of the Hopper kernels of dk and dv.
struct DkvWgmmaParams {
  BackwardParams base;
  const uint32* row_bf16x3;  // kRowBf16x3Bytes a row, see backward/params.h; padded_rows is a
                             // multiple of block_q
  uint32* dq_semaphores;  // [batch][query head][padded row / 16]: tiles of keys that have added to
                          // dq, or 1 once it has been stored, if the config orders_dq; 0 at first
  int32 num_blocks;    // thread blocks, which share the planes out if the config has owns_kv_head;
                       // base.dq_sum is then [thread block][query head of a kv head][padded row]
  uint32* work_taken;  // tiles of keys that thread blocks have taken, if the config
                       // shares_work; 0 at first
  uint32* zeroed;  // [section of planes]: work tiles that have set their share of its sums of dq to
                   // zero; 0 at first
  uint32 zero;     // 0, unknown to the compiler: see BackwardKeyScores::score_gradients()
  uint32 zeros_ahead;  // sections between such a work tile and the sums, which are zeros in as many
                       // first sections; 0: all sums are zeros at first
  // Boxes of 64 columns: of q, dout, a bias and dbias of block_q rows, of k and v of block_kv.
  TensorMap q, k, v, dout, bias, dbias;
};

}  // namespace attnjit::kernel
