// Mbarriers: what they order, and the reports of their misuse.
#include "block.hpp"

namespace attnjit::executor::mbarrier_test {
namespace {

constexpr unsigned kBarrier = kSharedBase + 64;
constexpr unsigned kWord = kSharedBase;

TEST_CASE("an mbarrier orders what came before an arrival against what follows the wait") {
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 32);
              for (unsigned phase = 0; phase < 3; ++phase) {
                if (thread() < 32) {
                  store(kWord + 256 + 4 * thread(), phase);
                  arrive(kBarrier);
                } else {
                  call().barrier_wait(kBarrier, phase % 2);
                  const unsigned value = load(kWord + 256 + 4 * (thread() - 32));
                  CHECK(value == phase);
                }
                block_sync();
              }
            },
            64) == "");
}

TEST_CASE("an mbarrier orders nothing for those who do not wait") {
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 1);
              if (thread() == 32) {
                store(kWord, 1);
                arrive(kBarrier);
              }
              if (thread() == 0) load(kWord);
            },
            64) ==
        "kernel, block 0, thread 0, load_shared_4: reads shared memory at +0, which thread 32 "
        "wrote with no barrier of the block in between");
  // A write after the arrival is not part of it.
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) {
                arrive(kBarrier);
                store(kWord, 1);
              }
              if (thread() == 32) {
                call().barrier_wait(kBarrier, 0);
                load(kWord);
              }
            },
            64) ==
        "kernel, block 0, thread 32, load_shared_4: reads shared memory at +0, which thread 0 "
        "wrote with no barrier of the block in between");
}

TEST_CASE("an mbarrier releases what was read, and the order is handed on") {
  const auto kernel = [](void* const* p) {
    make_barrier(kBarrier, 2);
    make_barrier(kBarrier + 8, 1);
    if (thread() == 0) store(kWord, 1);
    block_sync();
    if (thread() == 1 || thread() == 33) {
      load(kWord);
      if (thread() == 1 || *static_cast<bool*>(p[0])) arrive(kBarrier);
    }
    if (thread() == 34) {
      if (*static_cast<bool*>(p[0])) call().barrier_wait(kBarrier, 0);
      arrive(kBarrier + 8);
    }
    if (thread() == 40) {
      call().barrier_wait(kBarrier + 8, 0);
      store(kWord, 2);
    }
  };
  bool releases = true;
  void* const parameters[] = {&releases};
  CHECK(run_block(kernel, 64, parameters) == "");
  releases = false;
  CHECK(run_block(kernel, 64, parameters) ==
        "kernel, block 0, thread 40, store_shared_4: writes shared memory at +0, which thread "
        "33 read with no barrier of the block in between");
}

TEST_CASE("the phase before the first counts as ended") {
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 1);
              call().barrier_wait(kBarrier, 1);
            },
            32) == "");
}

TEST_CASE("mbarriers that were not made, or not shown") {
  CHECK(run_block([](void* const*) { arrive(kBarrier); }, 32) ==
        "kernel, block 0, thread 0, barrier_arrive_if: uses the mbarrier at +64, which was never "
        "initialised");
  CHECK(run_block(
            [](void* const*) {
              if (thread() == 0) call().barrier_init(kBarrier, 1);
              block_sync();
              call().barrier_wait(kBarrier, 1);
            },
            32) ==
        "kernel, block 0, thread 31, barrier_wait: uses the mbarrier at +64, which thread 0 made: "
        "barrier_init_fence and a block_sync must come in between");
  CHECK(run_block(
            [](void* const*) {
              if (thread() == 0) call().barrier_init(kBarrier, 1);
              call().barrier_init_fence();
              call().barrier_wait(kBarrier, 1);
            },
            32) ==
        "kernel, block 0, thread 1, barrier_wait: uses the mbarrier at +64, which thread 0 made: "
        "barrier_init_fence and a block_sync must come in between");
  CHECK(run_block([](void* const*) { call().barrier_init(kBarrier, 0); }, 32) ==
        "kernel, block 0, thread 0, barrier_init: makes the mbarrier at +64 for 0 arrivals");
}

TEST_CASE("the bytes of an mbarrier are nobody's") {
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 1);
              load(kBarrier + 4);
            },
            32) ==
        "kernel, block 0, thread 31, load_shared_4: reads shared memory at +68, a part of an "
        "mbarrier");
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 1);
              if (thread() == 0) call().barrier_init(kBarrier, 1);
            },
            32) ==
        "kernel, block 0, thread 0, barrier_init: writes shared memory at +64, a part of an "
        "mbarrier");
}

TEST_CASE("more arrivals than a phase has room for") {
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 2);
              if (thread() == 0) arrive(kBarrier, 16);
              if (thread() == 1) arrive(kBarrier, 0);
              if (thread() == 2) arrive(kBarrier, 0);
            },
            32) ==
        "kernel, block 0, thread 2, barrier_arrive_if: arrives at the mbarrier at +64, whose phase "
        "0 has all of its 2 arrivals");
}

TEST_CASE("deadlock: an mbarrier whose phase does not end") {
  CHECK(run_block(
            [](void* const*) {
              make_barrier(kBarrier, 8);
              if (thread() == 0) arrive(kBarrier, 16384);
              if (thread() > 32) call().barrier_wait(kBarrier, 0);
            },
            64) ==
        "kernel, block 0: deadlock; barrier_wait: the mbarrier at +64, phase 0: 1 of 8 arrivals, "
        "16384 bytes that never came, 31 threads wait, the first is 63");
  CHECK(
      run_block([](void* const*) { make_barrier(kBarrier, 1), call().barrier_wait(kBarrier, 2); },
                32) ==
      "kernel, block 0, thread 31, barrier_wait: waits for parity 2 of the mbarrier at +64; it is "
      "0 or 1");
}

}  // namespace
}  // namespace attnjit::executor::mbarrier_test
