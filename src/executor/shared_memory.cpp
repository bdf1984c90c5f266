#include "executor/shared_memory.hpp"

#include <fmt/format.h>

#include <cstring>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

constexpr unsigned kWordBytes = 4;

// The reason in reports of two accesses that nothing orders.
constexpr const char* kNoBarrier = "no barrier of the block in between";

}  // namespace

SharedMemory::SharedMemory(unsigned bytes, Clocks& clocks)
    : clocks_(clocks),
      fences_(clocks.threads()),
      bytes_(bytes),
      words_((bytes + kWordBytes - 1) / kWordBytes) {}

void SharedMemory::reset() {
  words_.assign(words_.size(), {});
  seen_ = {};
  readers_.forget();
  fences_.reset();
}

void SharedMemory::pass_barrier() {
  clocks_.meet(0, clocks_.threads());
  // Other agents may still be reading.
  if (clocks_.only_threads()) readers_.forget();
}

void SharedMemory::load(int thread, unsigned address, std::span<std::byte> to, Reader reader) {
  const Stamp stamp{thread, clocks_.now(thread), reader == Reader::kWarp};
  for (Word& word : words(address, to.size())) {
    check_readable(word);
    check_written_before(thread, word, "reads");
    if (stamp.warp && word.writer == thread && word.write_time == stamp.time) {
      throw Violation(
          fmt::format("reads {}, which thread {} wrote with {}", place(word), thread, kNoBarrier));
    }
    word.readers = readers_.add(word.readers, stamp, thread, clocks_);
  }
  std::memcpy(to.data(), data(address), to.size());
}

void SharedMemory::store(int thread, unsigned address, std::span<const std::byte> from) {
  for (Word& word : words(address, from.size())) write(thread, word, State::kUsual);
  std::memcpy(data(address), from.data(), from.size());
}

unsigned SharedMemory::add(int thread, unsigned address, unsigned value) {
  Word& word = words(address, sizeof value).front();
  check_readable(word, "adds to");
  if (!word.added) check_written_before(thread, word, "adds to");
  check_readers(thread, word);
  word = {.write_time = clocks_.now(thread),
          .writer = static_cast<std::int16_t>(thread),
          .added = true};
  unsigned before = 0;
  std::memcpy(&before, data(address), sizeof before);
  value += before;
  std::memcpy(data(address), &value, sizeof value);
  return before;
}

void SharedMemory::begin_copy(int thread, unsigned address, unsigned bytes) {
  for (Word& word : words(address, bytes)) write(thread, word, State::kCopied);
}

void SharedMemory::finish_copy(int thread, unsigned address, std::span<const std::byte> data_read) {
  for (Word& word : words(address, data_read.size())) {
    word.write_time = clocks_.now(thread);  // others need a barrier from here on
    word.state = State::kUsual;
  }
  std::memcpy(data(address), data_read.data(), data_read.size());
}

void SharedMemory::make_barrier(int thread, unsigned address) {
  for (Word& word : words(address, 8)) write(thread, word, State::kBarrier);
}

void SharedMemory::begin_load(int thread, unsigned address, unsigned bytes) {
  for (Word& word : words(address, bytes, 16)) write(thread, word, State::kLoaded);
}

void SharedMemory::finish_load(unsigned address, std::span<const std::byte> data_read, int writer,
                               std::uint32_t time) {
  for (Word& word : words(address, data_read.size(), 16)) {
    word.writer = static_cast<std::int16_t>(writer);
    word.write_time = time;
    word.state = State::kUsual;
  }
  std::memcpy(data(address), data_read.data(), data_read.size());
}

void SharedMemory::begin_store(int thread, unsigned address, unsigned bytes) {
  for (Word& word : words(address, bytes, 16)) {
    check_readable(word);
    check_written_before(thread, word, "reads");
    check_fenced(thread, word, "the copy engine");
    ++word.stores;
  }
}

void SharedMemory::finish_store(int thread, unsigned address, std::span<std::byte> to) {
  const Stamp stamp{thread, clocks_.now(thread)};
  for (Word& word : words(address, to.size(), 16)) {
    --word.stores;
    word.readers = readers_.add(word.readers, stamp, thread, clocks_);
  }
  std::memcpy(to.data(), data(address), to.size());
}

void SharedMemory::load_operand(int first, int count, const Stamp& product, unsigned address,
                                std::span<std::byte, 16> to) {
  for (Word& word : words(address, to.size())) {
    check_readable(word);
    // Tiles mostly have one writer, and what threads have seen they do not forget.
    const Write write{first, word.writer, word.write_time};
    if (write != seen_) {
      for (int t = first; t < first + count; ++t) {
        check_written_before(t, word, "reads");
        check_fenced(t, word, "wgmma");
      }
      seen_ = write;
    }
    word.readers = readers_.add(word.readers, product, first, clocks_);
  }
  std::memcpy(to.data(), data(address), to.size());
}

std::span<SharedMemory::Word> SharedMemory::words(unsigned address, std::size_t bytes,
                                                  std::size_t alignment) {
  if (address < kBase || address - kBase + bytes > bytes_.size()) {
    throw Violation(fmt::format("touches {} bytes of shared memory at {:+}; the block has {} bytes",
                                bytes, static_cast<std::int64_t>(address) - kBase, bytes_.size()));
  }
  if (address % alignment != 0 || bytes % kWordBytes != 0) {
    throw Violation(fmt::format("touches {} bytes of shared memory at +{}: not aligned to {}",
                                bytes, address - kBase,
                                alignment == bytes ? "its size" : fmt::format("{}", alignment)));
  }
  return std::span(words_).subspan((address - kBase) / kWordBytes, bytes / kWordBytes);
}

std::string SharedMemory::place(const Word& word) const {
  return fmt::format("shared memory at +{}", (&word - words_.data()) * kWordBytes);
}

// Also of a copy, which is a write from its beginning on.
void SharedMemory::write(int thread, Word& word, State state) {
  check_state(word, "writes");
  check_written_before(thread, word, "writes");
  check_readers(thread, word);
  word = {.write_time = clocks_.now(thread),
          .writer = static_cast<std::int16_t>(thread),
          .state = state};
}

void SharedMemory::check_state(const Word& word, const char* verb) const {
  switch (word.state) {
    case State::kUsual:
      return;
    case State::kCopied:
      throw Violation(
          fmt::format("{} {} while thread {}'s copy to it is under way: copy_async_wait is missing",
                      verb, place(word), word.writer));
    case State::kLoaded:
      throw Violation(fmt::format(
          "{} {} while thread {}'s tensor_load to it is under way: barrier_wait is missing", verb,
          place(word), word.writer));
    case State::kBarrier:
      throw Violation(fmt::format("{} {}, a part of an mbarrier", verb, place(word)));
  }
}

void SharedMemory::check_readable(const Word& word, const char* verb) const {
  check_state(word, verb);
  if (word.write_time == 0) {
    throw Violation(fmt::format("{} {}, which was never written", verb, place(word)));
  }
}

void SharedMemory::check_written_before(int thread, const Word& word, const char* verb) const {
  if (clocks_.has_seen(thread, word.writer, word.write_time)) return;
  throw Violation(fmt::format("{} {}, which {} wrote with {}", verb, place(word),
                              clocks_.name(word.writer), kNoBarrier));
}

// Throws unless `thread` has seen a fence that the writer called after the write. Loads of tensors
// need none.
void SharedMemory::check_fenced(int thread, const Word& word, const char* reader) const {
  if (word.writer >= clocks_.threads() ||
      fences_.covers(thread, word.writer, word.write_time, clocks_)) {
    return;
  }
  throw Violation(
      fmt::format("has {} read {}, which thread {} wrote: fence_async_proxy is missing, by that "
                  "thread and before the barrier",
                  reader, place(word), word.writer));
}

void SharedMemory::check_readers(int thread, const Word& word) const {
  if (word.stores > 0) {
    throw Violation(fmt::format(
        "writes {} while a tensor store reads it: tensor_store_wait_read is missing", place(word)));
  }
  const std::span<const Stamp> readers = readers_.of(word.readers);
  for (const Stamp& reader : readers) {
    if (is_ordered(clocks_, reader, thread)) continue;
    const bool is_thread = reader.agent < clocks_.threads();
    if (!is_thread && !clocks_.is_seen(reader.agent, reader.time)) {
      throw Violation(fmt::format("writes {} while {} reads it: wgmma_wait is missing", place(word),
                                  clocks_.name(reader.agent)));
    }
    const bool several = is_thread && (readers.size() > 1 || reader.warp);
    throw Violation(fmt::format("writes {}, which {} read with {}", place(word),
                                several ? "several threads" : clocks_.name(reader.agent),
                                kNoBarrier));
  }
}

}  // namespace attnjit::executor
