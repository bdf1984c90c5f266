// packed_order q128 heads1 paged
#include "attnjit/prepass/packed_order.cuh"

using namespace attnjit::kernel;

inline constexpr PackedOrderConfig kConfig{
    .block_q = 128,
    .pack_gqa_heads = 1,
    .paged_keys = true,
};

extern "C" __global__ void __launch_bounds__(kConfig.num_threads())
packed_order(
    const __grid_constant__ PackedOrderParams params) {
  packed_order<kConfig>(params);
}
