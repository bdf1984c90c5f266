#include "executor/async_copies.hpp"

#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace attnjit::executor {

void AsyncCopies::reset() {
  open_.clear();
  groups_.clear();
}

void AsyncCopies::add(unsigned shared, const void* global, unsigned bytes, bool valid) {
  open_.push_back({shared, static_cast<const std::byte*>(global), bytes, valid});
}

void AsyncCopies::commit() {
  groups_.push_back(std::move(open_));
  open_.clear();
}

void AsyncCopies::wait(int thread, int pending, SharedMemory& shared) {
  while (static_cast<int>(groups_.size()) > pending) {
    for (const Copy& copy : groups_.front()) {
      std::array<std::byte, 16> data{};
      if (copy.valid) std::memcpy(data.data(), copy.global, copy.bytes);
      shared.finish_copy(thread, copy.shared, std::span(data).first(copy.bytes));
    }
    groups_.pop_front();
  }
}

}  // namespace attnjit::executor
