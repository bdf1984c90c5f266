#include "random_problem.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <span>
#include <string>

#include "instance/sequences.hpp"

namespace attnjit::test {
namespace {

using instance::ProblemSpec;
using tensor::BiasKind;
using tensor::MaskKind;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15ull + 1) {}

  bool chance(double probability) {
    return std::uniform_real_distribution<>(0, 1)(engine_) < probability;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  template <class T, std::size_t N>
  T pick(const std::array<T, N>& values) {
    return values[static_cast<std::size_t>(between(0, N - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

constexpr std::array<std::int64_t, 22> kLengths = {1,   2,   7,   16,  31,  33,  63,  64,
                                                   65,  96,  120, 127, 128, 129, 192, 197,
                                                   200, 255, 256, 257, 300, 333};
constexpr std::array<std::int64_t, 16> kHeadDims = {64, 128, 64, 128, 8,   16,  32, 40,
                                                    72, 80,  96, 160, 192, 256, 33, 100};

std::int64_t length(Dice& dice) {
  return dice.chance(0.7) ? dice.pick(kLengths) : dice.between(1, 400);
}

// One of the 24 patterns without groups of batch elements; the head letter 'g' is one plane per kv
// head.
std::string pattern(Dice& dice) {
  std::string text = "1111";
  if (dice.chance(0.5)) text[0] = 'b';
  const std::array<char, 3> heads = {'1', 'h', 'g'};
  text[1] = dice.pick(heads);
  if (dice.chance(0.6)) text[2] = 'q';
  if (dice.chance(0.8)) text[3] = 'k';
  return text;
}

void choose_shape(Dice& dice, ProblemSpec& spec) {
  const std::array<std::int64_t, 6> ratios = {1, 1, 2, 3, 4, 8};
  spec.dtype = dice.chance(0.5) ? DType::kBFloat16 : DType::kFloat16;
  spec.batch = dice.between(1, 3);
  spec.heads_kv = dice.between(1, 3);
  spec.heads_q = spec.heads_kv * dice.pick(ratios);
  spec.seqlen_q = length(dice);
  spec.seqlen_kv = dice.chance(0.4) ? spec.seqlen_q : length(dice);
  if (dice.chance(0.25)) {  // short queries over many keys: pack_gqa, split keys
    spec.seqlen_q = dice.chance(0.5) ? 1 : dice.between(1, 16);
    spec.seqlen_kv = dice.between(1, 4000);
  }
  if (dice.chance(0.1)) {  // more blocks of rows than any GPU has SMs
    spec.batch = dice.between(40, 80);
    spec.heads_q = 4;
    spec.heads_kv = dice.chance(0.5) ? 4 : 2;
    spec.seqlen_q = dice.between(1, 200);
    spec.seqlen_kv = dice.between(1, 400);
  }
  if (dice.chance(0.01)) spec.seqlen_kv = 0;
  spec.head_dim = dice.pick(kHeadDims);
  if (dice.chance(0.15)) spec.head_dim_v = dice.pick(kHeadDims);
}

void choose_operands(Dice& dice, ProblemSpec& spec) {
  if (dice.chance(0.5)) {
    spec.mask = pattern(dice);
    spec.mask_kind = static_cast<MaskKind>(dice.between(0, 8));
    spec.mask_density = dice.chance(0.2) ? 0.02 : 0.7;
  }
  if (dice.chance(0.5)) {
    spec.bias = pattern(dice);
    spec.bias_kind = static_cast<BiasKind>(dice.between(0, 5));
    if (dice.chance(0.3)) spec.bias_dtype = DType::kFloat32;
  }
}

void choose_band(Dice& dice, ProblemSpec& spec) {
  if (dice.chance(0.5)) return;
  spec.causal = dice.chance(0.6);
  if (!spec.causal || dice.chance(0.3)) {
    if (dice.chance(0.8)) spec.window.left = dice.between(0, 150);
    if (dice.chance(0.6)) spec.window.right = dice.between(0, 100);
  }
  spec.diagonal = dice.chance(0.5) ? Diagonal::kTopLeft : Diagonal::kBottomRight;
  if (dice.chance(0.25)) {
    spec.diagonal_offset = dice.chance(0.9) ? dice.between(-150, 150) : 1 << 29;
  }
}

void choose_memory(Dice& dice, ProblemSpec& spec) {
  if (dice.chance(0.3)) spec.memory.layout = instance::Layout::kBshd;
  if (dice.chance(0.1)) spec.memory.base_offset = dice.between(1, 7);
  if (dice.chance(0.2)) spec.memory.row_padding = dice.chance(0.5) ? 8 : dice.between(1, 7);
  spec.memory.v_differs = dice.chance(0.2);
  spec.memory.expand_broadcast = dice.chance(0.2);
}

// Two batch elements at most, and few heads: enough to tell planes apart.
void choose_small_shape(Dice& dice, ProblemSpec& spec) {
  constexpr std::array<std::int64_t, 3> kRatios = {1, 2, 4};
  constexpr std::array<std::int64_t, 3> kDims = {40, 64, 128};
  constexpr std::array<std::int64_t, 12> kEdges = {1,  7,  31,  33,  63,  64,
                                                   65, 96, 127, 128, 129, 200};
  spec.dtype = dice.chance(0.5) ? DType::kBFloat16 : DType::kFloat16;
  spec.batch = dice.between(1, 2);
  spec.heads_kv = dice.between(1, 2);
  spec.heads_q = spec.heads_kv * dice.pick(kRatios);
  spec.seqlen_q = dice.pick(kEdges);
  spec.seqlen_kv = dice.pick(kEdges);
  spec.head_dim = dice.pick(kDims);
  if (dice.chance(0.1)) spec.head_dim_v = dice.pick(kDims);
}

// In one problem of four, elements of a larger batch share planes of the operands, neighbours or
// those of planes that repeat.
void choose_groups(std::uint64_t index, ProblemSpec& spec) {
  struct Groups {
    std::int64_t batch;
    std::array<const char*, 4> planes;
  };
  constexpr std::array<Groups, 3> kGroups = {{{4, {"s/2", "p/2x1", "s/2", "p/2x1"}},
                                              {6, {"s/2", "s/3", "p/2x1", "p/3x1"}},
                                              {8, {"p/2x1", "p/2x2", "p/4x1", "p/4x1x2"}}}};
  Dice dice(index + 0x9a0);
  if (!dice.chance(0.25)) return;
  const Groups groups = dice.pick(kGroups);
  spec.batch = groups.batch;
  for (std::string* pattern : {&spec.mask, &spec.bias}) {
    const std::string planes = dice.pick(groups.planes);
    if (pattern->empty() || !dice.chance(0.7)) continue;
    *pattern = planes[0] + pattern->substr(1) + planes.substr(1);
  }
}

// In one problem of four, the batch elements are packed sequences. Masks and biases may have the
// keys of all, or fewer rows and keys than the longest.
void choose_packing(std::uint64_t index, ProblemSpec& spec) {
  Dice dice(index + 0xbac);
  if (!dice.chance(0.25)) return;
  spec.packed = true;
  if (spec.batch < 4 && dice.chance(0.5)) spec.batch = dice.between(1, 40);
  spec.seqlen_q += dice.between(0, 100);
  spec.seqlen_kv = dice.chance(0.5) ? spec.seqlen_q : spec.seqlen_kv + dice.between(0, 100);
  for (std::string* pattern : {&spec.mask, &spec.bias}) {
    if (!pattern->empty() && dice.chance(0.25)) *pattern = {'1', (*pattern)[1], '1', 't'};
  }
  const auto [queries, keys] = instance::operand_sizes(spec);
  if (dice.chance(0.5)) spec.operand_keys = (keys + 31) / 32 * 32;
  if (dice.chance(0.2)) spec.operand_keys = dice.between(0, keys);
  if (dice.chance(0.5)) spec.operand_queries = (queries + 15) / 16 * 16;
  if (dice.chance(0.2)) spec.operand_queries = dice.between(0, queries);
}

// In one problem of eight of a batch, keys are paged; in as many, the last keys have a mask of
// their own. Of packed sequences, keys of one in three are paged, and operands have no row of all
// keys.
void choose_pages(std::uint64_t index, ProblemSpec& spec) {
  constexpr std::array<std::int64_t, 8> kPageSizes = {1, 3, 16, 32, 64, 100, 128, 256};
  Dice dice(index + 0x9a6e5);
  if (dice.chance(spec.packed ? 1.0 / 3 : 1.0 / 6)) {
    spec.page_size = dice.pick(kPageSizes);
    if (spec.packed) spec.seqlen_kv = std::min<std::int64_t>(spec.seqlen_kv, 600);  // of each
    spec.seqlen_kv = (spec.seqlen_kv + spec.page_size - 1) / spec.page_size * spec.page_size;
    spec.use_seqlens_kv = dice.chance(0.8);
    if (dice.chance(0.4)) spec.shared_pages = dice.between(0, spec.max_pages());
  }
  for (std::string* pattern : {&spec.mask, &spec.bias}) {
    if (spec.paged() && pattern->ends_with('t')) pattern->back() = 'k';
  }
  if (!spec.packed && dice.chance(1.0 / 6)) spec.tail_mask = dice.chance(0.5) ? "b" : "1";
}

// In one problem of four that has a mask with a prepared form, the mask is prepared.
void choose_prepared_mask(std::uint64_t index, ProblemSpec& spec) {
  Dice dice(index + 0xb17);
  spec.prepare_mask = dice.chance(0.25) && instance::can_prepare_mask(spec) &&
                      !(spec.packed && spec.memory.expand_broadcast);
}

// In one problem of six, queries and so scores are tiny or large, as far as fp16 goes or up to
// 1e12.
void choose_query_size(std::uint64_t index, ProblemSpec& spec) {
  constexpr std::array<double, 6> kSizes = {1e-20, 30, 1e3, 1e6, 1e9, 1e12};
  Dice dice(index + 0x51ce);
  if (!dice.chance(1.0 / 6)) return;
  const double size = dice.pick(kSizes);
  spec.query_stddev = spec.dtype == DType::kFloat16 ? std::min(size, 1e3) : size;
}

// In one problem of eight, blocks of rows have lists of blocks of keys, some of them faulty.
void choose_blocks(std::uint64_t index, ProblemSpec& spec) {
  constexpr std::array<const char*, 4> kShares = {"random:0.3", "faulty:0.3", "faulty:0.2+0.2",
                                                  "random:0.05"};
  constexpr std::array<const char*, 6> kSizes = {"/64",     "/128",   "/128x64",
                                                 "/64x192", "/32x16", "/5x100"};
  constexpr std::array<const char*, 5> kAxes = {"", "/bg", "/1h", "/b1", "/11"};
  Dice dice(index + 0xb10c);
  if (!dice.chance(1.0 / 8)) return;
  spec.blocks = std::string(dice.pick(kShares)) + dice.pick(kSizes) + dice.pick(kAxes);
  if (dice.chance(0.5)) spec.keep = dice.chance(0.5) ? "j % 5 != i % 4" : "j <= i + 20";
}

// In one problem of six that may, each kv head has selected keys, some of which name none.
void choose_key_indices(std::uint64_t index, ProblemSpec& spec) {
  constexpr std::array<const char*, 2> kFills = {"topk:", "faulty:"};
  constexpr std::array<const char*, 6> kAxes = {"", "/bg/int64", "/1g", "/b1", "/11", "/11/int64"};
  Dice dice(index + 0x5e1ec);
  const bool shares_planes = (spec.mask + spec.bias).find('/') != std::string::npos;
  if (spec.packed || spec.paged() || !spec.tail_mask.empty() || spec.prepare_mask ||
      !spec.blocks.empty() || shares_planes || !dice.chance(1.0 / 6)) {
    return;
  }
  const std::int64_t number = dice.between(0, std::min<std::int64_t>(spec.seqlen_kv + 10, 700));
  spec.key_indices = dice.pick(kFills) + std::to_string(number) + dice.pick(kAxes);
  if (dice.chance(0.3)) spec.keep = "j % 5 != i % 4";
}

void choose_slopes(Dice& dice, ProblemSpec& spec) {
  if (!dice.chance(0.25)) return;
  spec.alibi = dice.chance(0.5) ? "h" : "bh";
  if (dice.chance(0.4)) spec.slopes = {0.0f, 0.3f, -0.25f, 1e-3f, 20.0f, -3.0f, 1e33f};
  if (spec.diagonal != Diagonal::kUnspecified) return;
  spec.diagonal = dice.chance(0.5) ? Diagonal::kTopLeft : Diagonal::kBottomRight;
  if (dice.chance(0.25)) spec.diagonal_offset = dice.between(-150, 150);
}

ProblemSpec finish(Dice& dice, ProblemSpec spec) {
  choose_operands(dice, spec);
  choose_band(dice, spec);
  choose_memory(dice, spec);
  if (dice.chance(0.2)) {
    const std::array<float, 4> scales = {0.0f, -0.3f, 1.0f, 0.05f};
    spec.scale = dice.pick(scales);
  }
  if (dice.chance(0.25)) {
    const std::array<float, 5> caps = {0.5f, 2.0f, 30.0f, 1e-3f, 1e4f};
    spec.softcap = dice.pick(caps);
  }
  spec.use_seqlens_q = dice.chance(0.2);
  spec.use_seqlens_kv = dice.chance(0.25);
  spec.want_lse = dice.chance(0.8);
  spec.poison_dropped_keys = dice.chance(0.3);
  choose_groups(spec.seed, spec);
  choose_packing(spec.seed, spec);
  choose_pages(spec.seed, spec);
  choose_prepared_mask(spec.seed, spec);
  choose_query_size(spec.seed, spec);
  choose_blocks(spec.seed, spec);
  choose_key_indices(spec.seed, spec);
  spec.use_sink = dice.chance(0.25);
  if (spec.use_sink && dice.chance(0.4)) spec.sink_dtype = DType::kFloat32;
  if (spec.use_sink && dice.chance(0.3)) {
    spec.sinks = {80.0f, -std::numeric_limits<float>::infinity(), 17.0f, -1e30f, 0.0f};
  }
  choose_slopes(dice, spec);
  if (dice.chance(0.25)) {
    spec.want_row_max = dice.chance(0.6);
    spec.want_max_logits = !spec.want_row_max || dice.chance(0.6);
  }
  return spec;
}

}  // namespace

ProblemSpec random_problem(std::uint64_t index) {
  Dice dice(index);
  ProblemSpec spec;
  spec.seed = index + 1;
  choose_shape(dice, spec);
  return finish(dice, spec);
}

ProblemSpec small_problem(std::uint64_t index) {
  Dice dice(index);
  ProblemSpec spec;
  spec.seed = index + 1;
  choose_small_shape(dice, spec);
  return finish(dice, spec);
}

namespace {

ProblemSpec with_gradients(ProblemSpec spec, std::uint64_t index) {
  Dice dice(index + 0x5eed);
  spec.backward = true;
  // Beyond, fp32 sums of tensor cores leave too little of s - lse (docs/reference/semantics.md).
  spec.query_stddev = std::min(spec.query_stddev, 30.0);
  spec.page_size = spec.shared_pages = 0;  // of a forward alone
  spec.tail_mask.clear();
  spec.want_lse = true;
  spec.want_dlse = dice.chance(0.4);
  spec.memory.expand_dout = dice.chance(0.1);
  spec.want_dsink = spec.use_sink && dice.chance(0.75);
  if (!spec.bias.empty() && spec.key_indices.empty() && dice.chance(0.75)) {
    spec.want_dbias = true;
    if (dice.chance(0.4)) spec.dbias_dtype = DType::kFloat32;
  }
  return spec;
}

}  // namespace

ProblemSpec random_backward_problem(std::uint64_t index) {
  return with_gradients(random_problem(index), index);
}
ProblemSpec small_backward_problem(std::uint64_t index) {
  return with_gradients(small_problem(index), index);
}

}  // namespace attnjit::test
