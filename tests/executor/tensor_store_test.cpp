// Tensor maps, and stores of boxes by the copy engine: what they write, and the reports of their
// misuse.
#include "elements.hpp"

namespace attnjit::executor::tensor_store_test {
namespace {

constexpr unsigned kTile = 2048;

TEST_CASE_FIXTURE(Elements, "tensor maps: what the driver refuses") {
  void* const at = data.data();
  const auto ok = [&](const MapSpec& spec, int offset = 0) {
    return encode(map, static_cast<std::byte*>(at) + offset, spec) == CUDA_SUCCESS;
  };
  CHECK(ok({{64, 64}, {64, 64}}));
  CHECK_FALSE(ok({{64, 64}, {64, 64}}, 8));
  CHECK_FALSE(ok({{64, 64, 1, 1, 1, 1}, {64, 64, 1, 1, 1, 1}}));
  CHECK_FALSE(ok({{64, 0}, {64, 64}}));
  CHECK_FALSE(ok({{64, (1ull << 32) + 1}, {64, 64}}));
  CHECK(ok({{64, 1ull << 32}, {64, 64}}));
  CHECK_FALSE(ok({{64, 64}, {64, 64}, {136}}));
  CHECK_FALSE(ok({{64, 64}, {64, 64}, {1ull << 40}}));
  CHECK_FALSE(ok({{64, 64}, {64, 257}}));
  CHECK_FALSE(ok({{64, 64}, {64, 0}}));
  CHECK_FALSE(ok({{64, 64}, {128, 64}}));
  CHECK_FALSE(ok({{64, 64}, {12, 64}}));
  CHECK_FALSE(ok({{64, 64}, {64, 64}, {128}, {1, 9}}));
  CHECK(ok({{64, 64}, {64, 64}, {128}, {1, 8}}));
  CHECK(
      ok({{64, 64}, {64, 64}, {}, {}, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_DATA_TYPE_UINT8}));
}

/// Fills 8 lines of a tile, shows them to the copy engine as bits 0 to 2 of `*p[1]` have it, and
/// stores them to row 4.
void store_tile(void* const* p) {
  const int what = *static_cast<int*>(p[1]);
  if (thread() < 32) {
    for (unsigned i = 0; i < 8; ++i) store(kTile + 4 * (thread() + 32 * i), thread() + 1000 * i);
    if ((what & 1) != 0) call().fence_async_proxy();
    if ((what & 2) != 0) call().warp_barrier("warp_sync");
  }
  if (thread() == 0) {
    const int start[] = {0, 4, 0, 0};
    call().tensor_store(p[0], kTile, start, 4);
    if ((what & 4) != 0) call().tensor_store_commit();
    if ((what & 8) != 0) call().tensor_store_wait_read(0);
  }
  if ((what & 16) != 0 && thread() == 0) store(kTile, 0);
}

TEST_CASE_FIXTURE(Elements,
                  "tensor_store_if: what was written and shown, cut at the tensor's end") {
  // Rows are 40 of 64 columns, and end after the fifth of the box.
  REQUIRE(encode(out_map, out.data(), {{40, 9, 1, 1}, {64, 8, 1, 1}, {128, 1152, 1152}}) ==
          CUDA_SUCCESS);
  int what = 15;
  void* const parameters[] = {&out_map, &what};
  REQUIRE(run_block(store_tile, 64, parameters, memory) == "");
  for (int i = 0; i < 16384; ++i) {
    const int row = i / 64 - 4, column = i % 64;
    const bool inside = row >= 0 && row < 5 && column < 40;
    const int word = ((column / 8) ^ row) * 4 + column % 8 / 2;
    CHECK(out[i] == (inside && column % 2 == 0 ? word + 1000 * row : 0));
  }
}

TEST_CASE_FIXTURE(Elements, "tensor_store_if: its reports") {
  REQUIRE(encode(out_map, out.data(), {{64, 128, 1, 1}, {64, 8, 1, 1}}) == CUDA_SUCCESS);
  const auto report = [&](int what) {
    void* const parameters[] = {&out_map, &what};
    return run_block(store_tile, 64, parameters, memory);
  };
  const std::string prefix = "kernel, block 0, thread 0, ";
  CHECK(report(15) == "");
  CHECK(report(31) == "");
  CHECK(report(14) == prefix +
                          "tensor_store_if: has the copy engine read shared memory at +1024, which "
                          "thread 0 wrote: fence_async_proxy is missing, by that thread and before "
                          "the barrier");
  CHECK(report(13) ==
        prefix + "tensor_store_if: reads shared memory at +1028, which was never written");
  CHECK(report(11) == prefix +
                          "tensor_store_wait_read: waits for a tensor store of no group: "
                          "tensor_store_commit is missing");
  CHECK(report(7) ==
        "kernel, block 0: ends while thread 0's tensor store reads shared memory: "
        "tensor_store_wait_read is missing");
  CHECK(report(23) ==
        prefix +
            "store_shared_4: writes shared memory at +1024 while a tensor store reads "
            "it: tensor_store_wait_read is missing");
  // An input is not written.
  REQUIRE(encode(out_map, data.data(), {{64, 128, 1, 1}, {64, 8, 1, 1}}) == CUDA_SUCCESS);
  CHECK(report(15) == prefix + "tensor_store_if: writes byte 512 of k [1, 1, 1, 16384], an input");
}

TEST_CASE_FIXTURE(Elements, "a fence of the asynchronous proxy must come before the barrier") {
  REQUIRE(encode(out_map, out.data(), {{64, 128, 1, 1}, {64, 8, 1, 1}}) == CUDA_SUCCESS);
  void* const parameters[] = {&out_map};
  CHECK(run_block(
            [](void* const* p) {
              for (unsigned i = 0; i < 8; ++i) store(kTile + 4 * (thread() + 32 * i), 0);
              call().warp_barrier("warp_sync");
              call().fence_async_proxy();
              const int start[] = {0, 0, 0, 0};
              if (thread() == 31) call().tensor_store(p[0], kTile, start, 4);
            },
            32, parameters, memory) ==
        "kernel, block 0, thread 31, tensor_store_if: has the copy engine read shared memory at "
        "+1024, which thread 0 wrote: fence_async_proxy is missing, by that thread and before the "
        "barrier");
}

}  // namespace
}  // namespace attnjit::executor::tensor_store_test
