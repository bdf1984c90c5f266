#include "executor/tensor_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

/// The part of a line of a box that lies inside of the tensor.
struct Line {
  unsigned place;      // of the whole line in the box, bytes
  unsigned skipped;    // bytes of the line before the part
  unsigned bytes;      // of the part; 0: the line lies outside
  std::byte* address;  // of the part in global memory
};

// The line whose other axes have the indices in `index`, which are counted in elements of the box.
Line line_at(const TensorDescription& tensor, std::span<const int> start,
             const std::array<int, TensorDescription::kMaxRank>& index, unsigned place) {
  Line line{place, 0, 0, tensor.address};
  for (int axis = 1; axis < tensor.rank; ++axis) {
    const std::int64_t at = std::int64_t{start[axis]} + index[axis] * tensor.step[axis];
    if (at < 0 || at > tensor.last[axis]) return line;
    line.address += static_cast<std::uint64_t>(at) * tensor.stride[axis];
  }
  const std::int64_t first = std::max(start[0], 0);
  const std::int64_t end =
      std::min<std::int64_t>(std::int64_t{start[0]} + tensor.count[0], tensor.last[0] + 1ll);
  if (end <= first) return line;
  line.skipped = static_cast<unsigned>(first - start[0]) * tensor.element_bytes;
  line.bytes = static_cast<unsigned>(end - first) * tensor.element_bytes;
  line.address += first * tensor.element_bytes;
  return line;
}

// Calls visit(line) for each line of the box at `start`, in the order of shared memory.
template <class Visit>
void for_each_line(const TensorDescription& tensor, std::span<const int> start, Visit visit) {
  std::array<int, TensorDescription::kMaxRank> index{};
  const unsigned line_bytes = unsigned{tensor.count[0]} * tensor.element_bytes;
  const auto lines = static_cast<unsigned>(tensor.box_bytes() / line_bytes);
  for (unsigned i = 0; i < lines; ++i) {
    visit(line_at(tensor, start, index, i * line_bytes));
    for (int axis = 1; axis < tensor.rank && ++index[axis] == tensor.count[axis]; ++axis) {
      index[axis] = 0;
    }
  }
}

// Calls visit(offset, bytes) for the parts of [begin, begin + size) that lie in one chunk of 16
// bytes, which a swizzle moves as one.
constexpr unsigned kChunkBytes = 16;
template <class Visit>
void for_each_chunk(unsigned begin, unsigned size, Visit visit) {
  for (unsigned i = begin; i < begin + size;) {
    const unsigned bytes = std::min(kChunkBytes - i % kChunkBytes, begin + size - i);
    visit(i, bytes);
    i += bytes;
  }
}

// Calls visit(address, first byte, target, bytes) for each chunk in shared memory that a store of
// `box` writes a part of to the tensor; what lies outside of the tensor is not looked at.
template <class Box, class Visit>
void for_each_stored_chunk(const Box& box, Visit visit) {
  for_each_line(box.tensor, box.start, [&](const Line& line) {
    const unsigned begin = line.place + line.skipped;
    for_each_chunk(begin, line.bytes, [&](unsigned place, unsigned bytes) {
      const unsigned from = box.tensor.swizzle(box.shared + place);
      visit(from / kChunkBytes * kChunkBytes, from % kChunkBytes, line.address + (place - begin),
            bytes);
    });
  });
}

// Several thread blocks may add at once.
void add(std::byte* to, std::span<const std::byte> floats) {
  for (std::size_t i = 0; i < floats.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, &floats[i], sizeof value);
    std::atomic_ref(*reinterpret_cast<float*>(to + i)) += value;
  }
}

// The largest power of two, at most 16, that `address` is a multiple of and that fits in `bytes`.
unsigned access_size(const std::byte* address, unsigned bytes) {
  unsigned size = 16;
  while (size > bytes || reinterpret_cast<std::uintptr_t>(address) % size != 0) size /= 2;
  return size;
}

}  // namespace

void TensorCopies::reset() {
  loads_.clear();
  std::ranges::fill(stores_, Stores{});
}

void TensorCopies::load(int thread, unsigned shared, const void* map, unsigned barrier,
                        std::span<const int> start, bool waited) {
  barriers_.check(barrier);
  start_load(make_box(map, shared, start), barrier, thread, waited);
}

void TensorCopies::load_bytes(int thread, unsigned shared, const void* global, unsigned bytes,
                              unsigned barrier, bool waited) {
  barriers_.check(barrier);
  start_load(make_bytes(global, shared, bytes), barrier, thread, waited);
}

void TensorCopies::start_load(const Box& box, unsigned barrier, int thread, bool waited) {
  check_global(box, GlobalAccess::kRead, waited);
  shared_.begin_load(thread, box.shared, static_cast<unsigned>(box.tensor.box_bytes()));
  loads_.push_back({box, barrier, thread});
}

bool TensorCopies::land() {
  if (loads_.empty()) return false;
  const auto [box, barrier, thread] = loads_.front();
  loads_.pop_front();
  std::vector<std::byte> data(box.tensor.box_bytes());  // zeros outside of the tensor
  for_each_line(box.tensor, box.start, [&](const Line& line) {
    for_each_chunk(line.place + line.skipped, line.bytes, [&](unsigned place, unsigned bytes) {
      const unsigned to = box.tensor.swizzle(box.shared + place) - box.shared;
      std::memcpy(&data[to], line.address + (place - line.place - line.skipped), bytes);
    });
  });
  barriers_.land(barrier, box.shared, data);
  return true;
}

void TensorCopies::store(int thread, const void* map, unsigned shared, std::span<const int> start,
                         bool waited) {
  start_store(make_box(map, shared, start), thread, GlobalAccess::kWrite, waited);
}

void TensorCopies::store_bytes(int thread, void* global, unsigned shared, unsigned bytes,
                               bool waited) {
  start_store(make_bytes(global, shared, bytes), thread, GlobalAccess::kWrite, waited);
}

void TensorCopies::add_floats(int thread, void* global, unsigned shared, unsigned bytes,
                              bool waited) {
  Box box = make_bytes(global, shared, bytes);
  box.adds = true;
  start_store(box, thread, GlobalAccess::kAdd, waited);
}

void TensorCopies::start_store(const Box& box, int thread, GlobalAccess access, bool waited) {
  for_each_stored_chunk(box, [&](unsigned chunk, unsigned, std::byte*, unsigned) {
    shared_.begin_store(thread, chunk, kChunkBytes);
  });
  check_global(box, access, waited);
  stores_[thread].open.push_back(box);
}

void TensorCopies::commit(int thread) {
  auto& [open, groups, read] = stores_[thread];
  groups.push_back(std::exchange(open, {}));
}

void TensorCopies::wait_read(int thread, int pending) {
  auto& [open, groups, read] = stores_[thread];
  if (!open.empty()) {
    throw Violation("waits for a tensor store of no group: tensor_store_commit is missing");
  }
  for (; groups.size() > static_cast<std::size_t>(pending); groups.pop_front()) {
    read.push_back(read_stored(groups.front(), thread));
  }
}

void TensorCopies::wait(int thread, int pending) {
  wait_read(thread, pending);
  auto& [open, groups, read] = stores_[thread];
  for (; groups.size() + read.size() > static_cast<std::size_t>(pending); read.pop_front()) {
    for (const Change& change : read.front()) {
      if (change.adds) {
        add(change.to, change.data);
      } else {
        std::ranges::copy(change.data, change.to);
      }
    }
  }
}

std::vector<TensorCopies::Change> TensorCopies::read_stored(const std::vector<Box>& group,
                                                            int thread) {
  std::vector<Change> changes;
  for (const Box& box : group) {
    for_each_stored_chunk(box, [&](unsigned chunk, unsigned first, std::byte* to, unsigned bytes) {
      std::array<std::byte, kChunkBytes> data;
      shared_.finish_store(thread, chunk, data);
      changes.push_back({to, {&data[first], &data[first] + bytes}, box.adds});
    });
  }
  return changes;
}

void TensorCopies::finish() {
  if (!loads_.empty()) {
    throw Violation(
        fmt::format("ends while thread {}'s tensor_load to shared memory at +{} is "
                    "under way: barrier_wait is missing",
                    loads_.front().thread, loads_.front().box.shared - SharedMemory::kBase));
  }
  for (std::size_t t = 0; t < stores_.size(); ++t) {
    const auto& [open, groups, read] = stores_[t];
    const bool done = open.empty() && std::ranges::all_of(groups, &std::vector<Box>::empty);
    if (done) {
      wait(static_cast<int>(t), 0);
      continue;
    }
    throw Violation(
        fmt::format("ends while thread {}'s tensor store reads shared memory: "
                    "tensor_store_wait_read is missing",
                    t));
  }
}

TensorCopies::Box TensorCopies::make_box(const void* map, unsigned shared,
                                         std::span<const int> start) {
  Box box{decode_tensor_map(map, start.size()), {}, shared};
  std::ranges::copy(start, box.start.begin());
  const unsigned alignment = box.tensor.swizzled_bytes == 16 ? 128 : 8 * box.tensor.swizzled_bytes;
  if (shared % alignment != 0) {
    throw Violation(
        fmt::format("has a box at +{} of shared memory; with this tensor map it begins "
                    "at a multiple of {}",
                    shared - SharedMemory::kBase, alignment));
  }
  if (alignment != 128 && box.tensor.box_bytes() % 128 != 0) {
    throw Violation(fmt::format("has a swizzled box of {} bytes; whole lines of 128 are wanted",
                                box.tensor.box_bytes()));
  }
  return box;
}

TensorCopies::Box TensorCopies::make_bytes(const void* global, unsigned shared, unsigned bytes) {
  if (shared % kChunkBytes != 0 || reinterpret_cast<std::uintptr_t>(global) % kChunkBytes != 0 ||
      bytes % kChunkBytes != 0 || bytes / kChunkBytes > 0xffff) {
    throw Violation(
        fmt::format("copies {} bytes between {} and +{} of shared memory; all three are "
                    "multiples of 16, and the bytes fewer than 2^20",
                    bytes, global, shared - SharedMemory::kBase));
  }
  Box box{};
  box.shared = shared;
  box.tensor.address = const_cast<std::byte*>(static_cast<const std::byte*>(global));
  box.tensor.count[0] = static_cast<std::uint16_t>(bytes / kChunkBytes);
  box.tensor.last[0] = box.tensor.count[0] - 1u;
  box.tensor.step[0] = 1;
  box.tensor.rank = 1;
  box.tensor.element_bytes = box.tensor.swizzled_bytes = kChunkBytes;
  return box;
}

void TensorCopies::check_global(const Box& box, GlobalAccess access, bool waited) {
  for_each_line(box.tensor, box.start, [&](const Line& line) {
    for (unsigned i = 0; i < line.bytes;) {
      const unsigned size = access_size(line.address + i, line.bytes - i);
      memory_.access(line.address + i, size, access, waited);
      i += size;
    }
  });
}

}  // namespace attnjit::executor
