#include "executor/residents.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "executor/violation.hpp"

namespace attnjit::executor {

Residents::Residents(const Launch& launch, GlobalMemory& memory, std::atomic<unsigned>& next,
                     int most)
    : launch_(launch), memory_(memory), next_(next), residents_(most) {}

bool Residents::go_on(bool alone) {
  if (Resident* const another = begin_another()) {
    advance(*another);
    return true;
  }
  bool any = false, moved = false;
  const int count = static_cast<int>(residents_.size());
  for (int i = 0; i < count; ++i) {
    Resident& resident = residents_[backwards_ ? count - 1 - i : i];
    if (!resident.at_work) continue;
    any = true;
    moved |= advance(resident);
  }
  backwards_ = !backwards_;
  if (any && !moved && alone) {
    throw Violation(fmt::format(
        "{}: deadlock; thread blocks wait for counts that no block increments", launch_.entry));
  }
  if (!moved) sched_yield();
  return any;
}

bool Residents::advance(Resident& resident) {
  const ThreadBlock::Progress progress = resident.block->go_on();
  resident.at_work = progress != ThreadBlock::Progress::kEnded;
  return progress != ThreadBlock::Progress::kWaits;
}

Residents::Resident* Residents::begin_another() {
  const auto room = std::ranges::find(residents_, false, &Resident::at_work);
  // Asks first, for rounds in which all wait would count on and on.
  if (room == residents_.end() || next_ >= launch_.blocks) return nullptr;
  const unsigned index = next_++;
  if (index >= launch_.blocks) return nullptr;
  if (!room->block) room->block = std::make_unique<ThreadBlock>(launch_, memory_);
  room->block->begin(index);
  room->at_work = true;
  return &*room;
}

}  // namespace attnjit::executor
