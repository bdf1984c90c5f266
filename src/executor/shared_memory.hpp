#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attnjit/executor/services.h"

namespace attnjit::executor {

/// The shared memory of one thread block, and for each 32-bit word who touched it since the last
/// barrier. Every function throws Violation for an access that
///   - lies outside, or is not aligned to its size,
///   - reads what nobody wrote, or what a copy has not been waited for,
///   - meets another thread's access to the same word, one of them a write, without a barrier of
///     the block between them.
class SharedMemory {
 public:
  /// The address of the first byte, as the primitives' shared_base() has it.
  static constexpr unsigned kBase = 1024;

  explicit SharedMemory(unsigned bytes);

  /// For a new thread block: nothing is written.
  void reset();
  /// All threads have passed a barrier.
  void pass_barrier() { ++epoch_; }

  void load(int thread, unsigned address, std::span<std::byte> to, Reader reader);
  void store(int thread, unsigned address, std::span<const std::byte> from);

  /// A copy to `address` is on its way, until finish_copy() says that `thread` has waited for it.
  void begin_copy(int thread, unsigned address, unsigned bytes);
  void finish_copy(int thread, unsigned address, std::span<const std::byte> data);

 private:
  static constexpr int kSeveral = -1;  // threads

  struct Word {
    std::uint32_t write_epoch = 0;  // 0: never written
    std::uint32_t read_epoch = 0;
    int writer = 0;
    int reader = 0;  // kSeveral: any writer is another thread
    bool in_flight = false;
  };

  std::span<Word> words(unsigned address, std::size_t bytes);
  std::byte* data(unsigned address) { return bytes_.data() + (address - kBase); }
  unsigned address_of(const Word& word) const;
  void check_write(int thread, const Word& word) const;

  std::vector<std::byte> bytes_;
  std::vector<Word> words_;
  std::uint32_t epoch_ = 1;
};

}  // namespace attnjit::executor
