// Copies of bytes by the copy engine: what they move and add, and the reports of their misuse.
#include <array>
#include <numeric>

#include "block.hpp"

namespace attnjit::executor {
namespace {

constexpr unsigned kBarrier = kSharedBase;
constexpr unsigned kPlace = 2048;

/// Floats to be loaded, and sums.
struct Floats {
  alignas(128) std::array<float, 64> data;
  alignas(128) std::array<float, 64> sums{};
  GlobalMemory memory;

  Floats() {
    std::iota(data.begin(), data.end(), 1.0f);
    memory.add("data", view_of(data.data(), {1, 1, 1, 64}), 4, TensorRole::kInput);
    memory.add("sums", view_of(sums.data(), {1, 1, 1, 64}), 4, TensorRole::kOutput);
    memory.begin_kernel(false);
    for (float& sum : sums) memory.access(&sum, 4, GlobalAccess::kWrite, true);
    memory.begin_kernel(false);
  }
};

struct Move {
  const float* from;
  float* to;
  unsigned bytes;
  bool shows = true, waits = true;
};

/// Loads the bytes of a move, and adds them to its sums.
void move(void* const* p) {
  const Move& move = *static_cast<const Move*>(p[0]);
  make_barrier(kBarrier, 1);
  if (thread() != 0) return;
  arrive(kBarrier, static_cast<int>(move.bytes));
  call().bulk_load(kPlace, move.from, move.bytes, kBarrier);
  if (move.waits) call().barrier_wait(kBarrier, 0);
  if (!move.shows) store(kPlace, 0);
  call().bulk_add(move.to, kPlace, move.bytes);
  call().tensor_store_commit();
  call().tensor_store_wait_read(0);
}

TEST_CASE_FIXTURE(Floats, "bulk copies: bytes are loaded, and floats added") {
  for (int round = 1; round <= 2; ++round) {
    Move part{data.data() + 4, sums.data() + 8, 96};
    void* const parameters[] = {&part};
    REQUIRE(run_block(move, 32, parameters, memory) == "");
    for (int i = 0; i < 64; ++i) {
      CHECK(sums[i] == (i >= 8 && i < 32 ? round * data[i - 4] : 0));
    }
  }
}

TEST_CASE_FIXTURE(Floats, "bulk copies: their reports") {
  const auto report = [&](Move part) {
    void* const parameters[] = {&part};
    return run_block(move, 32, parameters, memory);
  };
  const std::string prefix = "kernel, block 0, thread 0, ";
  CHECK(report({data.data() + 1, sums.data(), 96})
            .starts_with(prefix + "bulk_load: copies 96 bytes"));
  CHECK(report({data.data(), sums.data() + 2, 96}).starts_with(prefix + "bulk_add_if: copies 96 "));
  CHECK(report({data.data(), sums.data(), 40}).starts_with(prefix + "bulk_load: copies 40 bytes"));
  CHECK(report({data.data(), sums.data() + 60, 32}).find("bulk_add_if: adds to 16 bytes") !=
        std::string::npos);
  CHECK(report({data.data(), sums.data(), 96, true, false})
            .find("bulk_add_if: reads shared memory at +1024") != std::string::npos);
  CHECK(report({data.data(), sums.data(), 96, false}).find("fence_async_proxy is missing") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(Floats, "groups of stores are waited for one by one") {
  void* const parameters[] = {sums.data()};
  CHECK(run_block(
            [](void* const* p) {
              if (thread() != 0) return;
              for (unsigned i = 0; i < 8; ++i) store(kPlace + 4 * i, 0x3f800000);
              call().fence_async_proxy();
              for (unsigned i = 0; i < 2; ++i) {
                call().bulk_add(static_cast<float*>(p[0]) + 4 * i, kPlace + 16 * i, 16);
                call().tensor_store_commit();
              }
              call().tensor_store_wait(1);
              store(kPlace, 0);
              store(kPlace + 16, 0);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 0, store_shared_4: writes shared memory at +1040 while a tensor "
        "store reads it: tensor_store_wait_read is missing");
  CHECK(sums[0] == 1);
}

TEST_CASE_FIXTURE(Floats, "a store changes global memory when that is waited for, or at the end") {
  void* const parameters[] = {sums.data()};
  CHECK(run_block(
            [](void* const* p) {
              if (thread() != 0) return;
              for (unsigned i = 0; i < 4; ++i) store(kPlace + 4 * i, 0x3f800000);
              call().fence_async_proxy();
              auto* const target = static_cast<float*>(p[0]);
              for (int i = 0; i < 2; ++i) {
                call().bulk_add(target, kPlace, 16);
                call().tensor_store_commit();
              }
              call().tensor_store_wait_read(0);
              target[4] = target[0];
              call().tensor_store_wait(1);
              target[5] = target[0];
            },
            32, parameters, memory) == "");
  CHECK(sums[4] == 0);
  CHECK(sums[5] == 1);
  CHECK(sums[0] == 2);
}

}  // namespace
}  // namespace attnjit::executor
