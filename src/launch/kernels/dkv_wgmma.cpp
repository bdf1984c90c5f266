// The tensor maps of templates/attnjit/backward/dkv_wgmma and dkv_wgmma_d256.
#include "launch/kernels/backward_kernels.hpp"
#include "launch/tensor_maps.hpp"

namespace attnjit::launch {
namespace {

// All maps of a kernel of dk and dv but that of dbias.
template <class Config>
void set_key_tile_maps(const Config& config, const problem::BackwardProblem& problem,
                       const BackwardArgs& args, const TensorMapMaker& maker,
                       kernel::DkvWgmmaParams& params) {
  const problem::Problem& p = problem.forward;
  if (p.tensor_batch() == 0 || p.seqlen_kv == 0) return;  // there is no thread block
  const ForwardArgs& forward = args.forward;
  const auto rows = [&](const char* name, const Tensor& tensor, const problem::RowStrides& strides,
                        int heads, int seqlen, int columns, int box, kernel::TensorMap& map) {
    const MappedTensor source{name, tensor.data, strides, p.tensor_batch(), heads, seqlen, columns};
    make_rows(maker, source, p.dtype, box, map);
  };
  rows("k", forward.k, p.k, p.num_heads_kv, p.seqlen_kv, p.head_dim, config.block_kv, params.k);
  rows("v", forward.v, p.v, p.num_heads_kv, p.seqlen_kv, p.head_dim_v, config.block_kv, params.v);
  if (p.seqlen_q == 0) return;  // nothing of the others is loaded
  rows("q", forward.q, p.q, p.num_heads_q, p.seqlen_q, p.head_dim, config.block_q, params.q);
  rows("dout", args.dout, problem.dout, p.num_heads_q, p.seqlen_q, p.head_dim_v, config.block_q,
       params.dout);
  if (config.bias_tiles) {
    make_rows(maker, mapped_bias(p, forward), p.bias.dtype, config.block_q, params.bias);
  } else {
    params.bias = {};  // a map that was left here by chance would hide a use of it
  }
}

}  // namespace

void set_maps(const kernel::DkvWgmmaConfig& config, const std::optional<DbiasTiles>& dbias,
              const problem::BackwardProblem& problem, const BackwardArgs& args,
              const TensorMapMaker& maker, kernel::DkvWgmmaParams& params) {
  set_key_tile_maps(config, problem, args, maker, params);
  const problem::Problem& p = problem.forward;
  if (!dbias || p.batch == 0 || p.seqlen_q == 0 || p.seqlen_kv == 0) return;
  const MappedTensor tiles{.name = "dbias",
                           .data = dbias->memory.data,
                           .strides = {dbias->memory.batch_stride, dbias->memory.head_stride,
                                       dbias->memory.query_stride},
                           .batch = p.batch,
                           .heads = p.num_heads_q,
                           .rows = p.seqlen_q,
                           .columns = dbias->keys};
  make_rows(maker, tiles, p.dtype, config.block_q, params.dbias);
}

void set_maps(const kernel::DkvWgmmaD256Config& config, const std::optional<DbiasTiles>&,
              const problem::BackwardProblem& problem, const BackwardArgs& args,
              const TensorMapMaker& maker, kernel::DkvWgmmaParams& params) {
  set_key_tile_maps(config, problem, args, maker, params);
}

}  // namespace attnjit::launch
