#include "launch/kept_maps.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"

namespace attnjit::launch {
namespace {

void move_map(const char* what, const TensorMapMaker& maker, void* address,
              kernel::TensorMap& map) {
  const CUresult result = maker.move(address, reinterpret_cast<CUtensorMap&>(map));
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorKind::kCuda,
              fmt::format("the driver refuses address {} for a tensor map of {} (CUresult {}); use "
                          "--path mma",
                          address, what, static_cast<int>(result)));
}

}  // namespace

KeptMaps keep_maps(const std::optional<kernel::ForwardWgmmaConfig>& config,
                   const problem::Problem& problem, const ForwardArgs& args,
                   const TensorMapMaker& maker) {
  // Without keys the maps of k and v are of q.
  if (!config || !problem.has_rows() || problem.seqlen_kv == 0) return std::nullopt;
  kernel::ForwardWgmmaParams params{};
  set_tensor_maps(*config, problem, args, maker, params);
  params.base.q = args.q.data;
  params.base.k = args.k.data;
  params.base.v = args.v.data;
  params.base.out = args.out.data;
  return params;
}

void move_maps(const kernel::ForwardWgmmaConfig& config, const problem::Problem& problem,
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
  if (args.out.data != kept.base.out && config.stages_out()) move("out", args.out.data, params.out);
  if (has_bias_map(config, problem)) move("bias", args.bias->data, params.bias);
}

}  // namespace attnjit::launch
