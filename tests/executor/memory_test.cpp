// The executor's reports of accesses, one for each rule that an access can break.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/global_memory.hpp"
#include "executor/shared_memory.hpp"
#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

/// The message of the Violation that `body` must throw.
std::string violation_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Violation& violation) {
    return violation.what();
  }
  return "no violation";
}

/// 64 bytes of shared memory and threads that touch its words.
struct Shared {
  Clocks clocks{4};
  SharedMemory memory{64, clocks};
  std::array<std::byte, 16> data{};

  static unsigned at(unsigned offset) { return SharedMemory::kBase + offset; }
  void store(int thread, unsigned offset, unsigned bytes = 4) {
    memory.store(thread, at(offset), std::span(data).first(bytes));
  }
  void load(int thread, unsigned offset, unsigned bytes = 4, Reader reader = Reader::kThread) {
    memory.load(thread, at(offset), std::span(data).first(bytes), reader);
  }
};

TEST_CASE_FIXTURE(Shared, "shared memory keeps what is stored") {
  data[0] = std::byte{7};
  store(3, 8);
  data[0] = std::byte{0};
  load(3, 8);
  CHECK(data[0] == std::byte{7});
}

TEST_CASE_FIXTURE(Shared, "shared memory: outside, and not aligned") {
  CHECK(violation_of([&] { store(0, 64); }) ==
        "touches 4 bytes of shared memory at +64; the block has 64 bytes");
  CHECK(violation_of([&] { store(0, 56, 16); }) ==
        "touches 16 bytes of shared memory at +56; the block has 64 bytes");
  CHECK(violation_of([&] { memory.store(0, 0, std::span(data).first(4)); }) ==
        "touches 4 bytes of shared memory at -1024; the block has 64 bytes");
  CHECK(violation_of([&] { store(0, 8, 16); }) ==
        "touches 16 bytes of shared memory at +8: not aligned to its size");
}

TEST_CASE_FIXTURE(Shared, "shared memory: additions need an order with all but one another") {
  const unsigned at_8 = at(8);
  CHECK(violation_of([&] { memory.add(0, at_8, 1); }) ==
        "adds to shared memory at +8, which was never written");
  store(1, 8);
  CHECK(
      violation_of([&] { memory.add(0, at_8, 1); }) ==
      "adds to shared memory at +8, which thread 1 wrote with no barrier of the block in between");
  memory.pass_barrier();
  CHECK(memory.add(0, at_8, 5) == 0);
  CHECK(memory.add(3, at_8, 2) == 5);
  CHECK(violation_of([&] { load(0, 8); }) ==
        "reads shared memory at +8, which thread 3 wrote with no barrier of the block in between");
  CHECK(violation_of([&] { store(0, 8); }) ==
        "writes shared memory at +8, which thread 3 wrote with no barrier of the block in between");
  memory.pass_barrier();
  load(0, 8);
  CHECK(data[0] == std::byte{7});
  CHECK(violation_of([&] { memory.add(1, at_8, 1); }) ==
        "writes shared memory at +8, which thread 0 read with no barrier of the block in between");
}

TEST_CASE_FIXTURE(Shared, "shared memory: what nobody has written, also of an earlier block") {
  CHECK(violation_of([&] { load(0, 12); }) ==
        "reads shared memory at +12, which was never written");
  store(0, 0);
  CHECK(violation_of([&] { load(0, 0, 16); }) ==
        "reads shared memory at +4, which was never written");
  memory.reset();
  CHECK(violation_of([&] { load(0, 0); }) == "reads shared memory at +0, which was never written");
}

TEST_CASE_FIXTURE(Shared, "shared memory: a write that others read or wrote before a barrier") {
  store(1, 0);
  CHECK(violation_of([&] { load(2, 0); }) ==
        "reads shared memory at +0, which thread 1 wrote with no barrier of the block in between");
  CHECK(violation_of([&] { store(2, 0); }) ==
        "writes shared memory at +0, which thread 1 wrote with no barrier of the block in between");
  // A matrix row reaches other lanes, also where the lane that wrote it reads it.
  CHECK(violation_of([&] { load(1, 0, 4, Reader::kWarp); }) ==
        "reads shared memory at +0, which thread 1 wrote with no barrier of the block in between");
  memory.pass_barrier();
  load(2, 0);
  CHECK(violation_of([&] { store(1, 0); }) ==
        "writes shared memory at +0, which thread 2 read with no barrier of the block in between");
  load(3, 0);
  CHECK(violation_of([&] { store(3, 0); }) ==
        "writes shared memory at +0, which several threads read with no barrier of the block in "
        "between");
  memory.pass_barrier();
  store(1, 0);
}

TEST_CASE_FIXTURE(Shared, "shared memory: one thread may write, read and write again") {
  store(1, 0);
  load(1, 0);
  store(1, 0);
}

TEST_CASE_FIXTURE(Shared, "shared memory: a copy that nobody has waited for") {
  memory.begin_copy(1, at(0), 16);
  CHECK(violation_of([&] { load(1, 4); }) ==
        "reads shared memory at +4 while thread 1's copy to it is under way: copy_async_wait is "
        "missing");
  CHECK(violation_of([&] { store(1, 8); }) ==
        "writes shared memory at +8 while thread 1's copy to it is under way: copy_async_wait is "
        "missing");
  data[0] = std::byte{9};
  memory.pass_barrier();  // does not wait for the copy
  memory.finish_copy(1, at(0), data);
  load(1, 0);
  CHECK(data[0] == std::byte{9});
  CHECK(violation_of([&] { load(2, 0); }) ==
        "reads shared memory at +0, which thread 1 wrote with no barrier of the block in between");
  memory.pass_barrier();
  load(2, 0);
}

/// Two rows of three 16-bit elements with a gap of one after each, and a second tensor of floats.
struct Global {
  alignas(16) std::array<std::uint16_t, 64> space{};
  alignas(16) std::array<float, 4> floats{};
  GlobalMemory memory;

  Global() {
    memory.add("q", view(space.data(), {1, 1, 2, 3}, {0, 0, 4, 1}), 2, TensorRole::kInput);
    memory.add("out", view(floats.data(), {1, 1, 1, 4}, {0, 0, 0, 1}), 4, TensorRole::kOutput);
    memory.begin_kernel(false);
  }
  static Tensor view(void* data, std::array<std::int64_t, 4> shape,
                     std::array<std::int64_t, 4> strides) {
    Tensor tensor;
    tensor.data = data;
    tensor.shape = shape;
    tensor.strides = strides;
    return tensor;
  }
  std::string access(const void* address, unsigned bytes, GlobalAccess kind, bool waited = false) {
    return violation_of([&] { memory.access(address, bytes, kind, waited); });
  }
};

constexpr auto kRead = GlobalAccess::kRead;
constexpr auto kReadConst = GlobalAccess::kReadConst;
constexpr auto kWrite = GlobalAccess::kWrite;
constexpr auto kAdd = GlobalAccess::kAdd;

TEST_CASE_FIXTURE(Global, "global memory: elements, and what lies between and around them") {
  CHECK(access(&space[0], 4, kReadConst) == "no violation");
  CHECK(access(&space[6], 2, kRead) == "no violation");
  CHECK(access(&space[2], 4, kRead) ==
        "reads 4 bytes at byte 4 of q [1, 1, 2, 3]: byte 6 lies between its rows");
  CHECK(access(&space[7], 2, kRead) ==
        "reads 2 bytes, the first 0 bytes past the end of q [1, 1, 2, 3]");
  CHECK(access(&space[6], 4, kRead) ==
        "reads 4 bytes at byte 12 of q [1, 1, 2, 3], which ends 2 bytes later");
  CHECK(access(&space[1], 4, kRead) ==
        "reads 4 bytes at byte 2 of q [1, 1, 2, 3]: not aligned to its size");
}

TEST_CASE("global memory: before the first tensor, and far from any") {
  std::array<float, 4> floats{};
  GlobalMemory memory;
  memory.add("v", Global::view(&floats[2], {1, 1, 1, 2}, {0, 0, 0, 1}), 4, TensorRole::kInput);
  CHECK(violation_of([&] { memory.access(&floats[1], 4, kRead, false); }) ==
        "reads 4 bytes, the first 4 bytes before the start of v [1, 1, 1, 2]");
  const auto* const far = reinterpret_cast<const std::byte*>(&floats[2]) + (std::size_t{1} << 30);
  CHECK(violation_of([&] {
          memory.access(far, 4, kWrite, false);
        }).ends_with(", which belongs to no tensor of the launch"));
}

TEST_CASE("global memory: a tensor between the rows of another") {
  std::array<std::uint16_t, 8> space{};
  GlobalMemory memory;
  memory.add("q", Global::view(&space[0], {1, 1, 2, 2}, {0, 0, 4, 1}), 2, TensorRole::kInput);
  memory.add("k", Global::view(&space[2], {1, 1, 2, 2}, {0, 0, 4, 1}), 2, TensorRole::kOutput);
  memory.access(&space[4], 4, kRead, false);
  memory.access(&space[2], 4, kWrite, false);
  CHECK(violation_of([&] { memory.access(&space[4], 2, kWrite, false); }) ==
        "writes byte 8 of q [1, 1, 2, 2], an input");
}

TEST_CASE("global memory: an axis of stride 0, and a tensor without elements") {
  std::array<std::uint8_t, 8> bytes{};
  GlobalMemory memory;
  memory.add("mask", Global::view(bytes.data(), {5, 7, 2, 3}, {0, 0, 4, 1}), 1, TensorRole::kInput);
  memory.add("none", Global::view(bytes.data(), {1, 0, 2, 3}, {0, 0, 4, 1}), 1, TensorRole::kInput);
  memory.access(&bytes[6], 1, kRead, false);
  CHECK(violation_of([&] { memory.access(&bytes[3], 1, kRead, false); }) ==
        "reads 1 bytes at byte 3 of mask [5, 7, 2, 3]: byte 3 lies between its rows");
  CHECK(violation_of([&] { memory.access(&bytes[7], 1, kRead, false); }) ==
        "reads 1 bytes, the first 0 bytes past the end of mask [5, 7, 2, 3]");
}

TEST_CASE_FIXTURE(Global, "global memory: inputs are not written, outputs once by each kernel") {
  CHECK(access(&space[0], 2, kWrite) == "writes byte 0 of q [1, 1, 2, 3], an input");
  CHECK(access(&space[1], 2, kAdd) == "adds to byte 2 of q [1, 1, 2, 3], an input");
  CHECK(access(&floats[1], 4, kWrite) == "no violation");
  CHECK(access(&floats[1], 4, kWrite) ==
        "writes byte 4 of out [1, 1, 1, 4], which this kernel has written already");
  memory.begin_kernel(false);
  CHECK(access(&floats[1], 4, kWrite) == "no violation");
}

TEST_CASE("global memory: what is replaced is read first, and written once") {
  Global global;
  std::array<float, 4> sums{};
  global.memory.add("sums", Global::view(sums.data(), {1, 1, 1, 4}, {0, 0, 0, 1}), 4,
                    TensorRole::kReplaced);
  CHECK(global.access(&sums[1], 4, kRead) == "no violation");
  CHECK(global.access(&sums[1], 4, kWrite) == "no violation");
  CHECK(global.access(&sums[1], 4, kReadConst).find("although this kernel writes it") !=
        std::string::npos);
  CHECK(global.access(&sums[1], 4, kWrite).find("has written already") != std::string::npos);
}

TEST_CASE_FIXTURE(Global, "global memory: what is read must have been written") {
  CHECK(access(&floats[0], 4, kRead) ==
        "reads byte 0 of out [1, 1, 1, 4], which was never written");
  CHECK(access(&floats[0], 4, kAdd) ==
        "adds to byte 0 of out [1, 1, 1, 4], which was never set to zero");
  access(&floats[0], 4, kWrite);
  CHECK(access(&floats[0], 4, kRead) == "no violation");
  CHECK(access(&floats[0], 4, kAdd) == "no violation");
  CHECK(access(&floats[0], 4, kAdd) == "no violation");
  CHECK(access(&floats[0], 4, kReadConst) ==
        "reads byte 0 of out [1, 1, 1, 4] through the read-only cache, although this kernel writes "
        "it");
}

TEST_CASE_FIXTURE(Global,
                  "global memory: what came before a kernel that did not overlap is there") {
  access(&floats[0], 4, kWrite);
  memory.begin_kernel(false);
  access(&floats[1], 4, kWrite);
  memory.begin_kernel(true);
  CHECK(access(&floats[0], 4, kRead, false) == "no violation");
  CHECK(access(&floats[1], 4, kRead, false) != "no violation");
  memory.begin_kernel(true);
  CHECK(access(&floats[1], 4, kRead, false) != "no violation");
  memory.begin_kernel(false);
  CHECK(access(&floats[1], 4, kRead, false) == "no violation");
}

TEST_CASE_FIXTURE(Global, "global memory: a kernel that overlaps the one ahead must wait") {
  access(&floats[0], 4, kWrite);
  memory.begin_kernel(true);
  const std::string missing =
      " byte 0 of out [1, 1, 1, 4], which the kernel ahead may still write: "
      "wait_for_previous_kernel is missing";
  CHECK(access(&floats[0], 4, kRead, false) == "reads" + missing);
  CHECK(access(&floats[0], 4, kWrite, false) == "writes" + missing);
  CHECK(access(&floats[0], 4, kAdd, false) == "adds to" + missing);
  CHECK(access(&floats[0], 4, kReadConst, true) ==
        "reads byte 0 of out [1, 1, 1, 4] through the read-only cache, although a kernel that this "
        "one overlaps writes it");
  CHECK(access(&floats[1], 4, kWrite, false) == "no violation");
  CHECK(access(&space[0], 2, kRead, false) == "no violation");
}

}  // namespace
}  // namespace attnjit::executor
