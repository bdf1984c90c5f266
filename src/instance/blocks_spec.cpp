#include "instance/blocks_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <vector>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "instance/problem_spec.hpp"
#include "instance/take.hpp"

namespace attnjit::instance {
namespace {

[[noreturn]] void refuse_blocks(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("blocks '{}': {}; expected random:SHARE[+SHARE]/ROWS[xKEYS][/AXES], such "
                          "as random:0.2/64 or random:0.2+0.1/64x128/bg",
                          base::excerpt(text), why));
}

template <class Number>
Number parse_number(std::string_view word, Number least, Number most, std::string_view what,
                    std::string_view text) {
  Number value{};
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= least) || !(value <= most)) {
    refuse_blocks(text, fmt::format("{} '{}' is no number from {} to {}", what, base::excerpt(word),
                                    least, most));
  }
  return value;
}

std::int64_t count_of(std::int64_t all, std::int64_t of_block) {
  return (all + of_block - 1) / of_block;
}

// Entries beyond the blocks that a faulty list has at most.
constexpr std::int64_t kFaulty = 3;

}  // namespace

BlocksSpec parse_blocks(std::string_view text) {
  BlocksSpec blocks;
  std::string_view rest = text;
  std::string_view fill = take(rest, '/');
  const std::string_view kind = take(fill, ':');
  if (kind != "random" && kind != "faulty") {
    refuse_blocks(text, fmt::format("fill '{}' is none of random, faulty", base::excerpt(kind)));
  }
  blocks.is_faulty = kind == "faulty";
  const std::string_view listed = take(fill, '+');
  blocks.listed = parse_number(listed, 0.0, 1.0, "share", text);
  if (!fill.empty()) blocks.full = parse_number(fill, 0.0, 1.0, "share of full blocks", text);
  const std::string_view sizes = take(rest, '/');
  const std::size_t cross = sizes.find('x');
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  blocks.rows =
      parse_number<std::int64_t>(sizes.substr(0, cross), 1, kMost, "rows of a block", text);
  blocks.keys = cross == sizes.npos ? blocks.rows
                                    : parse_number<std::int64_t>(sizes.substr(cross + 1), 1, kMost,
                                                                 "keys of a block", text);
  if (rest.empty()) return blocks;
  const bool is_known = rest.size() == 2 && (rest[0] == 'b' || rest[0] == '1') &&
                        (rest[1] == 'h' || rest[1] == 'g' || rest[1] == '1');
  if (!is_known) {
    refuse_blocks(text,
                  fmt::format("axes '{}' are not b or 1 and then h, g or 1", base::excerpt(rest)));
  }
  blocks.axes = rest;
  return blocks;
}

BlockLists block_lists_view(const ProblemSpec& spec) {
  const BlocksSpec blocks = parse_blocks(spec.blocks);
  const std::string pattern = blocks.axes + "qk";
  const auto [batches, heads, queries, keys] = pattern_shape(spec, pattern, "blocks");
  const std::int64_t rows = count_of(queries, blocks.rows), all = count_of(keys, blocks.keys);
  const std::int64_t most = all + (blocks.is_faulty ? kFaulty : 0);
  const auto view = [&, b = batches, h = heads](std::int64_t entries) {
    const std::int64_t line = entries + spec.memory.row_padding;
    return Tensor{
        nullptr, DType::kInt32, {b, h, rows, entries}, {h * rows * line, rows * line, line, 1}};
  };
  BlockLists lists{.block_q = blocks.rows,
                   .block_kv = blocks.keys,
                   .indices = view(most),
                   .counts = view(1),
                   .full_indices = {},
                   .full_counts = {},
                   .num_kv_blocks = spec.packed ? all : 0};
  if (blocks.full > 0) {
    lists.full_indices = view(most);
    lists.full_counts = view(1);
  }
  return lists;
}

void fill_blocks(const Tensor& indices, const Tensor& counts, std::int64_t key_blocks, double share,
                 bool is_faulty, tensor::Random random) {
  const auto& [batches, heads, rows, most] = indices.shape;
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t limit) { return random.below(draw++, limit); };
  constexpr std::int32_t kNoBlocks[] = {-1, std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::int32_t>::max()};
  std::vector<std::int32_t> order(static_cast<std::size_t>(key_blocks));
  for (std::int64_t line = 0; line < batches * heads * rows; ++line) {
    const std::int64_t row = line % rows, plane = line / rows;
    const std::int64_t batch = plane / heads, head = plane % heads;
    const auto at = [&, r = row](const Tensor& tensor, std::int64_t entry) {
      return static_cast<std::int32_t*>(tensor.data) + batch * tensor.strides[0] +
             head * tensor.strides[1] + r * tensor.strides[2] + entry * tensor.strides[3];
    };
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::int32_t> list;
    for (const std::int32_t block : order) {
      constexpr std::int64_t kSteps = 1 << 20;
      if (static_cast<double>(below(kSteps)) < share * kSteps) list.push_back(block);
    }
    for (std::size_t n = list.size(); n > 1; --n) {
      std::swap(list[n - 1], list[static_cast<std::size_t>(below(static_cast<std::int64_t>(n)))]);
    }
    if (is_faulty && line % 2 == 0) {
      if (!list.empty()) list.push_back(list.front());
      list.insert(list.begin(), static_cast<std::int32_t>(key_blocks));
      list.push_back(kNoBlocks[line / 2 % 3]);
    }
    for (std::int64_t entry = 0; entry < most; ++entry) {
      const bool in_use = entry < static_cast<std::int64_t>(list.size());
      *at(indices, entry) = in_use ? list[static_cast<std::size_t>(entry)] : kNoBlocks[entry % 3];
    }
    std::int32_t count = static_cast<std::int32_t>(list.size());
    // Behind the list nothing names a block, so that a count past the end changes nothing.
    if (is_faulty && line % 5 == 1) count = static_cast<std::int32_t>(most) + 7;
    if (is_faulty && line % 5 == 3) count = -2;
    *at(counts, 0) = count;
  }
}

}  // namespace attnjit::instance
