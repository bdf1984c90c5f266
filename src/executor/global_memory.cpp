#include "executor/global_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "executor/violation.hpp"

namespace attnjit::executor {
namespace {

const char* verb_of(GlobalAccess access) {
  switch (access) {
    case GlobalAccess::kRead:
    case GlobalAccess::kReadConst:
      return "reads";
    case GlobalAccess::kWrite:
      return "writes";
    case GlobalAccess::kAdd:
      return "adds to";
  }
  return "";
}

// Blocks on several threads look at neighbouring bytes.
std::uint8_t load(const std::uint8_t& byte) {
  return std::atomic_ref(const_cast<std::uint8_t&>(byte)).load(std::memory_order_relaxed);
}
std::uint8_t exchange(std::uint8_t& byte, std::uint8_t value) {
  return std::atomic_ref(byte).exchange(value, std::memory_order_relaxed);
}

// Calls visit(offset) for each row of `view` along its last axis, in elements; an axis of stride 0
// is one row.
template <class Visit>
void for_each_row(const Tensor& view, Visit visit) {
  std::array<std::int64_t, 3> size;
  for (int axis = 0; axis < 3; ++axis) {
    size[axis] =
        view.strides[axis] == 0 ? std::min<std::int64_t>(view.shape[axis], 1) : view.shape[axis];
  }
  for (std::int64_t b = 0; b < size[0]; ++b) {
    for (std::int64_t h = 0; h < size[1]; ++h) {
      for (std::int64_t r = 0; r < size[2]; ++r) {
        visit(b * view.strides[0] + h * view.strides[1] + r * view.strides[2]);
      }
    }
  }
}

}  // namespace

void GlobalMemory::add(const std::string& name, const Tensor& view, std::size_t element_bytes,
                       TensorRole role) {
  std::int64_t last = 0;
  for (int axis = 0; axis < 4; ++axis) {
    if (view.shape[axis] == 0) return;
    last += (view.shape[axis] - 1) * view.strides[axis];
  }
  Region region{
      fmt::format("{} [{}]", name, fmt::join(view.shape, ", ")),
      static_cast<const std::byte*>(view.data), role == TensorRole::kReused,
      std::vector<std::uint8_t>(static_cast<std::size_t>(last + 1) * element_bytes, kGap)};
  const Byte mark = role == TensorRole::kInput      ? kInput
                    : role == TensorRole::kReplaced ? kWritten
                                                    : kUnwritten;
  const std::int64_t columns = view.strides[3] == 0 ? 1 : view.shape[3];
  for_each_row(view, [&](std::int64_t offset) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto element = static_cast<std::size_t>(offset + c * view.strides[3]);
      std::fill_n(region.bytes.begin() + static_cast<std::ptrdiff_t>(element * element_bytes),
                  element_bytes, mark);
    }
  });
  regions_.push_back(std::move(region));
}

void GlobalMemory::begin_kernel(bool overlaps) {
  for (Region& region : regions_) {
    std::ranges::replace(region.bytes, kWrittenNow, kWrittenAhead);
    if (!overlaps) std::ranges::replace(region.bytes, kWrittenAhead, kWritten);
  }
}

void GlobalMemory::access(const void* address, unsigned bytes, GlobalAccess access, bool waited) {
  const auto* const first = static_cast<const std::byte*>(address);
  Region& region = find(first, bytes, verb_of(access));
  const auto offset = static_cast<std::size_t>(first - region.begin);
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    throw Violation(fmt::format("{} {} bytes at byte {} of {}: not aligned to its size",
                                verb_of(access), bytes, offset, region.name));
  }
  for (std::size_t i = offset; i < offset + bytes; ++i) {
    if (region.bytes[i] == kGap) {
      throw Violation(fmt::format("{} {} bytes at byte {} of {}: byte {} lies between its rows",
                                  verb_of(access), bytes, offset, region.name, i));
    }
    switch (access) {
      case GlobalAccess::kRead:
      case GlobalAccess::kReadConst:
        read_byte(region, i, access == GlobalAccess::kReadConst, waited);
        break;
      case GlobalAccess::kWrite:
        write_byte(region, i, waited);
        break;
      case GlobalAccess::kAdd:
        add_to_byte(region, i, waited);
        break;
    }
  }
}

GlobalMemory::Region& GlobalMemory::find(const std::byte* address, unsigned bytes,
                                         const char* verb) {
  Region* found = nullptr;
  for (Region& region : regions_) {
    if (address < region.begin || region.end() < address + bytes) continue;
    // A tensor may lie between the rows of another, as packed q, k and v do.
    if (found == nullptr || load(region.bytes[address - region.begin]) != kGap) found = &region;
  }
  if (found == nullptr) throw Violation(describe_miss(address, bytes, verb));
  return *found;
}

// An access that no tensor contains, told by the tensor that is closest.
std::string GlobalMemory::describe_miss(const std::byte* address, unsigned bytes,
                                        const char* verb) const {
  std::ptrdiff_t closest = 1 << 20;  // further away, the address itself says more
  std::string where = fmt::format(" at {}, which belongs to no tensor of the launch",
                                  static_cast<const void*>(address));
  for (const Region& region : regions_) {
    const std::ptrdiff_t past = address - region.end();
    const std::ptrdiff_t before = region.begin - address;
    if (past >= 0 && past < closest) {
      closest = past;
      where = fmt::format(", the first {} bytes past the end of {}", past, region.name);
    } else if (before > 0 && before < closest) {
      closest = before;
      where = fmt::format(", the first {} bytes before the start of {}", before, region.name);
    } else if (past < 0 && before <= 0) {
      closest = 0;
      where =
          fmt::format(" at byte {} of {}, which ends {} bytes later", -before, region.name, -past);
    }
  }
  return fmt::format("{} {} bytes{}", verb, bytes, where);
}

void GlobalMemory::check_order(const Region& region, std::size_t index, std::uint8_t state,
                               const char* verb, bool waited) const {
  if (state != kWrittenAhead || waited) return;
  throw Violation(
      fmt::format("{} byte {} of {}, which the kernel ahead may still write: "
                  "wait_for_previous_kernel is missing",
                  verb, index, region.name));
}

void GlobalMemory::read_byte(const Region& region, std::size_t index, bool read_only,
                             bool waited) const {
  const std::uint8_t state = load(region.bytes[index]);
  if (state == kUnwritten) {
    throw Violation(
        fmt::format("reads byte {} of {}, which was never written", index, region.name));
  }
  check_order(region, index, state, "reads", waited);
  if (read_only && (state == kWrittenNow || state == kWrittenAhead)) {
    throw Violation(fmt::format(
        "reads byte {} of {} through the read-only cache, although {} writes it", index,
        region.name, state == kWrittenNow ? "this kernel" : "a kernel that this one overlaps"));
  }
}

void GlobalMemory::write_byte(Region& region, std::size_t index, bool waited) const {
  const std::uint8_t before = load(region.bytes[index]);
  if (before == kInput) {
    throw Violation(fmt::format("writes byte {} of {}, an input", index, region.name));
  }
  check_order(region, index, before, "writes", waited);
  if (exchange(region.bytes[index], kWrittenNow) == kWrittenNow && !region.reused) {
    throw Violation(fmt::format("writes byte {} of {}, which this kernel has written already",
                                index, region.name));
  }
}

void GlobalMemory::add_to_byte(Region& region, std::size_t index, bool waited) const {
  const std::uint8_t before = load(region.bytes[index]);
  if (before == kInput) {
    throw Violation(fmt::format("adds to byte {} of {}, an input", index, region.name));
  }
  if (before == kUnwritten) {
    throw Violation(
        fmt::format("adds to byte {} of {}, which was never set to zero", index, region.name));
  }
  check_order(region, index, before, "adds to", waited);
  exchange(region.bytes[index], kWrittenNow);
}

}  // namespace attnjit::executor
