// Barriers of some warps, or of one: what they order, and the reports of their misuse; and the
// registers that warpgroups give and take.
#include "block.hpp"

namespace attnjit::executor::named_barrier_test {
namespace {

constexpr unsigned kWord = kSharedBase;

void named(int id, int threads, bool waits) {
  call().named_barrier(id, threads, waits, waits ? "named_barrier_sync" : "named_barrier_arrive");
}

TEST_CASE("a named barrier orders those that arrive against those that wait") {
  const auto kernel = [](void* const* p) {
    const bool waits = *static_cast<bool*>(p[0]);
    for (int i = 0; i < 2; ++i) {
      if (thread() < 32) {
        store(kWord + 4 * thread(), thread());
        named(3, 64, false);
        named(4, 64, true);
      } else if (thread() < 64) {
        named(3, 64, waits);
        const int value = static_cast<int>(load(kWord + 4 * (thread() - 32)));
        CHECK(value == thread() - 32);
        named(4, 64, false);
      }
    }
  };
  bool waits = true;
  void* const parameters[] = {&waits};
  CHECK(run_block(kernel, 96, parameters) == "");
  waits = false;
  CHECK(run_block(kernel, 96, parameters) ==
        "kernel, block 0, thread 63, load_shared_4: reads shared memory at +124, which thread 31 "
        "wrote with no barrier of the block in between");
}

TEST_CASE("a barrier of some warps orders nothing for the others") {
  CHECK(run_block(
            [](void* const*) {
              if (thread() == 0) store(kWord, 1);
              if (thread() < 64) named(1, 64, true);
              if (thread() == 64) load(kWord);
            },
            96) ==
        "kernel, block 0, thread 64, load_shared_4: reads shared memory at +0, which thread 0 "
        "wrote with no barrier of the block in between");
}

TEST_CASE("named barriers: ids and counts") {
  CHECK(run_block([](void* const*) { named(0, 32, true); }, 32) ==
        "kernel, block 0, thread 31, named_barrier_sync: comes to named barrier 0; there are 1 to "
        "15");
  CHECK(run_block([](void* const*) { named(2, 40, true); }, 64) ==
        "kernel, block 0, thread 31, named_barrier_sync: comes to named barrier 2 for 40 threads; "
        "the block has 64, and whole warps come");
  CHECK(run_block([](void* const*) { named(2, thread() < 32 ? 64 : 96, true); }, 96) ==
        "kernel, block 0, thread 63, named_barrier_sync: comes to named barrier 2 for 96 threads, "
        "others for 64");
  CHECK(run_block(
            [](void* const*) {
              if (thread() < 32) named(5, 64, true);
            },
            64) ==
        "kernel, block 0: deadlock; named barrier 5: 32 of 64 threads arrived, 32 wait, the first "
        "is 31");
}

TEST_CASE("a barrier of a warp orders its lanes") {
  CHECK(run_block(
            [](void* const*) {
              store(kWord + 4 * thread(), thread());
              call().warp_barrier("warp_sync");
              load(kWord + 4 * (thread() ^ 1));
            },
            64) == "");
  CHECK(run_block(
            [](void* const*) {
              store(kWord + 4 * thread(), thread());
              call().warp_barrier("warp_sync");
              load(kWord + 4 * (thread() ^ 32));
            },
            64) ==
        "kernel, block 0, thread 31, load_shared_4: reads shared memory at +252, which was never "
        "written");
}

TEST_CASE("registers: given before they are taken") {
  CHECK(run_block(
            [](void* const*) {
              if (thread() < 128) {
                call().take_registers(240);
              } else {
                call().give_registers(24);
              }
            },
            384) == "");
  CHECK(run_block(
            [](void* const*) {
              if (thread() < 128) {
                call().give_registers(32);
              } else {
                call().take_registers(240);
              }
            },
            384) ==
        "kernel, block 0: deadlock; take_registers: warpgroup 2 waits for 72 more a thread, 64 are "
        "left");
  CHECK(run_block([](void* const*) { call().give_registers(240); }, 384) ==
        "kernel, block 0, thread 127, give_registers: gives registers down to 240, and each thread "
        "has 168");
  CHECK(run_block([](void* const*) { call().take_registers(124); }, 512) ==
        "kernel, block 0, thread 127, take_registers: takes registers up to 124; a multiple of 8 "
        "from 24 to 240 is wanted");
  CHECK(run_block([](void* const*) { call().give_registers(24); }, 160) ==
        "kernel, block 0, thread 128, give_registers: wants a warpgroup of 128 threads, and this "
        "one has 32");
}

}  // namespace
}  // namespace attnjit::executor::named_barrier_test
