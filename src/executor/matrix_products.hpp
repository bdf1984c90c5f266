#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "attnjit/executor/services.h"
#include "executor/operands.hpp"
#include "executor/shared_memory.hpp"

namespace attnjit::executor {

/// The asynchronous products of one warpgroup (wgmma). What a product reads from shared memory is
/// read when it is issued, its sums are NaN until they are waited for. All functions are called
/// once for the whole warpgroup, when its threads have come, and throw Violation for
///   - a product with no fence after the last commit or wait,
///   - operands that are not the same for all threads, or no tiles,
///   - registers of a product that changed before it was waited for,
///   - a wait for products of no group.
class MatrixProducts {
 public:
  static constexpr int kThreads = 128;

  /// `first` is the first thread of the warpgroup.
  MatrixProducts(int first, Clocks& clocks, SharedMemory& shared)
      : first_(first), clocks_(clocks), shared_(shared) {}

  /// For a new thread block.
  void reset();

  void fence() { fenced_ = true; }
  /// members[t] is the MatrixProduct that thread t of the warpgroup passed.
  void multiply(void* const* members);
  void commit();
  /// Ends groups until at most `pending` are unfinished.
  void wait(int pending);

  /// Throws for what is under way when all threads have ended.
  void check_done() const;

 private:
  using Members = std::array<const MatrixProduct*, kThreads>;

  // Sums under way.
  struct Sums {
    std::array<float*, kThreads> registers;
    int columns;
    std::uint32_t group;      // the last that adds to them
    std::vector<float> rows;  // [64][columns]
  };
  // Registers of an operand.
  struct Operand {
    std::array<const unsigned*, kThreads> registers;
    std::uint32_t group;
    std::array<std::array<unsigned, 4>, kThreads> words;
  };

  Sums& sums_of(const Members& threads);
  std::vector<float> load_a(const Members& threads, const LoadChunk& load);
  void end_group();

  const int first_;
  Clocks& clocks_;
  SharedMemory& shared_;
  int agent_ = 0;  // 0: none yet
  bool fenced_ = false;
  bool open_ = false;            // products of no group
  std::uint32_t committed_ = 0;  // groups
  std::uint32_t ended_ = 0;
  std::vector<Sums> sums_;
  std::vector<Operand> operands_;
};

}  // namespace attnjit::executor
