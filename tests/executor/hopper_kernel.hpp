// A small kernel of a producer and a consumer that uses every primitive of Hopper as a forward
// does, compiled as kernels are: its numbers, and the report for each safeguard that is left out.
#include <cmath>
#include <utility>

#include "bench.hpp"
#include "block.hpp"
#include "executor/host_kernel.hpp"
#include "tensor/half.hpp"

namespace attnjit::executor_test {
// A small kernel of a producer and a consumer that uses every primitive of Hopper as a forward
// does: out = (q k^T) v for 64 queries, 150 keys in tiles of 96 and 128 columns. Warpgroup 0 loads,
// warpgroup 1 multiplies.
inline const std::string kKernel = R"(
#include "attnjit/ptx/matrix.cuh"
#include "attnjit/ptx/mbarrier.cuh"
#include "attnjit/ptx/memory.cuh"
#include "attnjit/ptx/named_barrier.cuh"
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/ptx/store_matrix.cuh"
#include "attnjit/ptx/sync.cuh"
#include "attnjit/ptx/tensor_copy.cuh"
#include "attnjit/ptx/thread.cuh"
#include "attnjit/ptx/warpgroup.cuh"
#include "attnjit/ptx/wgmma.cuh"

namespace attnjit::kernel {
constexpr int kTiles = 2, kKeys = 96;
constexpr uint32 kLine = 128, kQSlab = 64 * kLine, kSlab = kKeys * kLine;

struct Memory {
  uint32 base = ptx::shared_base();
  uint32 q_full = base, k_full = base + 8, v_full = base + 16, k_empty = base + 24,
         v_empty = base + 32;
  uint32 q = base + 1024, k = q + 2 * kQSlab, v = k + 2 * kSlab;
};

inline void produce(const Memory& at, const TensorMap& q, const TensorMap& k, const TensorMap& v) {
  ptx::give_registers<24>();
  if (ptx::thread_index() != 0) return;
  ptx::barrier_arrive_expecting(at.q_full, 2 * kQSlab);
  for (int slab = 0; slab < 2; ++slab) {
    ptx::tensor_load(at.q + slab * kQSlab, q, at.q_full, 64 * slab, 0, 0, 0);
  }
  for (int tile = 0; tile < kTiles; ++tile) {
    ptx::barrier_wait(at.k_empty, (tile + 1) % 2);
    ptx::barrier_arrive_expecting(at.k_full, 2 * kSlab);
    for (int slab = 0; slab < 2; ++slab) {
      ptx::tensor_load(at.k + slab * kSlab, k, at.k_full, 64 * slab, kKeys * tile, 0, 0, 0);
    }
    ptx::barrier_wait(at.v_empty, (tile + 1) % 2);
    ptx::barrier_arrive_expecting(at.v_full, 2 * kSlab);
    for (int slab = 0; slab < 2; ++slab) {
      ptx::tensor_load(at.v + slab * kSlab, v, at.v_full, 64 * slab, kKeys * tile, 0, 0, 0);
    }
  }
}

inline void multiply(const Memory& at, float (&o)[16][4]) {
  const bool signals = ptx::lane_index() == 0;
  ptx::barrier_wait(at.q_full, 0);
  for (int tile = 0; tile < kTiles; ++tile) {
    float s[12][4];
    ptx::barrier_wait(at.k_full, tile % 2);
    ptx::wgmma_fence();  // s
    for (int d = 0; d < 8; ++d) {
      ptx::multiply_async<kDType>(
          s, ptx::matrix_descriptor(at.q + d / 4 * kQSlab + d % 4 * 32, 16, 1024),
          ptx::matrix_descriptor(at.k + d / 4 * kSlab + d % 4 * 32, 16, 1024), d > 0);
    }
    ptx::wgmma_commit();  // s
    ptx::wgmma_wait<0>();  // s
    ptx::barrier_arrive_if(signals, at.k_empty);
    uint32 p[6][4];
    for (int j = 0; j < 6; ++j) {
      for (int i = 0; i < 4; ++i) {
        const float (&pair)[4] = s[2 * j + i / 2];
        p[j][i] = ptx::pack<kDType>(pair[2 * (i % 2)], pair[2 * (i % 2) + 1]);
      }
    }
    ptx::barrier_wait(at.v_full, tile % 2);
    ptx::wgmma_fence();  // o
    for (int j = 0; j < 6; ++j) {
      ptx::multiply_async<kDType>(o, p[j], ptx::matrix_descriptor(at.v + j * 2048, kSlab, 1024),
                                  tile > 0 || j > 0);
    }
    ptx::wgmma_commit();  // o
    // Before the wait.
    ptx::wgmma_wait<0>();  // o
    ptx::barrier_arrive_if(signals, at.v_empty);
  }
}

inline void store(const Memory& at, const TensorMap& out, float (&o)[16][4]) {
  const int lane = ptx::lane_index(), warp = ptx::thread_index() / 32 % 4;
  const int row = 16 * warp + lane / 8 % 2 * 8 + lane % 8;
  for (int j = 0; j < 8; ++j) {
    const uint32 word[4] = {ptx::pack<kDType>(o[2 * j][0], o[2 * j][1]),
                            ptx::pack<kDType>(o[2 * j][2], o[2 * j][3]),
                            ptx::pack<kDType>(o[2 * j + 1][0], o[2 * j + 1][1]),
                            ptx::pack<kDType>(o[2 * j + 1][2], o[2 * j + 1][3])};
    const int chunk = 2 * j + lane / 16;
    ptx::store_matrices(
        at.q + chunk / 8 * kQSlab + row * kLine + ((chunk % 8) ^ (row % 8)) * 16, word);
  }
  ptx::fence_async_proxy();
  ptx::named_barrier_sync(1, 128);
  for (int slab = 0; slab < 2; ++slab) {
    ptx::tensor_store_if(ptx::thread_index() == 128, out, at.q + slab * kQSlab, 64 * slab, 0, 0, 0);
  }
  ptx::tensor_store_commit();
  ptx::tensor_store_wait_read();
}
}  // namespace attnjit::kernel

extern "C" __global__ void hopper(const attnjit::kernel::TensorMap q,
                                  const attnjit::kernel::TensorMap k,
                                  const attnjit::kernel::TensorMap v,
                                  const attnjit::kernel::TensorMap out, float* first) {
  using namespace attnjit::kernel;
  const Memory at;
  if (ptx::thread_index() == 0) {
    for (uint32 barrier : {at.q_full, at.k_full, at.v_full}) ptx::barrier_init(barrier, 1);
    for (uint32 barrier : {at.k_empty, at.v_empty}) ptx::barrier_init(barrier, 4);
    ptx::barrier_init_fence();
  }
  ptx::block_sync();
  if (ptx::warpgroup_index() == 0) return produce(at, q, k, v);
  ptx::take_registers<240>();
  float o[16][4];
  multiply(at, o);
  store(at, out, o);
  ptx::store_global_if(ptx::thread_index() == 128, first, o[0][0]);
}
)";

inline constexpr int kQueries = 64, kKeys = 150, kColumns = 128;

/// The kernel's tensors, and what it is run with.
class Hopper {
 public:
  /// The kernel with each pair's second text in place of its first, which must occur once.
  std::string run(const std::vector<std::pair<std::string, std::string>>& changes,
                  bool bfloat16 = true) {
    std::string text = kKernel;
    for (const auto& [before, after] : changes) {
      const std::size_t place = text.find(before);
      REQUIRE_MESSAGE(place != std::string::npos, "the kernel lacks " << before);
      REQUIRE_MESSAGE(text.find(before, place + 1) == std::string::npos, before);
      text.replace(place, before.size(), after);
    }
    const std::string dtype = bfloat16 ? "kBFloat16" : "kFloat16";
    text =
        "#include \"attnjit/types.h\"\nnamespace attnjit::kernel {\n"
        "constexpr DType kDType = DType::" +
        dtype + ";\n}\n" + text;
    fill(bfloat16);
    const std::vector<std::byte> object = executor::HostCompiler().compile(
        bench_.executor().host_source({.entry = "hopper", .title = "hopper", .stub = text}));
    const executor::HostKernel kernel(object);
    float* const first = &first_;
    void* const parameters[] = {&maps_[0], &maps_[1], &maps_[2], &maps_[3],
                                const_cast<float**>(&first)};
    return executor::run_block(kernel.function(), 256, parameters, memory_, 66560);
  }

  /// The number of elements of the result that are wrong.
  int wrong(bool bfloat16) const {
    int count = 0;
    for (int row = 0; row < kQueries; ++row) {
      std::array<float, kKeys> score{};
      for (int key = 0; key < kKeys; ++key) {
        for (int d = 0; d < kColumns; ++d) score[key] += q(row, d) * k(key, d);
      }
      for (int column = 0; column < kColumns; ++column) {
        float sum = 0;
        for (int key = 0; key < kKeys; ++key) sum += score[key] * v(key, column);
        count += tensors_[3][row * kColumns + column] != bits(sum, bfloat16);
        if (row == 0 && column == 0) count += sum != first_;
      }
    }
    return count;
  }

 private:
  // Small integers, so that every sum is exact.
  static float q(int row, int d) { return static_cast<float>((row * 7 + d * 3 + row * d) % 3 - 1); }
  static float k(int key, int d) { return static_cast<float>((key * 5 + d + key * d) % 3 - 1); }
  static float v(int key, int d) { return static_cast<float>((key + d * 2) % 5 - 2); }

  static std::uint16_t bits(float value, bool bfloat16) {
    return bfloat16 ? tensor::to_bfloat16(value) : tensor::to_float16(value);
  }

  void fill(bool bfloat16) {
    memory_ = {};
    const int rows[] = {kQueries, kKeys, kKeys, kQueries};
    const char* const names[] = {"q", "k", "v", "out"};
    for (int i = 0; i < 4; ++i) {
      tensors_[i].assign(static_cast<std::size_t>(rows[i]) * kColumns, 0);
      for (int row = 0; i < 3 && row < rows[i]; ++row) {
        for (int d = 0; d < kColumns; ++d) {
          const float value = i == 0 ? q(row, d) : i == 1 ? k(row, d) : v(row, d);
          tensors_[i][row * kColumns + d] = bits(value, bfloat16);
        }
      }
      memory_.add(names[i], executor::view_of(tensors_[i].data(), {1, 1, rows[i], kColumns}), 2,
                  i < 3 ? executor::TensorRole::kInput : executor::TensorRole::kOutput);
      executor::MapSpec spec{{kColumns, static_cast<cuuint64_t>(rows[i]), 1, 1},
                             {64, i == 0 || i == 3 ? 64u : 96u, 1, 1}};
      if (i == 1 || i == 2) spec.extents.push_back(1), spec.box.push_back(1);
      REQUIRE(executor::encode(maps_[i], tensors_[i].data(), spec) == CUDA_SUCCESS);
    }
    memory_.add("first", executor::view_of(&first_, {1, 1, 1, 1}), 4,
                executor::TensorRole::kOutput);
  }

  Bench bench_;
  std::array<std::vector<std::uint16_t>, 4> tensors_;
  std::array<CUtensorMap, 4> maps_;
  executor::GlobalMemory memory_;
  float first_ = 0;
};

}  // namespace attnjit::executor_test
