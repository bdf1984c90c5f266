#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "launch/plan.hpp"

namespace attnjit::runtime {

/// The calls that a process has made of a pass, one of each shape, and what was worked out for
/// them: the next of the same shape in the same context starts from there. Keeps the first that
/// come, for as long as it lives, in memory of its own: nothing is allocated, no thread waits.
/// Thread-safe.
template <class Pass>
class CallTable {
 public:
  struct Call {
    unsigned long long context_id;
    typename Pass::Args args;  ///< for its shape: other calls have other addresses
    typename Pass::Problem problem;
    const launch::Plan<Pass>* plan;
    typename Pass::Layout layout;
    typename Pass::Kept kept;
    /// The memory that the args of a kept call point to in place of the caller's: operands, whose
    /// names are those of the expressions' texts.
    std::array<Operand, expr::kMaxOperands> operands;
    std::array<Tensor, Pass::kGradients ? expr::kMaxOperands : 0> operand_gradients;  ///< the same
  };

  /// The call that has the shape of `args`, or null.
  const Call* find(unsigned long long context_id, const typename Pass::Args& args) const;

  /// Whether keep() would find a place for it.
  bool has_place(unsigned long long context_id, const typename Pass::Args& args) const;

  /// Keeps `call` if there is a place.
  void keep(const Call& call);

  static constexpr std::size_t kPlaces = 256;

 private:
  static_assert(std::is_trivially_destructible_v<Call>);
  struct alignas(Call) Place {
    std::byte bytes[sizeof(Call)];
  };
  // What a place holds, by its tag: nothing, nothing yet, or a call of that hash.
  static constexpr std::uint64_t kFree = 0, kTaken = 1;

  static std::uint64_t tag_of(unsigned long long context_id, const typename Pass::Args& args);
  static std::size_t place_of(std::uint64_t tag, std::size_t turn) {
    return (tag + turn) % kPlaces;
  }
  const Call& at(std::size_t place) const;

  static constexpr std::size_t kTurns = 4;  // places that a call may have
  std::array<std::atomic<std::uint64_t>, kPlaces> tags_{};
  // Pages of memory that no call was written to are none of the process's.
  std::unique_ptr<Place[]> places_ = std::make_unique_for_overwrite<Place[]>(kPlaces);
};

}  // namespace attnjit::runtime
