// The kernel that orders the blocks of rows of packed sequences, and the forward that takes them.
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "block.hpp"
#include "codegen/render.hpp"
#include "executor/host_kernel.hpp"
#include "mutations.hpp"
#include "packed_problems.hpp"

namespace attnjit::executor_test {
namespace {

constexpr kernel::PackedOrderConfig kConfig{
    .block_q = 64, .pack_gqa_heads = 2, .paged_keys = false};
constexpr kernel::PackedOrderConfig kPagedConfig{
    .block_q = 64, .pack_gqa_heads = 2, .paged_keys = true};
constexpr int kSize = kConfig.block_q, kHeads = kConfig.pack_gqa_heads;
constexpr kernel::PackedCosts kFull{0, 0, 0, 1 << 29}, kCausal{1, 1, 0, 1 << 29};

class PackedOrders {
 public:
  using Block = std::pair<std::int32_t, std::int32_t>;  // sequence, tile

  PackedOrders() : PackedOrders(kConfig) {}
  explicit PackedOrders(const kernel::PackedOrderConfig& config)
      : paged_keys_(config.paged_keys),
        kernel_(executor::HostCompiler().compile(bench_.executor().host_source(
            codegen::render_packed_order(config, bench_.templates())))) {}

  /// The blocks of rows in their order.
  std::vector<Block> order(const kernel::PackedCosts& costs, Begins q, Begins kv, int rows,
                           int keys) {
    const auto sequences = static_cast<std::int32_t>(q.size()) - 1;
    const int room = kernel::num_packed_tiles(rows * kHeads, sequences, kSize) + 1;
    std::vector<kernel::PackedTile> tiles(static_cast<std::size_t>(room));
    std::array<kernel::uint32, kernel::PackedWork::kCounts> counts{7, 7, 7};
    Begins used;
    for (int b = 0; b < sequences; ++b) used.push_back(kv[b + 1] - kv[b]);
    const kernel::PackedRows keys_of_all = paged_keys_
                                               ? kernel::PackedRows{nullptr, 0, keys}
                                               : kernel::PackedRows{kv.data(), sequences, keys};
    kernel::PackedOrderParams params{.q = {q.data(), sequences, rows},
                                     .kv = keys_of_all,
                                     .used_kv = paged_keys_ ? used.data() : nullptr,
                                     .costs = costs,
                                     .work = {tiles.data(), counts.data()},
                                     .num_planes = 24,
                                     .num_kv_heads = 12,
                                     .most_sections = 6,
                                     .num_blocks = 8};
    executor::GlobalMemory memory;
    const auto add = [&](const char* name, auto* data, std::size_t count, std::size_t bytes,
                         auto role) {
      const auto size = static_cast<std::int64_t>(count);
      memory.add(name, executor::view_of(data, {1, 1, 1, size}), bytes, role);
    };
    add("q", q.data(), q.size(), 4, executor::TensorRole::kInput);
    Begins& lengths = paged_keys_ ? used : kv;
    add("kv", lengths.data(), lengths.size(), 4, executor::TensorRole::kInput);
    add("tiles", tiles.data(), tiles.size(), 8, executor::TensorRole::kOutput);
    add("counts", counts.data(), counts.size(), 4, executor::TensorRole::kOutput);
    void* const parameters[] = {&params};
    CHECK(executor::run_block(kernel_.function(), kConfig.num_threads(), parameters, memory,
                              kConfig.shared_bytes()) == "");
    CHECK(counts[kernel::PackedWork::kTaken] == 0);
    section_planes_ = counts[kernel::PackedWork::kSection];
    const std::size_t num_tiles = counts[kernel::PackedWork::kTiles];
    REQUIRE(num_tiles < tiles.size());
    // Nobody's, of no row.
    CHECK(tiles[num_tiles].sequence == sequences);
    CHECK(tiles[num_tiles].tile * kSize >= rows * kHeads);
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < num_tiles; ++i) {
      blocks.emplace_back(tiles[i].sequence, tiles[i].tile);
    }
    return blocks;
  }

  /// The same, which must have each block that has rows once, the costliest first.
  void check(const kernel::PackedCosts& costs, Begins q, Begins kv, int rows, int keys) {
    const std::vector<Block> blocks = order(costs, q, kv, rows, keys);
    const auto sequences = static_cast<int>(q.size()) - 1;
    q.push_back(rows);  // rows of no sequence
    std::set<Block> expected;
    for (int b = 0; b <= sequences; ++b) {
      const int tiles = kernel::ceil_div((q[b + 1] - q[b]) * kHeads, kSize);
      for (int tile = 0; tile < tiles; ++tile) expected.emplace(b, tile);
    }
    CHECK(blocks.size() == expected.size());
    CHECK(std::set<Block>(blocks.begin(), blocks.end()) == expected);
    float time = 0.0f, longest = 0.0f;
    int falls_from = kernel::kCostBuckets;
    for (const auto& [b, tile] : blocks) {
      const int bucket = kernel::cost_bucket(kernel::packed_cost(
          costs, q[b + 1] - q[b], b == sequences ? 0 : kv[b + 1] - kv[b], kSize / kHeads, tile));
      REQUIRE(bucket <= falls_from);
      falls_from = bucket;
      time += kernel::bucket_time(bucket);
      longest = std::max(longest, kernel::bucket_time(bucket));
    }
    if (blocks.empty()) return;
    CHECK(section_planes_ == 24u / kernel::packed_sections(6, 12, time * 24 / (longest * 8)));
  }

 private:
  const bool paged_keys_;
  kernel::uint32 section_planes_ = 0;
  Bench bench_;
  const executor::HostKernel kernel_;
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
  for (const kernel::PackedCosts& costs :
       {kFull, kCausal, kernel::PackedCosts{1, 0, 9, 1 << 29}, {1, 1, 0, 100}}) {
    for (const int sequences : {1, 33, 1025}) {
      CAPTURE(sequences);
      const Begins q = random_begins(sequences, sequences > 100 ? 90 : 900, 1);
      const Begins kv = random_begins(sequences, 400, 2);
      check(costs, q, kv, q.back() + 70, kv.back());
    }
  }
  check(kCausal, {0, 0, 0}, {0, 5, 9}, 0, 9);            // no row
  check(kCausal, {0, 90000}, {0, 90000}, 90000, 90000);  // costs that share buckets
}

TEST_CASE("packed order: of keys in pages those in use count") {
  PackedOrders orders(kPagedConfig);
  const Begins q = random_begins(33, 900, 1), kv = random_begins(33, 400, 2);
  orders.check(kFull, q, kv, q.back() + 70, 400);
  orders.check(kCausal, q, kv, q.back() + 70, 400);
}

// More than kSamples, so that some are looked up in global memory.
TEST_CASE_FIXTURE(PackedOrders, "packed order: 70,000 sequences, most of them empty or short") {
  Begins q = random_begins(70000, 9, 3);
  q.back() += 3000;
  check(kCausal, q, q, q.back() + 1, q.back());
}

// Sequences that overlap have more blocks than there are numbers: the order ends with these.
TEST_CASE_FIXTURE(PackedOrders, "packed order: faulty numbers stay inside, too") {
  for (const Begins& begins : kFaulty) order(kCausal, begins, begins, 90, 90);
  Begins overlapping = {0};
  for (int b = 0; b < 40; ++b) overlapping.push_back(b % 2 == 0 ? 900 : 0);
  for (const auto& [sequence, tile] : order(kCausal, overlapping, overlapping, 900, 900)) {
    CHECK(sequence <= 40);
    CHECK(tile * kSize < 900 * kHeads);
  }
}

const std::string kOneBlock =
    R"({"path": "wgmma", "block_q": 64, "block_kv": 64, "num_stages": 2, "pack_gqa": false})";
const std::string kOrder = "attnjit/prepass/packed_order.cuh",
                  kPlan = "attnjit/forward/wgmma/plan.cuh",
                  kWalk = "attnjit/forward/wgmma/walk.cuh";
const std::string kRace = "with no barrier of the block in between";

// The first thread block has all blocks of rows, so that places of the plan are used again.
TEST_CASE_FIXTURE(Mutations, "caught in packed order: what the order and its places wait for") {
  const Run run{ragged(), kOneBlock};
  for (const auto& [file, before, after, report] :
       {std::tuple{kOrder, "ptx::block_sync();  // the counts are 0, and the samples are there", "",
                   "which was never written"},
        {kOrder, "ptx::block_sync();  // the blocks of each bucket are counted", "", kRace.c_str()},
        {kOrder, "ptx::block_sync();  // the totals of all warps are there", "",
         "which was never written"},
        {kOrder, "ptx::block_sync();  // each bucket has its place", "", kRace.c_str()},
        {kOrder, "set_count(PackedWork::kTaken, 0);", "",
         "adds to byte 0 of counts of the order [1, 1, 1, 3], which was never set to zero"},
        {kOrder, "visit(tile, counts(", "visit({tile.sequence, 0}, counts(",
         "which this kernel has written already"},
        {kPlan, "ptx::wait_for_previous_kernel();  // which writes the order", "",
         "wait_for_previous_kernel is missing"},
        {kWalk, "    ask();\n    asked = false;", "    asked = false;", "0 of 1 arrivals"},
        {kPlan, "ptx::barrier_wait(shared.work_empty(slot), state.empty());", "", kRace.c_str()},
        {kPlan, "ptx::barrier_arrive_if(true, shared.work_full(slot));", "", "0 of 1 arrivals"},
        {kWalk, "ptx::barrier_wait(shared.work_full(state.slot()), state.full());", "",
         "which was never written"},
        {kWalk, "ptx::barrier_arrive_if(ptx::lane_index() == 0, shared.work_empty(state.slot()));",
         "", "0 of 2 arrivals"}}) {
    expect_report({file, before, after}, run, {report});
  }
}

}  // namespace
}  // namespace attnjit::executor_test
