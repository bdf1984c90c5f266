// The tensor maps of templates/attnjit/backward/dq_wgmma.
#include "launch/kernels/backward_kernels.hpp"
#include "launch/tensor_maps.hpp"

namespace attnjit::launch {

void set_maps(const kernel::DqWgmmaConfig& config, const problem::BackwardProblem& problem,
              const BackwardArgs& args, const TensorMapMaker& maker,
              kernel::DqWgmmaParams& params) {
  const problem::Problem& p = problem.forward;
  if (p.tensor_batch() == 0 || p.seqlen_q == 0) return;  // there is no thread block
  const ForwardArgs& forward = args.forward;
  const std::int32_t batch = p.tensor_batch();
  const MappedTensor q{"q", forward.q.data, p.q, batch, p.num_heads_q, p.seqlen_q, p.head_dim};
  const MappedTensor dout{"dout",        args.dout.data, problem.dout, batch,
                          p.num_heads_q, p.seqlen_q,     p.head_dim_v};
  make_rows(maker, q, p.dtype, config.block_q, params.q);
  make_rows(maker, dout, p.dtype, config.block_q, params.dout);
  if (p.seqlen_kv == 0) return;  // nothing of the others is loaded
  const MappedTensor k{"k", forward.k.data, p.k, batch, p.num_heads_kv, p.seqlen_kv, p.head_dim};
  const MappedTensor v{"v", forward.v.data, p.v, batch, p.num_heads_kv, p.seqlen_kv, p.head_dim_v};
  make_keys(maker, k, p.dtype, config.block_kv, p.packed, params.k, params.k_tail);
  make_keys(maker, v, p.dtype, config.block_kv, p.packed, params.v, params.v_tail);
}

}  // namespace attnjit::launch
