#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attnjit/executor/services.h"
#include "executor/clocks.hpp"
#include "executor/readers.hpp"

namespace attnjit::executor {

/// The shared memory of one thread block, and for each 32-bit word who wrote it last and who has
/// read it since. Every function throws Violation for an access that
///   - lies outside, or is not aligned to its size,
///   - reads what no thread wrote, or what a copy has not been waited for,
///   - meets another's access to the same word, one of them a write, with nothing that orders the
///     two,
///   - touches what a copy or a product under way reads or writes, or an mbarrier.
class SharedMemory {
 public:
  /// The address of the first byte, as the primitives' shared_base() has it.
  static constexpr unsigned kBase = 1024;

  /// `clocks`, those of the threads that touch it, must outlive it.
  SharedMemory(unsigned bytes, Clocks& clocks);

  /// For a new thread block: nothing is written.
  void reset();
  /// All threads have passed a barrier.
  void pass_barrier();

  void load(int thread, unsigned address, std::span<std::byte> to, Reader reader);
  void store(int thread, unsigned address, std::span<const std::byte> from);
  /// Adds to a word and returns what it was. Additions need no order among themselves, and count as
  /// one write of the thread that came last.
  unsigned add(int thread, unsigned address, unsigned value);

  /// A copy to `address` is on its way, until finish_copy() says that `thread` has waited for it.
  void begin_copy(int thread, unsigned address, unsigned bytes);
  void finish_copy(int thread, unsigned address, std::span<const std::byte> data);

  /// `thread` makes an mbarrier: no other access may touch its bytes from here on.
  void make_barrier(int thread, unsigned address);

  // Agents beside the threads see their writes only after their fence_async_proxy(). Here,
  // `address` and the size are multiples of 16.

  void fence_async_proxy(int thread) { fences_.add(thread, clocks_); }
  /// `thread` starts a load of a tensor, which finish_load() ends in the name of `writer` at
  /// `time`.
  void begin_load(int thread, unsigned address, unsigned bytes);
  void finish_load(unsigned address, std::span<const std::byte> data, int writer,
                   std::uint32_t time);
  /// `thread` starts a store of a tensor, and has waited for it to read what it stores.
  void begin_store(int thread, unsigned address, unsigned bytes);
  void finish_store(int thread, unsigned address, std::span<std::byte> to);
  /// A product reads 16 bytes for the threads from `first` to `first` + `count` - 1.
  void load_operand(int first, int count, const Stamp& product, unsigned address,
                    std::span<std::byte, 16> to);

 private:
  enum class State : std::uint8_t { kUsual, kCopied, kLoaded, kBarrier };

  struct Word {
    std::uint32_t write_time = 0;  // 0: never written
    int readers = Readers::kNone;  // since then
    std::int16_t writer = 0;
    State state = State::kUsual;
    bool added = false;       // the last write was an addition
    std::uint8_t stores = 0;  // of tensors, that read it
  };

  struct Write {
    int first = -1;  // thread of a warpgroup that has seen it
    int writer = 0;
    std::uint32_t time = 0;
    bool operator==(const Write&) const = default;
  };

  std::span<Word> words(unsigned address, std::size_t bytes, std::size_t alignment);
  std::span<Word> words(unsigned address, std::size_t bytes) {
    return words(address, bytes, bytes);
  }
  std::byte* data(unsigned address) { return bytes_.data() + (address - kBase); }
  std::string place(const Word& word) const;
  void write(int thread, Word& word, State state);
  void check_state(const Word& word, const char* verb) const;
  void check_readable(const Word& word, const char* verb = "reads") const;
  void check_written_before(int thread, const Word& word, const char* verb) const;
  void check_fenced(int thread, const Word& word, const char* reader) const;
  void check_readers(int thread, const Word& word) const;

  Clocks& clocks_;
  Fences fences_;  // to the asynchronous proxy
  Readers readers_;
  std::vector<std::byte> bytes_;
  std::vector<Word> words_;
  Write seen_;  // the last that load_operand() met
};

}  // namespace attnjit::executor
