// Lists of blocks: both passes and paths, lists of every axis, faulty ones, beside other features,
// and the bits of a prepared mask of the same blocks.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "both_passes.hpp"
#include "reference/block_table.hpp"

namespace attnjit::executor_test::block_lists_test {
namespace {

using instance::BufferRole;
using instance::ProblemSpec;

ProblemSpec with_blocks(const char* blocks) {
  ProblemSpec spec{
      .batch = 2, .heads_q = 4, .heads_kv = 2, .seqlen_q = 200, .seqlen_kv = 270, .head_dim = 64};
  spec.blocks = blocks;
  return spec;
}

class BlockLists : public BothPasses {};

TEST_CASE_FIXTURE(BlockLists, "lists of blocks: every axis, both passes and paths") {
  for (const char* blocks : {"faulty:0.3/64", "faulty:0.3/64x128/1g", "random:0.4/128x64/b1",
                             "faulty:0.2+0.2/32x48/11", "random:0/64"}) {
    expect_both_right(with_blocks(blocks));
  }
}

TEST_CASE_FIXTURE(BlockLists, "lists of blocks: an expression holds inside, but in full blocks") {
  ProblemSpec spec = with_blocks("random:0.4+0.3/64");
  spec.keep = "j % 3 != 1 && j <= i + 90";
  expect_both_right(spec);
  spec.blocks = "random:0.4/64/bg";
  spec.keep = "doc[b, i] == doc[b, j]";
  spec.operands = {instance::parse_operand("doc=int32:b,300:sorted/3")};
  expect_both_right(spec);
}

TEST_CASE_FIXTURE(BlockLists, "lists of blocks: beside a mask, a bias, causal, sinks and lengths") {
  ProblemSpec spec = with_blocks("random:0.6/64");
  spec.mask = "b11k";
  spec.bias = "1hqk";
  spec.causal = spec.use_sink = true;
  spec.use_seqlens_kv = true;
  spec.diagonal = Diagonal::kBottomRight;
  spec.memory.row_padding = 8;
  expect_both_right(spec);
}

TEST_CASE_FIXTURE(BlockLists, "lists of blocks: packed sequences and pages") {
  ProblemSpec spec = with_blocks("faulty:0.4+0.1/64x32");
  spec.batch = 3;
  spec.packed = true;
  expect_both_right(spec);
  spec.operand_queries = 70;  // rows past two blocks, and keys past three, are dropped
  spec.operand_keys = 90;
  expect_both_right(spec);
  spec.operand_queries.reset();
  spec.operand_keys.reset();
  spec.page_size = 16;
  spec.seqlen_kv = 272;
  for (const bool packed : {true, false}) {
    spec.packed = packed;
    expect_right(spec);
    expect_right(spec, kWgmma);
  }
}

// The mask of the blocks of `host`, in the buffer of `target`'s mask.
void copy_as_mask(const instance::HostProblem& host, instance::HostProblem& target) {
  const ForwardArgs args = host.args();
  const std::int64_t keys = args.k.shape[2];
  const reference::BlockTable table(*args.blocks, keys, args.q.shape[1], 0);
  auto* next = static_cast<std::uint8_t*>(target.find(BufferRole::kMask)->data());
  for (std::int64_t row = 0; row < args.q.shape[0] * args.q.shape[1] * args.q.shape[2]; ++row) {
    const std::int64_t plane = row / args.q.shape[2];
    for (std::int64_t key = 0; key < keys; ++key) {
      *next++ = table.at(plane / args.q.shape[1], plane % args.q.shape[1], row % args.q.shape[2],
                         key) != reference::BlockTable::kDropped;
    }
  }
}

std::string bytes_of(const instance::HostProblem& host, BufferRole role) {
  const auto bytes = host.find(role)->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE_FIXTURE(BlockLists, "lists of blocks: the bits of a mask of the same blocks") {
  const codegen::Arch& arch = codegen::find_arch("sm_90a");
  ProblemSpec spec = with_blocks("random:0.4/64");
  ProblemSpec masked = spec;
  masked.blocks.clear();
  masked.mask = "bhqk";
  for (const bool backward : {false, true}) {
    spec.backward = masked.backward = backward;
    instance::HostProblem listed(spec, 1), dense(masked, 1);
    copy_as_mask(listed, dense);
    const auto run = [&](instance::HostProblem& host) {
      const std::string config = backward ? wgmma_backward(64) : kWgmma;
      if (backward) {  // of the same forward
        std::memcpy(host.find(BufferRole::kOut)->data(), listed.find(BufferRole::kOut)->data(),
                    static_cast<std::size_t>(2 * 4 * 200 * 64 * 2));
        std::memcpy(host.find(BufferRole::kLse)->data(), listed.find(BufferRole::kLse)->data(),
                    static_cast<std::size_t>(2 * 4 * 200 * 4));
      }
      return backward ? bench_.run_backward(host, arch, config)
                      : bench_.run_forward(host, arch, config);
    };
    REQUIRE(run(listed) == "");
    REQUIRE(run(dense) == "");
    for (const BufferRole role : backward ? std::vector{BufferRole::kDk, BufferRole::kDv}
                                          : std::vector{BufferRole::kOut, BufferRole::kLse}) {
      CHECK(bytes_of(listed, role) == bytes_of(dense, role));
    }
  }
}

TEST_CASE_FIXTURE(BlockLists, "caught in lists of blocks") {
  const ProblemSpec spec = with_blocks("faulty:0.4/64x16");
  const auto caught = [&](const char* text, const char* other, const char* report) {
    expect_report({"attnjit/prepass/block_lists.cuh", text, other}, {spec}, {report});
  };
  const char* const named = "static_cast<uint32>(block) < static_cast<uint32>(params.key_blocks)";
  caught(named, "block >= 0", "store_global: writes 1 bytes at");
  caught(named, "block < params.key_blocks", "before the start of listed blocks");
  caught("given < kind.most ? given : kind.most", "given", "past the end of blocks.indices");
  caught("uint8{1}", "uint8{0}", "rows fail");
  caught("ptx::store_global(reinterpret_cast<ptx::Vector16*>(listed + at), ptx::Vector16{});", "",
         "never written");
}

}  // namespace
}  // namespace attnjit::executor_test::block_lists_test
