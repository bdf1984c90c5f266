// Asynchronous products of a warpgroup: when their sums arrive, and the reports of their misuse.
#include <cmath>

#include "block.hpp"

namespace attnjit::executor {
namespace {

constexpr unsigned kA = 2048;       // 64 lines
constexpr unsigned kB = kA + 8192;  // 32 lines
constexpr int kColumns = 32;
constexpr unsigned kOne = 0x3f803f80;  // two bf16

unsigned long long tile(unsigned address, unsigned leading = 16, unsigned stride = 1024) {
  return (address >> 4) | static_cast<unsigned long long>(leading >> 4) << 16 |
         static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 62;
}

/// Ones everywhere, shown to the asynchronous proxy.
void fill() {
  for (unsigned i = 0; i < 24; ++i) store(kA + 4 * (thread() + 128 * i), kOne);
  call().fence_async_proxy();
  block_sync();
}
void multiply(float (&c)[kColumns / 2], bool adds, unsigned long long a = tile(kA),
              unsigned long long b = tile(kB)) {
  call().multiply_async({c, kColumns, nullptr, a, b, adds, true});
}
void multiply(float (&c)[kColumns / 2], const unsigned (&a)[4], bool adds) {
  call().multiply_async({c, kColumns, a, 0, tile(kB), adds, true, true});
}

/// A report from the name of the primitive on: which thread is the last to come does not matter.
std::string from_primitive(const std::string& report) {
  const std::size_t thread = report.find("block 0, thread ");
  return thread == std::string::npos ? report : report.substr(report.find(", ", thread + 9) + 2);
}

/// Runs a block of one warpgroup; `body` follows fill().
template <class Body>
std::string run_warpgroup(Body) {
  return from_primitive(run_block(
      [](void* const*) {
        fill();
        Body{}();
      },
      128));
}

TEST_CASE("wgmma: sums are NaN until their group has ended") {
  CHECK(run_warpgroup([] {
          float c[kColumns / 2] = {}, d[kColumns / 2] = {};
          call().wgmma_fence();
          multiply(c, true);
          multiply(c, true);
          call().wgmma_commit();
          call().wgmma_fence();
          multiply(d, false);
          call().wgmma_commit();
          CHECK(std::isnan(c[3]));
          call().wgmma_wait(1);
          CHECK(c[3] == 32);
          CHECK(std::isnan(d[15]));
          call().wgmma_wait(0);
          CHECK(d[15] == 16);
        }) == "");
}

TEST_CASE("wgmma: sums that two groups add to arrive with the second") {
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          for (float& value : c) value = 1;
          for (int i = 0; i < 2; ++i) {
            call().wgmma_fence();
            multiply(c, true);
            call().wgmma_commit();
          }
          call().wgmma_wait(1);
          CHECK(std::isnan(c[0]));
          call().wgmma_wait(0);
          CHECK(c[0] == 33);
        }) == "");
}

TEST_CASE("wgmma: the order of its calls") {
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          multiply(c, false);
        }) == "multiply_async: begins a group of products: wgmma_fence is missing");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false);
          call().wgmma_wait(0);
        }) == "wgmma_wait: waits for products of no group: wgmma_commit is missing");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false);
          call().wgmma_commit();
        }) ==
        "kernel, block 0: ends while the wgmma of warpgroup 0 are under way: wgmma_wait is "
        "missing");
  CHECK(run_warpgroup([] {
          if (thread() < 96) call().wgmma_fence();
          if (thread() >= 96) call().wgmma_commit();
        }) ==
        "wgmma_fence: meets threads that wait in wgmma_commit: "
        "not all take the same way");
  CHECK(run_warpgroup([] {
          if (thread() < 96) call().wgmma_fence();
        }) ==
        "kernel, block 0: deadlock; wgmma_fence: 96 of 128 threads arrived, thread 96 has "
        "ended");
}

TEST_CASE("wgmma: registers that are touched too early") {
  CHECK(run_warpgroup([] {
          float c[kColumns / 2] = {};
          call().wgmma_fence();
          multiply(c, true);
          call().wgmma_commit();
          if (thread() == 5) c[7] *= 2;  // still NaN, but not the same
          call().wgmma_wait(0);
        }) ==
        "wgmma_wait: sums in registers of thread 5 were changed while wgmma added to "
        "them");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2] = {};
          for (int i = 0; i < 2; ++i) {
            call().wgmma_fence();
            multiply(c, i > 0);
            if (i == 0 && thread() == 9) c[0] = 0;
            call().wgmma_commit();
          }
        }) ==
        "multiply_async: adds to sums that thread 9 changed while they were under way: "
        "wgmma_wait is missing");
  CHECK(run_warpgroup([] {
          float c[kColumns];
          call().wgmma_fence();
          call().multiply_async({c, kColumns, nullptr, tile(kA), tile(kB), false, true});
          call().multiply_async({c + 8, kColumns, nullptr, tile(kA), tile(kB), false, true});
        }) ==
        "multiply_async: adds to some registers of another product that is under "
        "way");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2] = {};
          unsigned a[4] = {kOne, kOne, kOne, kOne};
          call().wgmma_fence();
          multiply(c, a, true);
          call().wgmma_commit();
          if (thread() == 64) a[2] = 0;
          call().wgmma_wait(0);
        }) ==
        "wgmma_wait: an operand in registers of thread 64 was changed while wgmma read "
        "it");
}

// Lines of 16 bytes, 8 elements each, the same for both halves of the depth: line n holds n + 1, 0
// ...
TEST_CASE("wgmma: lines of half the depth are read twice") {
  CHECK(from_primitive(run_block(
            [](void* const*) {
              for (unsigned i = 0; i < 16; ++i) store(kA + 4 * (thread() + 128 * i), kOne);
              if (thread() < kColumns) {
                constexpr unsigned kNumbers[] = {0x3f80, 0x4000, 0x4040, 0x4080};  // 1 to 4
                for (unsigned i = 0; i < 4; ++i) {
                  store(kB + 16 * thread() + 4 * i, i == 0 ? kNumbers[thread() % 4] : 0);
                }
              }
              call().fence_async_proxy();
              block_sync();
              float c[kColumns / 2];
              call().wgmma_fence();
              multiply(c, false, tile(kA), kB >> 4 | 8ull << 32);
              call().wgmma_commit();
              call().wgmma_wait(0);
              for (int i = 0; i < kColumns / 2; ++i) {
                const int column = 8 * (i / 4) + 2 * (thread() % 4) + i % 2;
                CHECK(c[i] == 2 * (column % 4 + 1));
              }
            },
            128)) == "");
}

TEST_CASE("wgmma: descriptors") {
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, thread() == 3 ? tile(kB) : tile(kA));
        }) ==
        "multiply_async: gets descriptors that are not the same for all threads of the warpgroup");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(kA) & ~(1ull << 62));
        }) ==
        "multiply_async: gets a tile without a swizzle whose 8 columns of the depth are 16 bytes "
        "apart and whose groups of 8 lines 1024; 0 and 128 are known");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(kA) | 1ull << 63);
        }) ==
        "multiply_async: gets 0xc000004000010080, which is no descriptor of a tile without a "
        "swizzle or with that of 64 or 128 bytes");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(kA), tile(kB, 16, 512));
        }) ==
        "multiply_async: gets a tile whose groups of 8 lines are 512 bytes apart, and not 1024");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(kA + 256));
        }) ==
        "multiply_async: gets a tile at +1280 of shared memory: its lines do not begin at a "
        "multiple of "
        "1024");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(kA + 16));
        }) ==
        "multiply_async: gets a tile that begins at byte 16 of its lines; 16 columns begin at a "
        "multiple "
        "of 32");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(65536 - 4096));
        }) == "multiply_async: reads shared memory at +60416, which was never written");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false, tile(kA), tile(65536));
        }) == "multiply_async: reads shared memory at +64512, which was never written");
}

TEST_CASE("wgmma: tiles that threads wrote without showing them, or write too early") {
  CHECK(from_primitive(run_block(
            [](void* const*) {
              for (unsigned i = 0; i < 24; ++i) store(kA + 4 * (thread() + 128 * i), kOne);
              block_sync();
              call().fence_async_proxy();  // the wrong way round
              float c[kColumns / 2];
              call().wgmma_fence();
              multiply(c, false);
            },
            128)) ==
        "multiply_async: has wgmma read shared memory at +1024, which "
        "thread 0 wrote: fence_async_proxy is missing, by that thread and before the barrier");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false);
          call().wgmma_commit();
          if (thread() == 7) store(kB + 28, 0);
          call().wgmma_wait(0);
        }) ==
        "store_shared_4: writes shared memory at +9244 while the wgmma "
        "of warpgroup 0 reads it: wgmma_wait is missing");
  CHECK(run_warpgroup([] {
          float c[kColumns / 2];
          call().wgmma_fence();
          multiply(c, false);
          call().wgmma_commit();
          call().wgmma_wait(0);
          if (thread() == 7) store(kB + 28, 0);
        }) == "");
}

TEST_CASE("wgmma: a warpgroup that is not whole") {
  CHECK(from_primitive(run_block([](void* const*) { call().wgmma_fence(); }, 64)) ==
        "wgmma_fence: wants a warpgroup of 128 threads, and this one "
        "has 64");
}

}  // namespace
}  // namespace attnjit::executor
