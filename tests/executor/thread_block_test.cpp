// Thread blocks of plain functions that call the services as the primitives do.
#include "executor/thread_block.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/violation.hpp"

namespace attnjit::executor::thread_block_test {
namespace {

constexpr int kThreads = 64;
constexpr unsigned kSharedBytes = 1024;
constexpr unsigned kBase = SharedMemory::kBase;

int thread() { return ThreadBlock::services().thread_index(); }
void nothing(void* const*, int) {}
void block_sync() { ThreadBlock::services().block_barrier("block_sync", nullptr, nothing); }
void warp_sync(const char* function) {
  ThreadBlock::services().warp_collective(function, nullptr, nothing);
}
void store(unsigned address, int value) {
  ThreadBlock::services().store_shared(address, &value, sizeof value, "store_shared_4");
}
int load(unsigned address) {
  int value = 0;
  ThreadBlock::services().load_shared(address, &value, sizeof value, Reader::kThread,
                                      "load_shared_4");
  return value;
}

using Kernel = void (*)(void* const* parameters);

/// Runs `blocks` blocks of two warps one after the other; the violation, or "".
std::string run(Kernel kernel, void* const* parameters = nullptr, unsigned blocks = 1,
                GlobalMemory memory = {}) {
  const Launch launch{"kernel", kernel, parameters, blocks, kThreads, kSharedBytes};
  memory.begin_kernel(false);
  ThreadBlock block(launch, memory);
  try {
    for (unsigned i = 0; i < blocks; ++i) {
      block.begin(i);
      while (block.go_on() != ThreadBlock::Progress::kEnded) {
      }
    }
  } catch (const Violation& violation) {
    return violation.what();
  }
  return "";
}

TEST_CASE("every thread of every block runs once") {
  std::array<int, 3 * kThreads> seen{};
  void* const parameters[] = {seen.data()};
  CHECK(run(
            [](void* const* p) {
              const Services& services = ThreadBlock::services();
              ++static_cast<int*>(p[0])[services.block_index() * kThreads + thread()];
            },
            parameters, 3) == "");
  for (const int count : seen) CHECK(count == 1);
}

TEST_CASE("threads hand values over across a barrier, and across a warp") {
  std::array<int, kThreads> neighbours{}, sums{};
  void* const parameters[] = {neighbours.data(), sums.data()};
  CHECK(run(
            [](void* const* p) {
              store(kBase + 4 * thread(), 100 + thread());
              block_sync();
              static_cast<int*>(p[0])[thread()] = load(kBase + 4 * ((thread() + 1) % kThreads));
              int value = thread();
              ThreadBlock::services().warp_collective("sum", &value, [](void* const* m, int count) {
                int sum = 0;
                for (int i = 0; i < count; ++i) sum += *static_cast<int*>(m[i]);
                for (int i = 0; i < count; ++i) *static_cast<int*>(m[i]) = sum;
              });
              static_cast<int*>(p[1])[thread()] = value;
            },
            parameters, 2) == "");
  CHECK(neighbours[0] == 101);
  CHECK(neighbours[63] == 100);
  CHECK(sums[5] == 31 * 32 / 2);
  CHECK(sums[40] == 31 * 32 / 2 + 32 * 32);
}

TEST_CASE("a violation names kernel, block, thread and primitive") {
  CHECK(run(
            [](void* const*) {
              if (ThreadBlock::services().block_index() == 2 && thread() == 37)
                store(kBase + 1024, 1);
            },
            nullptr, 4) ==
        "kernel, block 2, thread 37, store_shared_4: touches 4 bytes of shared memory at +1024; "
        "the block has 1024 bytes");
}

TEST_CASE("deadlock: a thread that ends before the barrier") {
  CHECK(run([](void* const*) {
          if (thread() != 33) block_sync();
        }) ==
        "kernel, block 0: deadlock; block_sync: 63 of 64 threads arrived, thread 33 has ended");
}

TEST_CASE("deadlock: a lane that leaves its warp") {
  CHECK(run([](void* const*) {
          if (thread() != 40) warp_sync("warp_all");
          block_sync();
        }) ==
        "kernel, block 0: deadlock; block_sync: 33 of 64 threads arrived, thread 32 waits in "
        "warp_all; warp_all: 31 of 32 threads arrived, thread 40 waits in block_sync");
}

TEST_CASE("threads that take different ways through a warp, or a block") {
  CHECK(run([](void* const*) { warp_sync(thread() % 2 == 0 ? "quad_max" : "quad_sum"); }) ==
        "kernel, block 0, thread 1, quad_sum: meets threads that wait in quad_max: not all take "
        "the same way");
  CHECK(run([](void* const*) {
          const char* const function = thread() < 32 ? "block_any" : "block_all";
          ThreadBlock::services().block_barrier(function, nullptr, nothing);
        }) ==
        "kernel, block 0, thread 32, block_all: meets threads that wait in block_any: not all take "
        "the same way");
}

TEST_CASE("a barrier orders shared memory, a warp's meeting does not") {
  CHECK(run([](void* const*) {
          if (thread() == 0) store(kBase, 1);
          warp_sync("warp_all");
          if (thread() == 1) load(kBase);
        }) ==
        "kernel, block 0, thread 1, load_shared_4: reads shared memory at +0, which thread 0 wrote "
        "with no barrier of the block in between");
}

/// Copies 16 bytes to shared memory and reads them, waiting until `kPending` groups are left.
template <int kPending, bool kValid>
void copy(void* const* parameters) {
  const Services& services = ThreadBlock::services();
  if (thread() != 0) return;
  services.copy_async(kBase, parameters[0], 16, kValid, "copy_async_16");
  services.copy_async_commit();
  services.copy_async_wait(kPending);
  *static_cast<int*>(parameters[1]) = load(kBase + 4);
}

TEST_CASE("an asynchronous copy arrives when it is waited for") {
  alignas(16) std::array<int, 4> source = {1, 2, 3, 4};
  int result = -1;
  void* const parameters[] = {source.data(), &result};
  Tensor view;
  view.data = source.data();
  view.shape = {1, 1, 1, 4};
  view.strides = {0, 0, 0, 1};
  GlobalMemory memory;
  memory.add("k", view, sizeof(int), TensorRole::kInput);

  CHECK(run(copy<0, true>, parameters, 1, memory) == "");
  CHECK(result == 2);
  CHECK(run(copy<0, false>, parameters, 1, memory) == "");
  CHECK(result == 0);
  CHECK(run(copy<1, true>, parameters, 1, memory) ==
        "kernel, block 0, thread 0, load_shared_4: reads shared memory at +4 while thread 0's copy "
        "to it is under way: copy_async_wait is missing");
  // A copy that is not valid reads nothing, so any address will do.
  void* const nowhere[] = {nullptr, &result};
  CHECK(run(copy<0, false>, nowhere, 1, memory) == "");
  CHECK(run(copy<0, true>, nowhere, 1, memory)
            .starts_with("kernel, block 0, thread 0, copy_async_16: reads 16 bytes"));
}

TEST_CASE("threads that stop in the middle of a function give their resources back") {
  struct Counted {
    explicit Counted(int& c) : count(c) { ++count; }
    ~Counted() { --count; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    int& count;
  };
  int alive = 0;
  void* const parameters[] = {&alive};
  CHECK(run(
            [](void* const* p) {
              const Counted counted(*static_cast<int*>(p[0]));
              if (thread() != 0) block_sync();
            },
            parameters) != "");
  CHECK(alive == 0);
}

}  // namespace
}  // namespace attnjit::executor::thread_block_test
