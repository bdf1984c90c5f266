// The way of a warp through blocks of rows of packed sequences, as a small kernel.
#include <array>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attnjit/score/packed_sequences_params.h"
#include "bench.hpp"
#include "block.hpp"
#include "changed_templates.hpp"
#include "executor/host_kernel.hpp"
#include "packed_problems.hpp"

namespace attnjit::executor_test {
namespace {

// Writes sequence and tile of every step-th block from the first one on, and asks on after the
// last.
const std::string kWay = R"(
#include "attnjit/ptx/store_if.cuh"
#include "attnjit/score/costliest_first.cuh"

extern "C" __global__ void way(const attnjit::kernel::PackedSequencesParams params,
                               attnjit::kernel::ptx::Vector8* found, const int step,
                               const int count) {
  using namespace attnjit::kernel;
  CostliestFirst way;
  PackedTile block;
  for (int i = 0; i < count; ++i) {
    const bool exists = way.find<64, 2>(params, i * step, block);
    ptx::store_global_if(
        exists && ptx::lane_index() == 0, found + i,
        {{static_cast<uint32>(block.sequence), static_cast<uint32>(block.tile)}});
  }
}
)";
constexpr int kSize = 64, kHeads = 2, kSection = 1024;

class PackedOrders {
 public:
  using Block = std::pair<std::int32_t, std::int32_t>;  // sequence, tile

  /// Every `step`-th block of rows. Those past the last are at -1.
  std::vector<Block> walk(const kernel::PackedOrder& order, Begins& q, Begins& kv, int rows,
                          int keys, int step = 1) {
    const auto sequences = static_cast<std::int32_t>(q.size()) - 1;
    const int most = kernel::num_packed_tiles(rows * kHeads, sequences, kSize);
    std::vector<Block> blocks(static_cast<std::size_t>(most / step + 9), Block{-1, -1});
    kernel::PackedSequencesParams params{.q = {q.data(), sequences, rows},
                                         .kv = {kv.data(), sequences, keys},
                                         .used_q = nullptr,
                                         .used_kv = nullptr,
                                         .operand_queries = 0,
                                         .operand_keys = 0,
                                         .order = order};
    executor::GlobalMemory memory;
    const auto add = [&](const char* name, auto* data, std::size_t count, auto role) {
      const auto size = static_cast<std::int64_t>(count);
      memory.add(name, executor::view_of(data, {1, 1, 1, size}), 4, role);
    };
    add("q", q.data(), q.size(), executor::TensorRole::kInput);
    add("kv", kv.data(), kv.size(), executor::TensorRole::kInput);
    add("found", &blocks[0].first, 2 * blocks.size(), executor::TensorRole::kOutput);
    std::int32_t* found = &blocks[0].first;
    const int count = static_cast<int>(blocks.size());
    void* const parameters[] = {&params, &found, const_cast<int*>(&step), const_cast<int*>(&count)};
    CHECK(executor::run_block(kernel_.function(), 32, parameters, memory) == "");
    std::erase(blocks, Block{-1, -1});
    return blocks;
  }

 private:
  Bench bench_;
  const executor::HostKernel kernel_{executor::HostCompiler().compile(
      bench_.executor().host_source({.entry = "way", .title = "way", .stub = kWay}))};
};

Begins random_begins(int sequences, int longest, unsigned seed) {
  std::mt19937 random(seed);
  Begins begins = {0};
  for (int b = 0; b < sequences; ++b) {
    const int length = static_cast<int>(random() % static_cast<unsigned>(longest + 1));
    begins.push_back(begins.back() + (random() % 4 == 0 ? length : length / 8));
  }
  return begins;
}

TEST_CASE_FIXTURE(PackedOrders, "packed order: every block once, the costliest first") {
  for (const kernel::PackedOrder& order : {kernel::PackedOrder{0, 0, 0, 1 << 29},
                                           {1, 1, 0, 1 << 29},
                                           {1, 0, 9, 1 << 29},
                                           {1, 1, 0, 100}}) {
    for (const int sequences : {1, 31, 33, 100, 1025}) {
      CAPTURE(sequences);
      Begins q = random_begins(sequences, sequences > 100 ? 90 : 900, 1);
      Begins kv = random_begins(sequences, 400, 2);
      const int rows = q.back() + 70, keys = kv.back();
      const std::vector<Block> blocks = walk(order, q, kv, rows, keys);
      q.push_back(rows);  // rows of no sequence
      kv.push_back(keys);
      std::size_t expected = 0;
      for (int b = 0; b <= sequences; ++b) {
        expected += static_cast<std::size_t>(kernel::ceil_div((q[b + 1] - q[b]) * kHeads, kSize));
      }
      CHECK(blocks.size() == expected);
      CHECK(std::set<Block>(blocks.begin(), blocks.end()).size() == expected);
      int falls_from = 1 << 30, section = 0;
      for (const auto& [sequence, tile] : blocks) {
        const int length = q[sequence + 1] - q[sequence];
        const auto costs = kernel::block_costs(
            order, length, sequence == sequences ? 0 : kv[sequence + 1] - kv[sequence], kSize,
            kHeads);
        const bool same_section = sequence / kSection == section;
        section = sequence / kSection;
        CHECK(tile < costs.blocks);
        CHECK((!same_section || costs.cost(tile) <= falls_from));
        falls_from = costs.cost(tile);
      }
      q.pop_back();
      kv.pop_back();
      const std::vector<Block> some = walk(order, q, kv, rows, keys, 7);
      REQUIRE(some.size() == (expected + 6) / 7);
      for (std::size_t i = 0; i < some.size(); ++i) CHECK(some[i] == blocks[7 * i]);
    }
  }
}

// Sequences that overlap have more blocks than a launch has numbers: the way ends with these.
TEST_CASE_FIXTURE(PackedOrders, "packed order: faulty numbers end as well") {
  for (Begins begins : kFaulty) {
    walk({1, 1, 0, 1 << 29}, begins, begins, 90, 90);
  }
  Begins overlapping = {0};
  for (int b = 0; b < 40; ++b) overlapping.push_back(b % 2 == 0 ? 900 : 0);
  const std::size_t most = static_cast<std::size_t>(kernel::num_packed_tiles(1800, 40, kSize));
  CHECK(walk({1, 1, 0, 1 << 29}, overlapping, overlapping, 900, 900).size() == most);
}

// A thread block that has all blocks of rows, so that places of the plan are used again.
TEST_CASE("caught in packed order: places that are taken or replaced too early") {
  codegen::Arch arch = codegen::find_arch("sm_90a");
  arch.sm_count = 1;
  const std::string config =
      R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2, "num_warps": 4,
          "min_blocks": 1, "softmax": "max_free", "pack_heads": false})";
  const char* const plan = "attnjit/forward_wgmma_plan.cuh";
  const char* const walk = "attnjit/forward_wgmma_producer.cuh";
  const std::string race = "with no barrier of the block in between";
  for (const auto& [file, before, after, report] :
       {std::array<std::string, 4>{
            plan, "ptx::barrier_wait(shared.place_empty(slot), turn.empty());", "", race},
        {plan, "ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.place_full(slot));", "",
         "0 of 1 arrivals"},
        {walk, "ptx::barrier_wait(shared.place_full(turn.slot()), turn.full());", "",
         "which nobody has written"},
        {walk, "ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.place_empty(turn.slot()));",
         "", "0 of 2 arrivals"}}) {
    CAPTURE(before);
    Bench changed(changed_templates(file, before, after));
    const std::string text = changed.forward(ragged(), arch, config);
    CAPTURE(text);
    CHECK(text.find(report) != std::string::npos);
  }
}

}  // namespace
}  // namespace attnjit::executor_test
