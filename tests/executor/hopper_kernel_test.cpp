// A kernel that uses every primitive of Hopper, compiled as kernels are: its numbers, and the
// report for each safeguard that is left out.
#include "hopper_kernel.hpp"

#include <string>
#include <vector>

namespace attnjit::executor_test {
namespace {

TEST_CASE_FIXTURE(Hopper, "a kernel of a producer and a warpgroup computes what the formulas say") {
  for (const bool bfloat16 : {true, false}) {
    CAPTURE(bfloat16);
    CHECK(run({}, bfloat16) == "");
    CHECK(wrong(bfloat16) == 0);
  }
}

/// A safeguard of the kernel, what takes its place, and what the report must contain.
struct Omission {
  std::string before;
  std::string after;
  std::string report;
};

TEST_CASE_FIXTURE(Hopper, "a kernel of a producer and a warpgroup: what is left out is found") {
  const std::string under_way = "tensor_load to it is under way: barrier_wait is missing";
  const std::vector<Omission> omissions = {
      // Mbarriers.
      {"    ptx::barrier_init_fence();\n", "", "barrier_init_fence and a block_sync must come"},
      {"  ptx::block_sync();\n", "", "barrier_init_fence and a block_sync must come"},
      {"barrier_init(barrier, 4)", "barrier_init(barrier, 5)",
       "; barrier_wait: the mbarrier at +24, phase 0: 4 of 5 arrivals, 1 threads wait"},
      {"  ptx::barrier_wait(at.q_full, 0);\n", "",
       "multiply_async: reads shared memory at +1024, which a tensor_load for the mbarrier at +0 "
       "wrote with no barrier of the block in between"},
      {"    ptx::barrier_wait(at.k_full, tile % 2);\n", "", under_way},
      {"    ptx::barrier_wait(at.v_full, tile % 2);\n", "", under_way},
      {"ptx::barrier_wait(at.k_full, tile % 2)", "ptx::barrier_wait(at.k_full, 0)", under_way},
      {"ptx::barrier_wait(at.v_full, tile % 2)", "ptx::barrier_wait(at.v_full, (tile + 1) % 2)",
       under_way},
      {"    ptx::barrier_wait(at.k_empty, (tile + 1) % 2);\n", "", "has all of its 1 arrivals"},
      {"ptx::barrier_wait(at.v_empty, (tile + 1) % 2);", "ptx::barrier_wait(at.v_full, tile % 2);",
       "deadlock"},
      {"    ptx::barrier_arrive_if(signals, at.k_empty);\n", "",
       "phase 0: 0 of 4 arrivals, 1 threads wait, the first is 0"},
      {"barrier_arrive_expecting(at.q_full, 2 * kQSlab)",
       "barrier_arrive_expecting(at.q_full, 3 * kQSlab)", "8192 bytes that never came"},
      {"barrier_arrive_expecting(at.k_full, 2 * kSlab)",
       "barrier_arrive_expecting(at.k_full, kSlab)", under_way},
      // wgmma.
      {"    ptx::wgmma_fence();  // s\n", "",
       "multiply_async: begins a group of products: wgmma_fence is missing"},
      {"    ptx::wgmma_fence();  // o\n", "", "wgmma_fence is missing"},
      {"    ptx::wgmma_commit();  // s\n", "", "wgmma_commit is missing"},
      {"    ptx::wgmma_wait<0>();  // o\n", "",
       "tensor_load: writes shared memory at +41984 while the wgmma of warpgroup 1 reads it"},
      {"    ptx::wgmma_wait<0>();  // o\n    ptx::barrier_arrive_if(signals, at.v_empty);\n",
       "    ptx::barrier_arrive_if(signals, at.v_empty);\n    ptx::wgmma_wait<0>();\n",
       "tensor_load: writes shared memory at +41984, which the wgmma of warpgroup 1 read with no "
       "barrier of the block in between"},
      {"    // Before the wait.\n", "    p[3][1] ^= 1;\n",
       "an operand in registers of thread 128 was changed while wgmma read it"},
      {"    // Before the wait.\n", "    o[3][1] *= 2;\n",
       "sums in registers of thread 128 were changed while wgmma added to them"},
      {"kSlab, 1024),\n                                  tile", "kSlab, 512),\n tile",
       "gets a tile whose groups of 8 lines are 512 bytes apart, and not 1024"},
      {"at.v + j * 2048", "at.v + j * 2048 + 128", "its lines do not begin at a multiple of 1024"},
      // The copy engine and what threads write.
      {"  ptx::fence_async_proxy();\n", "", "fence_async_proxy is missing"},
      {"  ptx::named_barrier_sync(1, 128);\n", "", "reads shared memory at +1"},
      {"named_barrier_sync(1, 128)", "named_barrier_sync(1, 96)",
       "tensor_store_if: reads shared memory at +"},
      {"  ptx::tensor_store_commit();\n", "", "tensor_store_commit is missing"},
      {"  ptx::tensor_store_wait_read();\n", "", "tensor_store_wait_read is missing"},
      // Registers.
      {"  ptx::give_registers<24>();\n", "    ptx::give_registers<248>();\n",
       "give_registers: gives registers down to 248; a multiple of 8 from 24 to 240 is wanted"},
      {"  ptx::take_registers<240>();\n", "  ptx::take_registers<160>();\n",
       "takes registers up to 160, and each thread has 240"},
  };
  for (const Omission& omission : omissions) {
    CAPTURE(omission.before);
    CAPTURE(omission.after);
    const std::string report = run({{omission.before, omission.after}});
    CAPTURE(report);
    CHECK(report.find(omission.report) != std::string::npos);
  }
}

}  // namespace
}  // namespace attnjit::executor_test
