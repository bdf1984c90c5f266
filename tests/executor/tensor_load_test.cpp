// Loads of boxes by the copy engine: where their elements go, and the reports of their misuse.
#include "elements.hpp"

namespace attnjit::executor::tensor_load_test {
namespace {

constexpr unsigned kBarrier = kSharedBase;
constexpr unsigned kTile = 2048;

/// The parameters of a kernel: a map, the start of its box, the box's bytes, and room for them.
struct Copy {
  const CUtensorMap* map;
  std::vector<int> start;
  unsigned bytes;
  std::vector<std::uint16_t> tile{};
};

void load_tile(void* const* p) {
  Copy& copy = *static_cast<Copy*>(p[0]);
  make_barrier(kBarrier, 1);
  if (thread() == 0) {
    arrive(kBarrier, static_cast<int>(copy.bytes));
    call().tensor_load(kTile, copy.map, kBarrier, copy.start.data(),
                       static_cast<int>(copy.start.size()));
  }
  call().barrier_wait(kBarrier, 0);
  if (thread() != 1) return;
  for (unsigned i = 0; i < copy.bytes; i += 4) {
    const unsigned word = load(kTile + i);
    copy.tile.push_back(static_cast<std::uint16_t>(word));
    copy.tile.push_back(static_cast<std::uint16_t>(word >> 16));
  }
}

TEST_CASE_FIXTURE(Elements, "tensor_load: a box of rank 4, with the swizzle and zeros outside") {
  // 100 columns at a pitch of 128, 20 rows, 2 heads, 2 batches; the box goes past columns and rows.
  REQUIRE(encode(map, data.data(), {{100, 20, 2, 2}, {64, 16, 1, 1}, {256, 5120, 10240}}) ==
          CUDA_SUCCESS);
  Copy copy{&map, {64, 8, 1, 1}, 2048};
  void* const parameters[] = {&copy};
  REQUIRE(run_block(load_tile, 32, parameters, memory) == "");
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 64; ++column) {
      const bool inside = 64 + column < 100 && 8 + row < 20;
      const int expected = inside ? data[7680 + (8 + row) * 128 + 64 + column] : 0;
      const int chunk = (column / 8) ^ (row % 8);
      CHECK(copy.tile[row * 64 + chunk * 8 + column % 8] == expected);
    }
  }
}

TEST_CASE_FIXTURE(Elements, "tensor_load: rank 5, steps, and a start before the tensor") {
  // The box takes every second row: (rows, heads) of a packed group, say.
  REQUIRE(encode(map, data.data(),
                 {{64, 10, 2, 3, 2},
                  {64, 8, 2, 1, 1},
                  {128, 1280, 2560, 7680},
                  {1, 2, 1, 1, 1},
                  CU_TENSOR_MAP_SWIZZLE_NONE}) == CUDA_SUCCESS);
  Copy copy{&map, {0, -2, 0, 2, 1}, 4 * 2 * 128};
  void* const parameters[] = {&copy};
  REQUIRE(run_block(load_tile, 32, parameters, memory) == "");
  for (int head = 0; head < 2; ++head) {
    for (int i = 0; i < 4; ++i) {
      const int row = -2 + 2 * i;
      for (int column = 0; column < 64; ++column) {
        const int from = column + 64 * row + 640 * head + 1280 * 2 + 3840;
        CHECK(copy.tile[(head * 4 + i) * 64 + column] == (row < 0 ? 0 : data[from]));
      }
    }
  }
}

TEST_CASE_FIXTURE(Elements, "tensor_load: boxes that do not fit their map or their place") {
  REQUIRE(encode(map, data.data(), {{64, 128}, {64, 8}}) == CUDA_SUCCESS);
  void* const parameters[] = {&map};
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              const int start[] = {0, 0, 0};
              call().tensor_load(kTile, p[0], kBarrier, start, 3);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 31, tensor_load: gives 3 coordinates for a tensor map of 2 axes");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              const int start[] = {0, 0};
              call().tensor_load(kTile + 512, p[0], kBarrier, start, 2);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 31, tensor_load: has a box at +1536 of shared memory; with this "
        "tensor map it begins at a multiple of 1024");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              const int start[] = {0, 0};
              call().tensor_load(65536 + 1024, p[0], kBarrier, start, 2);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 31, tensor_load: touches 1024 bytes of shared memory at +65536; "
        "the block has 65536 bytes");
  map = {};
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              const int start[] = {0, 0};
              call().tensor_load(kTile, p[0], kBarrier, start, 2);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 31, tensor_load: gets a tensor map that encode_tensor_map() has "
        "not written");
  CHECK(
      run_block([](void* const* p) { call().tensor_prefetch(p[0], 4); }, 32, parameters, memory) ==
      "kernel, block 0, thread 0, prefetch_tensor: gets a tensor map that encode_tensor_map() "
      "has not written");
}

TEST_CASE_FIXTURE(Elements, "tensor_load: bytes past the end of a tensor in global memory") {
  // The map claims more rows than the tensor has.
  REQUIRE(encode(map, data.data(), {{64, 257}, {64, 8}}) == CUDA_SUCCESS);
  Copy copy{&map, {0, 256}, 1024};
  void* const parameters[] = {&copy};
  CHECK(run_block(load_tile, 32, parameters, memory) ==
        "kernel, block 0, thread 0, tensor_load: reads 16 bytes, the first 0 bytes past the end of "
        "k [1, 1, 1, 16384]");
}

/// Loads the box at row 8 i to tile i, for the phase that is under way.
void load_rows(const void* map, int i, unsigned barrier = kBarrier) {
  const int start[] = {0, 8 * i};
  call().tensor_load(kTile + 1024u * i, map, barrier, start, 2);
}

TEST_CASE_FIXTURE(Elements, "tensor_load: bytes that were announced, or were not") {
  REQUIRE(encode(map, data.data(), {{64, 128}, {64, 8}}) == CUDA_SUCCESS);
  void* const parameters[] = {&map};
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) {
                arrive(kBarrier, 2048);
                load_rows(p[0], 0);
              }
              call().barrier_wait(kBarrier, 0);
            },
            32, parameters, memory) ==
        "kernel, block 0: deadlock; barrier_wait: the mbarrier at +0, phase 0: 1 of 1 arrivals, "
        "1024 bytes that never came, 32 threads wait, the first is 31");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) {
                arrive(kBarrier, 512);
                load_rows(p[0], 0);
              }
              call().barrier_wait(kBarrier, 0);
            },
            32, parameters, memory) ==
        "kernel, block 0: the mbarrier at +0, phase 0: 512 bytes landed that were not announced");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) {
                arrive(kBarrier, 0);
                load_rows(p[0], 0);
              }
              call().barrier_wait(kBarrier, 0);
              load(kTile);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 0, load_shared_4: reads shared memory at +1024 while thread 0's "
        "tensor_load to it is under way: barrier_wait is missing");
}

TEST_CASE_FIXTURE(Elements, "tensor_load: read without a wait, overwritten without a release") {
  REQUIRE(encode(map, data.data(), {{64, 128}, {64, 8}}) == CUDA_SUCCESS);
  void* const parameters[] = {&map};
  // Thread 1 waits, thread 2 does not.
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              make_barrier(kBarrier + 8, 1);
              if (thread() == 0) {
                arrive(kBarrier, 1024);
                load_rows(p[0], 0);
              }
              if (thread() == 1) {
                call().barrier_wait(kBarrier, 0);
                load(kTile);
                arrive(kBarrier + 8);
              }
              if (thread() == 2) {
                call().barrier_wait(kBarrier + 8, 0);
                load(kTile);  // ordered by thread 1
              }
              if (thread() == 32) call().barrier_wait(kBarrier, 0);
              if (thread() == 33) load(kTile);
            },
            64, parameters, memory) ==
        "kernel, block 0, thread 33, load_shared_4: reads shared memory at +1024 while thread 0's "
        "tensor_load to it is under way: barrier_wait is missing");
  // Thread 1 reads, and does not say so to thread 0.
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              make_barrier(kBarrier + 8, 1);
              if (thread() == 0) {
                arrive(kBarrier, 1024);
                load_rows(p[0], 0);
                call().barrier_wait(kBarrier + 8, 0);
                load_rows(p[0], 0);
              }
              if (thread() == 1) {
                call().barrier_wait(kBarrier, 0);
                arrive(kBarrier + 8);
                load(kTile);
              }
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 0, tensor_load: writes shared memory at +1024, which thread 1 "
        "read with no barrier of the block in between");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) load_rows(p[0], 0);
            },
            32, parameters, memory) ==
        "kernel, block 0: ends while thread 0's tensor_load to shared memory at +1024 is under "
        "way: barrier_wait is missing");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) store(kTile + 512, 0);
              if (thread() == 1) {
                arrive(kBarrier, 1024);
                load_rows(p[0], 0);
              }
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 1, tensor_load: writes shared memory at +1536, which thread 0 "
        "wrote with no barrier of the block in between");
  CHECK(run_block(
            [](void* const* p) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) {
                arrive(kBarrier, 2048);
                load_rows(p[0], 0);
                load_rows(p[0], 0);
              }
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 0, tensor_load: writes shared memory at +1024 while thread 0's "
        "tensor_load to it is under way: barrier_wait is missing");
}

TEST_CASE_FIXTURE(Elements, "tensor_load: a ring of two tiles") {
  REQUIRE(encode(map, data.data(), {{64, 128}, {64, 8}}) == CUDA_SUCCESS);
  bool releases = true;
  void* const parameters[] = {&map, &releases};
  const auto kernel = [](void* const* p) {
    for (unsigned i = 0; i < 2; ++i) make_barrier(kBarrier + 8 * i, 1);       // full
    for (unsigned i = 0; i < 2; ++i) make_barrier(kBarrier + 16 + 8 * i, 2);  // empty
    for (int i = 0; i < 8; ++i) {
      const unsigned slot = i % 2, full = kBarrier + 8 * slot, parity = i / 2 % 2;
      if (thread() == 0) {
        if (*static_cast<bool*>(p[1])) call().barrier_wait(full + 16, parity ^ 1);
        arrive(full, 1024);
        const int start[] = {0, 8 * i};
        call().tensor_load(kTile + 1024 * slot, p[0], full, start, 2);
      } else if (thread() == 32 || thread() == 64) {
        call().barrier_wait(full, parity);
        const unsigned value = load(kTile + 1024 * slot);
        CHECK(value % 65536 == static_cast<unsigned>(1 + 512 * i));
        arrive(full + 16);
      }
    }
  };
  CHECK(run_block(kernel, 96, parameters, memory) == "");
  releases = false;
  CHECK(run_block(kernel, 96, parameters, memory) ==
        "kernel, block 0, thread 0, barrier_arrive_if: arrives at the mbarrier at +0, whose phase "
        "0 has all of its 1 arrivals");
}

}  // namespace
}  // namespace attnjit::executor::tensor_load_test
