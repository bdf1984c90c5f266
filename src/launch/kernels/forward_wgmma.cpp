// The launches of templates/attnjit/forward/wgmma.
#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "launch/kernels/forward_kernels.hpp"
#include "launch/tensor_maps.hpp"

namespace attnjit::launch {
namespace {

// The tiles that a kernel loads.
struct Boxes {
  int rows, pack_gqa_heads, keys;  // of q, and of k and v
  cuuint32_t columns;              // of a slab
};
Boxes boxes_of(const kernel::ForwardWgmmaConfig& config) {
  return {config.kSubtileRows, config.pack_gqa_heads(), config.page_kv, 64};
}
Boxes boxes_of(const kernel::ForwardSharedBiasConfig& config) {
  constexpr int kColumns = kernel::ForwardSharedBiasConfig::kSlabColumns;
  return {config.block_q, 1, config.share(), kColumns};
}

// Whether there is a map of `out`. Path shared_bias stores it from registers.
bool has_out_map(const kernel::ForwardWgmmaConfig& config) { return config.stages_out(); }
bool has_out_map(const kernel::ForwardSharedBiasConfig&) { return false; }

// Whether there is a map of the bias, by which tiles to come are asked into L2. The copy engine
// cannot address rows that are not aligned. Path shared_bias reads each element once.
bool has_bias_map(const kernel::ForwardSharedBiasConfig&, const problem::Problem&) { return false; }
bool has_bias_map(const kernel::ForwardWgmmaConfig& config, const problem::Problem& p) {
  return p.bias.extent == problem::Extent::kPerPair && p.bias.vectorized && !config.pack_gqa;
}

// Whether there are those for tiles with the rows of k and v past the last multiple of four.
bool has_tail_maps(const problem::Problem& p) { return p.key_rows() % 4 != 0; }

template <class Config>
void make_maps(const Config& config, const problem::Problem& p, const ForwardArgs& args,
               const TensorMapMaker& maker, kernel::ForwardWgmmaParams& params) {
  const Boxes boxes = boxes_of(config);
  const std::int32_t batch = p.tensor_batch();
  const MappedTensor q{"q",           args.q.data, p.q,        batch,
                       p.num_heads_q, p.seqlen_q,  p.head_dim, boxes.columns};
  const MappedTensor out{"out",         args.out.data, p.out,       batch,
                         p.num_heads_q, p.seqlen_q,    p.head_dim_v};
  if (boxes.pack_gqa_heads > 1) {
    make_pack_gqa_rows(maker, q, p.dtype, boxes.rows, boxes.pack_gqa_heads, params.q);
  } else {
    make_rows(maker, q, p.dtype, boxes.rows, params.q);
  }
  if (has_out_map(config)) make_rows(maker, out, p.dtype, 16, params.out);
  if (has_bias_map(config, p)) {
    MappedTensor bias = mapped_bias(p, args);
    bias.box_columns = static_cast<cuuint32_t>(config.block_kv);
    make_rows(maker, bias, p.bias.dtype, config.block_q, params.bias);
  }
  const bool anywhere = p.packed && !p.paged();
  if (p.seqlen_kv == 0) {
    // All rows are dead, and the one tile that they get may hold anything: a row of q.
    const MappedTensor any{"q", args.q.data, {}, 1, 1, 1, p.head_dim, boxes.columns};
    make_keys(maker, any, p.dtype, boxes.keys, anywhere, params.k, params.k_tail);
    params.v_tail = params.k_tail;
    params.v = params.k;
    return;
  }
  const std::int32_t planes = p.key_planes(), rows = p.key_rows();
  const MappedTensor k{"k",  args.k.data, p.k,          planes, p.num_heads_kv,
                       rows, p.head_dim,  boxes.columns};
  const MappedTensor v{"v",  args.v.data,  p.v,          planes, p.num_heads_kv,
                       rows, p.head_dim_v, boxes.columns};
  make_keys(maker, k, p.dtype, boxes.keys, anywhere, params.k, params.k_tail);
  make_keys(maker, v, p.dtype, boxes.keys, anywhere, params.v, params.v_tail);
}

void move_map(const char* what, const TensorMapMaker& maker, void* address,
              kernel::TensorMap& map) {
  const CUresult result = maker.move(address, reinterpret_cast<CUtensorMap&>(map));
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorKind::kCuda,
              fmt::format("the driver refuses address {} for a tensor map of {} (CUresult {}); use "
                          "--path mma",
                          address, what, static_cast<int>(result)));
}

// `params` are a copy of `kept`.
template <class Config>
void move_maps(const Config& config, const problem::Problem& problem,
               const kernel::ForwardWgmmaParams& kept, const ForwardArgs& args,
               const TensorMapMaker& maker, kernel::ForwardWgmmaParams& params) {
  const auto move = [&](const char* what, void* address, kernel::TensorMap& map) {
    move_map(what, maker, address, map);
  };
  if (args.q.data != kept.base.q) move("q", args.q.data, params.q);
  if (args.k.data != kept.base.k) {
    move("k", args.k.data, params.k);
    if (has_tail_maps(problem)) move("k", args.k.data, params.k_tail);
  }
  if (args.v.data != kept.base.v) {
    move("v", args.v.data, params.v);
    if (has_tail_maps(problem)) move("v", args.v.data, params.v_tail);
  }
  if (args.out.data != kept.base.out && has_out_map(config)) move("out", args.out.data, params.out);
  if (has_bias_map(config, problem)) move("bias", args.bias->data, params.bias);
}

}  // namespace

template <MapsKernel Config>
void set_maps(const Config& config, const problem::Problem& problem, const ForwardArgs& args,
              const TensorMapMaker& maker, const KeptMaps& kept,
              kernel::ForwardWgmmaParams& params) {
  if (kept) {
    move_maps(config, problem, *kept, args, maker, params);
  } else {
    make_maps(config, problem, args, maker, params);
  }
}

template <MapsKernel Config>
KeptMaps keep_maps(const Config& config, const problem::Problem& problem, const ForwardArgs& args,
                   const TensorMapMaker& maker) {
  // Without keys the maps of k and v are of q.
  if (!problem.has_rows() || problem.seqlen_kv == 0) return std::nullopt;
  kernel::ForwardWgmmaParams params{};
  make_maps(config, problem, args, maker, params);
  params.base.q = args.q.data;
  params.base.k = args.k.data;
  params.base.v = args.v.data;
  params.base.out = args.out.data;
  return params;
}

template void set_maps(const kernel::ForwardWgmmaConfig&, const problem::Problem&,
                       const ForwardArgs&, const TensorMapMaker&, const KeptMaps&,
                       kernel::ForwardWgmmaParams&);
template void set_maps(const kernel::ForwardSharedBiasConfig&, const problem::Problem&,
                       const ForwardArgs&, const TensorMapMaker&, const KeptMaps&,
                       kernel::ForwardWgmmaParams&);
template KeptMaps keep_maps(const kernel::ForwardWgmmaConfig&, const problem::Problem&,
                            const ForwardArgs&, const TensorMapMaker&);
template KeptMaps keep_maps(const kernel::ForwardSharedBiasConfig&, const problem::Problem&,
                            const ForwardArgs&, const TensorMapMaker&);

}  // namespace attnjit::launch
