// Packed sequences on the Hopper backward: tiles that end in another sequence, numbers of tiles
// that are left over, masks and biases of a sequence, each way to a dbias, and what stays
// elsewhere.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "mutations.hpp"
#include "packed_problems.hpp"
#include "tensor/half.hpp"
#include "wgmma_backward.hpp"

namespace attnjit::executor_test::wgmma_packed_backward_test {
namespace {

using instance::ProblemSpec;

class WgmmaPackedBackward {
 public:
  std::string run(const ProblemSpec& spec, const std::string& config) {
    return bench_.backward(spec, codegen::find_arch("sm_90a"), config);
  }
  bool leaves_out() { return bench_.leaves_out(); }
  void expect_right(const ProblemSpec& spec, const std::string& config = wgmma_backward(64)) {
    if (leaves_out()) return;
    CAPTURE(instance::describe(spec));
    CAPTURE(config);
    CHECK(run(gradients(spec), config) == "");
  }
  // With tiles of 64 and of 128 queries, and with wide heads.
  void expect_all_right(ProblemSpec spec) {
    expect_right(spec);
    expect_right(spec, wgmma_backward(128));
    spec.head_dim = 136;
    expect_right(spec, wide_backward());
  }

 private:
  Bench bench_;
};

// The same tiles, where sequences without a row or a key in use lie before, between and behind
// others: what their q, k, v and dout hold is NaN and infinity.
ProblemSpec poisoned() {
  ProblemSpec spec = ragged();
  spec.use_seqlens_q = spec.use_seqlens_kv = true;
  spec.seqlens_q = {60, 0, 1, 0, 0, 134};
  spec.seqlens_kv = {70, 0, 0, 65, 64, 74};
  return spec;
}

TEST_CASE_FIXTURE(WgmmaPackedBackward, "wgmma packed backward: empty ones, short ones, others") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    ProblemSpec spec = ragged();
    spec.dtype = dtype;
    expect_all_right(spec);
  }
  ProblemSpec spec = ragged();
  spec.use_sink = true;
  expect_all_right(spec);
  expect_right(packed({0, 40, 90}, {0, 0, 0}, 90, 50));
  expect_right(packed({0, 0, 0, 0}, {0, 0, 0, 0}, 70, 40));
  expect_right(packed({0, 0, 0}, {0, 20, 20}, 65, 20));
}

TEST_CASE_FIXTURE(WgmmaPackedBackward,
                  "wgmma packed backward: NaN of other sequences stays there") {
  ProblemSpec spec = poisoned();
  expect_all_right(spec);
  spec.causal = true;
  spec.diagonal = Diagonal::kBottomRight;
  expect_all_right(spec);
}

TEST_CASE_FIXTURE(WgmmaPackedBackward,
                  "slow: wgmma packed backward: a diagonal of their own, and slopes") {
  ProblemSpec spec = ragged();
  spec.head_dim_v = 64;
  spec.window = {20, 9};
  for (const Diagonal diagonal : {Diagonal::kTopLeft, Diagonal::kBottomRight}) {
    spec.diagonal = diagonal;
    expect_right(spec);
  }
  spec.diagonal_offset = -7;
  spec.alibi = "bh";
  expect_all_right(spec);
}

TEST_CASE_FIXTURE(WgmmaPackedBackward, "slow: wgmma packed backward: many sequences") {
  expect_right(short_sequences(300));
}

TEST_CASE_FIXTURE(WgmmaPackedBackward,
                  "slow: wgmma packed backward: masks and biases by sequence") {
  for (const auto& [mask, bias] : {std::pair{"bhqk", "bhqk"},
                                   {"1g1t", "1h1t"},
                                   {"b1qk", "1gqk"},
                                   {"b11k", "b11k"},
                                   {"s1qk/3", "shqk/2"},
                                   {"", "11qk"}}) {
    ProblemSpec spec = with(ragged(), mask, bias);
    spec.operand_keys = 96;  // rows of whole 16 bytes
    expect_right(spec);
    spec.operand_queries = 70;
    expect_right(spec);
  }
  ProblemSpec spec = with(ragged(), "1g1t", "1h1t");
  expect_all_right(spec);
  spec = with(ragged(), "b1qk", "b11k");
  spec.operand_keys = 64;
  spec.head_dim = 136;
  expect_right(spec, wide_backward());
}

// A sequence's q, k, v and dout become NaN and infinity; what the others get stays the same, bit
// for bit.
class SpoiledSequence {
 public:
  explicit SpoiledSequence(const codegen::TemplateSet& templates = {}) : bench_(templates) {}

  bool stays_alone(const ProblemSpec& spec, const std::string& config, std::size_t sequence) {
    return of_others(spec, config, sequence, true) == of_others(spec, config, sequence, false);
  }

 private:
  // The rows of the other sequences in dq, dk and dv.
  std::vector<double> of_others(const ProblemSpec& spec, const std::string& config,
                                std::size_t sequence, bool spoils) {
    instance::HostProblem host(spec, 1);
    const BackwardArgs args = host.backward_args();
    const auto inside = [&](std::int64_t row, const Begins& begins) {
      return row >= begins[sequence] && row < begins[sequence + 1];
    };
    const auto spoil = [&](const Tensor& tensor, const Begins& begins) {
      for_each(tensor, [&](std::int64_t row, std::int64_t element) {
        using Limits = std::numeric_limits<double>;
        if (!spoils || !inside(row, begins)) return;
        tensor::store(tensor.data, tensor.dtype, element,
                      row % 2 == 0 ? Limits::infinity() : Limits::quiet_NaN());
      });
    };
    spoil(args.forward.q, spec.cu_seqlens_q);
    spoil(args.dout, spec.cu_seqlens_q);
    spoil(args.forward.k, spec.cu_seqlens_kv);
    spoil(args.forward.v, spec.cu_seqlens_kv);
    REQUIRE(bench_.run_backward(host, codegen::find_arch("sm_90a"), config) == "");
    std::vector<double> rest;
    const auto keep = [&](const Tensor& tensor, const Begins& begins) {
      for_each(tensor, [&](std::int64_t row, std::int64_t element) {
        if (inside(row, begins)) return;
        rest.push_back(tensor::load(tensor.data, tensor.dtype, element));
      });
    };
    keep(args.dq, spec.cu_seqlens_q);
    keep(args.dk, spec.cu_seqlens_kv);
    keep(args.dv, spec.cu_seqlens_kv);
    return rest;
  }
  // visit(row, index of the element) for each element.
  template <class Visit>
  static void for_each(const Tensor& t, Visit visit) {
    for (std::int64_t head = 0; head < t.shape[1]; ++head) {
      for (std::int64_t row = 0; row < t.shape[2]; ++row) {
        for (std::int64_t column = 0; column < t.shape[3]; ++column) {
          visit(row, head * t.strides[1] + row * t.strides[2] + column * t.strides[3]);
        }
      }
    }
  }

  Bench bench_;
};

// The first and the second end in the middle of tiles.
const ProblemSpec kThree = gradients(packed({0, 40, 110, 300}, {0, 50, 130, 300}));

TEST_CASE("slow: wgmma packed backward: NaN that a sequence reads stays in it") {
  SpoiledSequence spoiled;
  for (const std::size_t sequence : {0, 1, 2}) {
    CAPTURE(sequence);
    for (const int block_q : {64, 128}) {
      CHECK(spoiled.stays_alone(kThree, wgmma_backward(block_q), sequence));
    }
    ProblemSpec wide = kThree;
    wide.head_dim = 136;
    CHECK(spoiled.stays_alone(wide, wide_backward(), sequence));
  }
}

// The fault of a caller: no memory outside of the tensors is touched.
TEST_CASE_FIXTURE(WgmmaPackedBackward, "wgmma packed backward: numbers that fall") {
  for (const Begins& begins : kFaulty) {
    ProblemSpec spec = gradients(packed(begins, begins, 90, 90));
    spec.poison_dropped_keys = false;
    CHECK(!leaves_tensors(run(spec, wgmma_backward(128))));
    spec.head_dim = 136;
    CHECK(!leaves_tensors(run(spec, wide_backward())));
  }
}

// Nothing is added up by several thread blocks, so nobody waits for one that faulty numbers leave
// out.
TEST_CASE_FIXTURE(WgmmaPackedBackward, "wgmma packed backward: deterministic, of any width") {
  CHECK(run(gradients(ragged(), true), wgmma_backward(64)).find("dq_method must be kernel") !=
        std::string::npos);
  for (const int head_dim : {40, 128, 136}) {
    ProblemSpec spec = ragged();
    spec.head_dim = head_dim;
    CAPTURE(head_dim);
    for (const ProblemSpec& each : {spec, with(spec, "b11k", "1h1k")}) {
      if (!leaves_out()) CHECK(run(gradients(each, true), wide_backward()) == "");
    }
  }
  for (const Begins& begins : kFaulty) {
    ProblemSpec spec = gradients(packed(begins, begins, 90, 90), true);
    spec.poison_dropped_keys = false;
    CHECK(!leaves_tensors(run(spec, wide_backward())));
  }
}

TEST_CASE_FIXTURE(WgmmaPackedBackward, "wgmma packed backward: whole planes stay elsewhere") {
  CHECK(run(gradients(ragged()), plane_backward(64))
            .find("own_kv_head does not support cu_seqlens") != std::string::npos);
}

const std::string kProducer = "attnjit/backward/dkv_wgmma/producer.cuh";
const std::string kWalk = "attnjit/backward/walk.cuh";
const std::string kSubtiles = "attnjit/backward/dkv_wgmma/dq_subtiles.cuh";
const std::string kKeyRows = "attnjit/backward/key_rows.cuh";
const std::string kDqProducer = "attnjit/backward/dq_wgmma/producer.cuh";
const std::string kDqConsumer = "attnjit/backward/dq_wgmma/consumer.cuh";

TEST_CASE_FIXTURE(Mutations, "slow: caught in wgmma packed backward: rows of another sequence") {
  const Run run = {gradients(poisoned()), wgmma_backward(128)};
  expect_report({kWalk, "const bool ends = !Features::kPacksSequences && left_rows",
                 "const bool ends = left_rows"},
                run, {"not finite"});
  expect_report({kWalk, "(Features::kPacksSequences || block.seqlen_kv > keys.end)",
                 "block.seqlen_kv > keys.end"},
                run, {"not finite"});
  expect_report({kSubtiles, "walk.padded_rows_of(job.head).first;", "0;"}, run, {"dq:"});
  expect_report({kProducer, "const int row = walk.block.q_begin + first_query,",
                 "const int row = first_query,"},
                run, {"dq:"});
  expect_report({kKeyRows, "first_key, walk.block.seqlen_kv, kColumns",
                 "first_key, walk.params.seqlen_kv, kColumns"},
                run, {"which this kernel has written already"});
}

// Half of a tile of 128 queries is another sequence's.
TEST_CASE("caught in wgmma packed backward: rows and sums of another sequence") {
  SpoiledSequence reads(
      changed_templates(kProducer, "row + i < count ? begin + row + i : dead", "begin + row + i"));
  CHECK(!reads.stays_alone(kThree, wgmma_backward(128), 1));
  SpoiledSequence adds(changed_templates(kSubtiles,
                                         "first_row(job, subtile) < walk.block.padded_rows",
                                         "first_row(job, subtile) >= 0"));
  CHECK(!adds.stays_alone(kThree, wgmma_backward(128), 0));
}

TEST_CASE_FIXTURE(Mutations, "slow: caught in wide packed backward: rows of another sequence") {
  ProblemSpec spec = gradients(poisoned());
  spec.head_dim = 136;
  const Run run = {spec, wide_backward()};
  expect_report({kDqProducer, "const bool ends = !Features::kPacksSequences && end >",
                 "const bool ends = end >"},
                run, {"not finite"});
  expect_report({kDqProducer, "if (!Features::kPacksSequences && key >= block.seqlen_kv)",
                 "if (key >= block.seqlen_kv)"},
                run, {"not finite"});
  expect_report({kDqConsumer, "params.rows.lse + first + row", "params.rows.lse + row"}, run,
                {"dq:"});
}

}  // namespace
}  // namespace attnjit::executor_test::wgmma_packed_backward_test
