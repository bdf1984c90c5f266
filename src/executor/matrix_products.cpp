#include "executor/matrix_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

constexpr int kRows = 64;
// In registers whose sums are under way: a NaN that no arithmetic gives.
constexpr std::uint32_t kPoison = 0x7fbadbad;

// Where element `e` of the 8 columns from 8 `slab` on of a thread's part of c lies.
std::size_t place_of(int thread, int slab, int e, int columns) {
  const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (e / 2);
  return static_cast<std::size_t>(row) * columns + 8 * slab + 2 * (thread % 4) + e % 2;
}

// Calls visit(register, place in [64][columns]) for each sum of `thread`.
template <class Visit>
void for_each_sum(float* registers, int thread, int columns, Visit visit) {
  for (int slab = 0; slab < columns / 8; ++slab) {
    for (int e = 0; e < 4; ++e) {
      visit(registers[4 * slab + e], place_of(thread, slab, e, columns));
    }
  }
}

void poison(float* registers, int columns) {
  std::fill_n(registers, columns / 2, std::bit_cast<float>(kPoison));
}

bool is_poison(const float* registers, int columns) {
  return std::all_of(registers, registers + columns / 2, [](const float& value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits == kPoison;
  });
}

bool overlap(const float* a, int a_count, const float* b, int b_count) {
  return a < b + b_count && b < a + a_count;
}

// rows [64][columns] += a [64][16] b [16][columns]; sums are taken in fp64 and rounded once.
void multiply_dense(std::vector<float>& rows, const std::vector<float>& a,
                    const std::vector<float>& b, int columns) {
  std::vector<double> sum(columns);
  for (int row = 0; row < kRows; ++row) {
    float* const c = &rows[static_cast<std::size_t>(row) * columns];
    std::copy_n(c, columns, sum.begin());
    for (int k = 0; k < kDepth; ++k) {
      const double factor = a[row * kDepth + k];
      const float* const line = &b[static_cast<std::size_t>(k) * columns];
      for (int i = 0; i < columns; ++i) sum[i] += factor * line[i];
    }
    for (int i = 0; i < columns; ++i) c[i] = static_cast<float>(sum[i]);
  }
}

std::vector<float> transposed(const std::vector<float>& lines, int count) {
  std::vector<float> result(lines.size());
  for (int line = 0; line < count; ++line) {
    for (int k = 0; k < kDepth; ++k) result[k * count + line] = lines[line * kDepth + k];
  }
  return result;
}

}  // namespace

void MatrixProducts::reset() {
  agent_ = 0;
  fenced_ = open_ = false;
  committed_ = ended_ = 0;
  sums_.clear();
  operands_.clear();
}

void MatrixProducts::multiply(void* const* members) {
  Members threads;
  for (int t = 0; t < kThreads; ++t) threads[t] = static_cast<const MatrixProduct*>(members[t]);
  const MatrixProduct& product = *threads[0];
  for (const MatrixProduct* other : threads) {
    if (other->a_tile != product.a_tile || other->b_tile != product.b_tile ||
        other->adds != product.adds || other->columns != product.columns ||
        other->columns_in_lines != product.columns_in_lines ||
        (other->a == nullptr) != (product.a == nullptr)) {
      throw Violation("gets descriptors that are not the same for all threads of the warpgroup");
    }
  }
  if (!open_ && !fenced_) {
    throw Violation("begins a group of products: wgmma_fence is missing");
  }
  if (agent_ == 0) {
    agent_ = clocks_.add_agent(fmt::format("the wgmma of warpgroup {}", first_ / kThreads));
  }
  open_ = true;
  Sums& sums = sums_of(threads);
  const Stamp stamp{agent_, committed_ + 1};
  const auto load = [&](unsigned address, std::span<std::byte, 16> to) {
    shared_.load_operand(first_, kThreads, stamp, address, to);
  };
  const std::vector<float> a = load_a(threads, load);
  const OperandTile tile(product.b_tile);
  const int columns = product.columns;
  const std::vector<float> b =
      product.columns_in_lines
          ? tile.load_columns(columns, product.bfloat16, load)
          : transposed(tile.load_lines(columns, product.bfloat16, load), columns);
  if (!product.adds) std::ranges::fill(sums.rows, 0.0f);
  multiply_dense(sums.rows, a, b, columns);
}

// The sums that the product adds to: those under way in the same registers, or new ones.
MatrixProducts::Sums& MatrixProducts::sums_of(const Members& threads) {
  const int columns = threads[0]->columns;
  for (Sums& sums : sums_) {
    if (!overlap(sums.registers[0], sums.columns / 2, threads[0]->c, columns / 2)) continue;
    for (int t = 0; t < kThreads; ++t) {
      if (sums.registers[t] != threads[t]->c || sums.columns != columns) {
        throw Violation("adds to some registers of another product that is under way");
      }
      if (!is_poison(sums.registers[t], columns)) {
        throw Violation(fmt::format(
            "adds to sums that thread {} changed while they were under way: wgmma_wait is missing",
            first_ + t));
      }
    }
    sums.group = committed_ + 1;
    return sums;
  }
  Sums& sums = sums_.emplace_back();
  sums.columns = columns;
  sums.group = committed_ + 1;
  sums.rows.resize(static_cast<std::size_t>(kRows) * columns);
  for (int t = 0; t < kThreads; ++t) {
    sums.registers[t] = threads[t]->c;
    for_each_sum(threads[t]->c, t, columns,
                 [&](float& value, std::size_t place) { sums.rows[place] = value; });
    poison(threads[t]->c, columns);
  }
  return sums;
}

// The elements [64][16] of a, from shared memory or registers.
std::vector<float> MatrixProducts::load_a(const Members& threads, const LoadChunk& load) {
  const MatrixProduct& product = *threads[0];
  if (product.a == nullptr) {
    return OperandTile(product.a_tile).load_lines(kRows, product.bfloat16, load);
  }
  std::vector<float> a(kRows * kDepth);
  Operand& operand = operands_.emplace_back();
  operand.group = committed_ + 1;
  for (int t = 0; t < kThreads; ++t) {
    operand.registers[t] = threads[t]->a;
    std::copy_n(threads[t]->a, 4, operand.words[t].begin());
    for (int i = 0; i < 8; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + 8 * (i / 2 % 2);
      const int k = 2 * (t % 4) + i % 2 + 8 * (i / 4);
      const unsigned word = operand.words[t][i / 2];
      a[row * kDepth + k] =
          widen(static_cast<std::uint16_t>(word >> 16 * (i % 2)), product.bfloat16);
    }
  }
  return a;
}

void MatrixProducts::commit() {
  ++committed_;
  open_ = fenced_ = false;
}

void MatrixProducts::wait(int pending) {
  if (open_) throw Violation("waits for products of no group: wgmma_commit is missing");
  fenced_ = false;
  while (committed_ - ended_ > static_cast<std::uint32_t>(pending)) end_group();
  if (agent_ == 0) return;
  for (int t = first_; t < first_ + kThreads; ++t) clocks_.acquire(t, agent_, ended_);
}

// Writes the sums of the oldest group where no other group adds to them.
void MatrixProducts::end_group() {
  ++ended_;
  for (const Operand& operand : operands_) {
    if (operand.group > ended_) continue;
    for (int t = 0; t < kThreads; ++t) {
      if (std::equal(operand.words[t].begin(), operand.words[t].end(), operand.registers[t])) {
        continue;
      }
      throw Violation(
          fmt::format("an operand in registers of thread {} was changed while wgmma read "
                      "it",
                      first_ + t));
    }
  }
  for (const Sums& sums : sums_) {
    if (sums.group > ended_) continue;
    for (int t = 0; t < kThreads; ++t) {
      if (!is_poison(sums.registers[t], sums.columns)) {
        throw Violation(fmt::format(
            "sums in registers of thread {} were changed while wgmma added to them", first_ + t));
      }
      for_each_sum(sums.registers[t], t, sums.columns,
                   [&](float& value, std::size_t place) { value = sums.rows[place]; });
    }
  }
  std::erase_if(operands_, [&](const Operand& operand) { return operand.group <= ended_; });
  std::erase_if(sums_, [&](const Sums& sums) { return sums.group <= ended_; });
}

void MatrixProducts::check_done() const {
  if (!open_ && committed_ == ended_) return;
  throw Violation(
      fmt::format("ends while the wgmma of warpgroup {} are under way: wgmma_wait is missing",
                  first_ / kThreads));
}

}  // namespace attnjit::executor
