// The kernel that merges partial results, on the CPU, against fp64.
#include "reference/merge_lse.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "changed_templates.hpp"
#include "executor/executor.hpp"
#include "executor/violation.hpp"
#include "tensor/half.hpp"
#include "tensor/random.hpp"
#include "unit/temp_directory.hpp"

namespace attnjit::executor_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct MergeSpec {
  std::int64_t batch = 2, heads = 3, rows = 37, columns = 64, parts = 3;
  DType part_dtype = DType::kBFloat16, dtype = DType::kBFloat16;
  bool carry = false, want_lse = true;
  int padding = 0;        ///< elements between two rows
  bool in_place = false;  ///< the result takes the carry's place, lse as well
};

/// A merge in host memory. Each row of a part is dead in a third of the cases, and then its values
/// are NaN; every fifth row is dead in all parts.
class HostMerge {
 public:
  explicit HostMerge(const MergeSpec& spec)
      : parts_(make(spec, spec.part_dtype, spec.parts)),
        carry_(make(spec, DType::kFloat32, 1)),
        out_(make(spec, spec.dtype, 1)) {
    const std::int64_t rows = spec.batch * spec.heads * spec.rows;
    fill(parts_, part_lses_, spec, rows * spec.parts);
    fill(carry_, carry_lse_, spec, rows);
    lse_.assign(static_cast<std::size_t>(rows), 0.0f);
    args_.parts = parts_.view;
    args_.part_stride = parts_.view.shape[0] * parts_.view.strides[0];
    args_.num_parts = spec.parts;
    args_.part_lses = part_lses_.data();
    if (spec.carry) args_.carry = carry_.view;
    if (spec.carry) args_.carry_lse = carry_lse_.data();
    args_.out = out_.view;
    if (spec.want_lse) args_.lse = lse_.data();
    exact_ = reference::merge_lse(args_);
    if (spec.in_place) {
      args_.out = carry_.view;
      args_.lse = carry_lse_.data();
    }
  }
  HostMerge(const HostMerge&) = delete;
  HostMerge& operator=(const HostMerge&) = delete;

  const MergeLseArgs& args() const { return args_; }

  /// Empty, or the first element that is wrong: an fp32 sum that is rounded once is off by half a
  /// unit in the last place and by what few approximate exponentials leave.
  std::string judge() const {
    const double unit = std::max(tensor::unit_roundoff(args_.out.dtype), 1e-6);
    std::size_t row = 0, element = 0;
    for (std::int64_t b = 0; b < args_.out.shape[0]; ++b) {
      for (std::int64_t h = 0; h < args_.out.shape[1]; ++h) {
        for (std::int64_t i = 0; i < args_.out.shape[2]; ++i, ++row) {
          const double lse = exact_.lse[row];
          if (args_.lse != nullptr && !close(args_.lse[row], lse)) {
            return fmt::format("lse of row {} is {}; expected {}", row, args_.lse[row], lse);
          }
          for (std::int64_t c = 0; c < args_.out.shape[3]; ++c, ++element) {
            const auto& s = args_.out.strides;
            const double found =
                tensor::load(args_.out.data, args_.out.dtype, b * s[0] + h * s[1] + i * s[2] + c);
            if (!(std::abs(found - exact_.out[element]) <= 2 * unit * 4)) {
              return fmt::format("row {}, column {} is {}; expected {}", row, c, found,
                                 exact_.out[element]);
            }
          }
        }
      }
    }
    return "";
  }

 private:
  struct Memory {
    std::vector<float> bytes;
    Tensor view;
  };

  static bool close(float found, double expected) {
    return std::isinf(expected) ? found == -kInfinity : std::abs(found - expected) <= 1e-5;
  }
  static Memory make(const MergeSpec& s, DType dtype, std::int64_t parts) {
    const std::int64_t row = s.columns + s.padding;
    const auto elements = static_cast<std::size_t>(parts * s.batch * s.heads * s.rows * row);
    Memory memory{std::vector<float>(elements), {}};
    // (batch, row, head, column) in memory
    memory.view = {memory.bytes.data(),
                   dtype,
                   {s.batch, s.heads, s.rows, s.columns},
                   {s.rows * s.heads * row, row, s.heads * row, 1}};
    return memory;
  }
  static void fill(Memory& memory, std::vector<float>& lses, const MergeSpec& s,
                   std::int64_t rows) {
    const tensor::Random random(static_cast<std::uint64_t>(rows));
    const auto& [batch, heads, length, columns] = memory.view.shape;
    const auto& strides = memory.view.strides;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t of_part = r % (s.batch * s.heads * s.rows);
      const bool dead = of_part % 5 == 0 || random.below(2 * r, 3) == 0;
      lses.push_back(dead ? -kInfinity : static_cast<float>(9 * random.normal(2 * r)));
      const std::int64_t first = r / (heads * length) * strides[0] +
                                 r / length % heads * strides[1] + r % length * strides[2];
      for (std::int64_t c = 0; c < columns; ++c) {
        const double value = std::remainder(random.normal(1000 * r + c), 2.0);
        tensor::store(memory.view.data, memory.view.dtype, first + c, dead ? std::nan("") : value);
      }
    }
  }

  Memory parts_, carry_, out_;
  std::vector<float> part_lses_, carry_lse_, lse_;
  MergeLseArgs args_;
  reference::MergedRows exact_;
};

class Merges {
 public:
  explicit Merges(codegen::TemplateSet templates = {})
      : templates_(std::move(templates)),
        executor_(
            {.compiler = {},
             .cache = {.directory = directory_ / "cache", .lock_directory = directory_ / "locks"},
             .templates = templates_},
            log_) {}

  /// Empty, or a violation, or what is wrong with the result.
  std::string run(const MergeSpec& spec) {
    const HostMerge host(spec);
    const problem::MergeProblem problem = problem::make_problem(host.args());
    try {
      executor_.merge_lse(launch::make_merge_plan_spec(problem.key, templates_), problem,
                          host.args());
    } catch (const executor::Violation& violation) {
      return violation.what();
    }
    return host.judge();
  }

 private:
  test::TempDirectory directory_;
  base::Log log_{base::LogLevel::kError, {}};
  codegen::TemplateSet templates_;
  executor::Executor executor_;
};

TEST_CASE_FIXTURE(Merges, "merge_lse: dtypes, with and without a carry") {
  for (const DType part : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
      CAPTURE(part);
      CAPTURE(dtype);
      CHECK(run({.part_dtype = part, .dtype = dtype, .carry = part != dtype}) == "");
    }
  }
}

TEST_CASE_FIXTURE(Merges, "merge_lse: widths, strides and numbers of parts") {
  for (const std::int64_t columns : {1, 8, 24, 40, 100, 128, 256}) {
    CAPTURE(columns);
    CHECK(run({.rows = 9, .columns = columns, .parts = 2}) == "");
  }
  CHECK(run({.padding = 8}) == "");
  CHECK(run({.carry = true, .padding = 3}) == "");
  CHECK(run({.batch = 1, .heads = 1, .rows = 1, .parts = 1}) == "");
  CHECK(run({.rows = 5, .parts = 70, .want_lse = false}) == "");
}

TEST_CASE_FIXTURE(Merges, "merge_lse: rows of several warps, and wider than a block's threads") {
  for (const std::int64_t columns : {264, 512, 520, 531, 2048, 2056, 4100}) {
    for (const int padding : {0, 3}) {
      CAPTURE(columns);
      CAPTURE(padding);
      const MergeSpec spec{.rows = 3, .columns = columns, .parts = 2, .padding = padding};
      const bool aligned = columns % 8 == 0 && padding == 0;
      CHECK(problem::make_problem(HostMerge(spec).args()).key.aligned == aligned);
      CHECK(run(spec) == "");
    }
  }
  CHECK(run({.rows = 3, .columns = 512, .part_dtype = DType::kFloat16, .dtype = DType::kFloat32}) ==
        "");
  CHECK(run({.rows = 3, .columns = 2056, .part_dtype = DType::kFloat32, .carry = true}) == "");
}

constexpr MergeSpec in_place(std::int64_t columns) {
  return {.rows = 3,
          .columns = columns,
          .parts = 2,
          .dtype = DType::kFloat32,
          .carry = true,
          .in_place = true};
}

TEST_CASE_FIXTURE(Merges, "merge_lse: a sum that goes on where it lies") {
  for (const std::int64_t columns : {64, 256, 520, 531, 2056, 4100}) {
    CAPTURE(columns);
    CHECK(run(in_place(columns)) == "");
  }
}

TEST_CASE("caught: a merge whose lse takes the place of one that is still to be read") {
  Merges unordered(changed_templates("attnjit/forward/merge_lse.cuh", "ptx::block_sync();", ""));
  for (const std::int64_t columns : {64, 512, 2056}) {
    CAPTURE(columns);
    CHECK(unordered.run(in_place(columns)).find("expected") != std::string::npos);
  }
}

TEST_CASE("caught: a merge that reads dead parts, or writes too much") {
  const std::string kernel = "attnjit/forward/merge_lse.cuh";
  Merges reads_all(changed_templates(kernel, "if (lse == -ptx::infinity()) return;", ""));
  CHECK(reads_all.run({}).find("is nan") != std::string::npos);
  Merges too_many(changed_templates(kernel, "row < params.num_rows && ", ""));
  CHECK(too_many.run({}).find("reads") != std::string::npos);
}

}  // namespace
}  // namespace attnjit::executor_test
