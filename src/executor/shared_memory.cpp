#include "executor/shared_memory.hpp"

#include <fmt/format.h>

#include <cstring>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

constexpr unsigned kWordBytes = 4;

// The reason in reports of two accesses that no barrier orders.
constexpr const char* kNoBarrier = "no barrier of the block in between";

}  // namespace

SharedMemory::SharedMemory(unsigned bytes)
    : bytes_(bytes), words_((bytes + kWordBytes - 1) / kWordBytes) {}

void SharedMemory::reset() {
  words_.assign(words_.size(), {});
  epoch_ = 1;
}

void SharedMemory::load(int thread, unsigned address, std::span<std::byte> to, Reader reader) {
  for (Word& word : words(address, to.size())) {
    if (word.in_flight) {
      throw Violation(
          fmt::format("reads shared memory at +{} while thread {}'s copy to it is under "
                      "way: copy_async_wait is missing",
                      address_of(word), word.writer));
    }
    if (word.write_epoch == 0) {
      throw Violation(
          fmt::format("reads shared memory at +{}, which nobody has written", address_of(word)));
    }
    const bool another = word.writer != thread || reader == Reader::kWarp;
    if (word.write_epoch == epoch_ && another) {
      throw Violation(fmt::format("reads shared memory at +{}, which thread {} wrote with {}",
                                  address_of(word), word.writer, kNoBarrier));
    }
    const bool alone =
        reader == Reader::kThread && (word.read_epoch != epoch_ || word.reader == thread);
    word.reader = alone ? thread : kSeveral;
    word.read_epoch = epoch_;
  }
  std::memcpy(to.data(), data(address), to.size());
}

void SharedMemory::store(int thread, unsigned address, std::span<const std::byte> from) {
  for (Word& word : words(address, from.size())) {
    check_write(thread, word);
    word.writer = thread;
    word.write_epoch = epoch_;
  }
  std::memcpy(data(address), from.data(), from.size());
}

void SharedMemory::begin_copy(int thread, unsigned address, unsigned bytes) {
  for (Word& word : words(address, bytes)) {
    check_write(thread, word);
    word.writer = thread;
    word.write_epoch = epoch_;
    word.in_flight = true;
  }
}

void SharedMemory::finish_copy(int thread, unsigned address, std::span<const std::byte> data_read) {
  for (Word& word : words(address, data_read.size())) {
    word.writer = thread;
    word.write_epoch = epoch_;  // others need a barrier from here on
    word.in_flight = false;
  }
  std::memcpy(data(address), data_read.data(), data_read.size());
}

std::span<SharedMemory::Word> SharedMemory::words(unsigned address, std::size_t bytes) {
  if (address < kBase || address - kBase + bytes > bytes_.size()) {
    throw Violation(fmt::format("touches {} bytes of shared memory at {:+}; the block has {} bytes",
                                bytes, static_cast<std::int64_t>(address) - kBase, bytes_.size()));
  }
  if (address % bytes != 0 || bytes % kWordBytes != 0) {
    throw Violation(fmt::format("touches {} bytes of shared memory at +{}: not aligned to its size",
                                bytes, address - kBase));
  }
  return std::span(words_).subspan((address - kBase) / kWordBytes, bytes / kWordBytes);
}

unsigned SharedMemory::address_of(const Word& word) const {
  return static_cast<unsigned>(&word - words_.data()) * kWordBytes;
}

void SharedMemory::check_write(int thread, const Word& word) const {
  if (word.in_flight) {
    throw Violation(
        fmt::format("writes shared memory at +{} while thread {}'s copy to it is under "
                    "way: copy_async_wait is missing",
                    address_of(word), word.writer));
  }
  if (word.write_epoch == epoch_ && word.writer != thread) {
    throw Violation(fmt::format("writes shared memory at +{}, which thread {} wrote with {}",
                                address_of(word), word.writer, kNoBarrier));
  }
  if (word.read_epoch == epoch_ && word.reader != thread) {
    throw Violation(fmt::format("writes shared memory at +{}, which {} read with {}",
                                address_of(word),
                                word.reader == kSeveral ? std::string("several threads")
                                                        : fmt::format("thread {}", word.reader),
                                kNoBarrier));
  }
}

}  // namespace attnjit::executor
