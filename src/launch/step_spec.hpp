#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "codegen/source.hpp"

namespace attnjit::launch {

/// One kernel of a plan, before it is compiled.
struct StepSpec {
  codegen::Source source;
  unsigned threads = 0;       ///< per block
  unsigned shared_bytes = 0;  ///< dynamic shared memory per block
  unsigned min_blocks = 1;    ///< per SM, which limit the registers of a thread
  bool overlaps = false;      ///< begins before the step ahead of it has ended, and waits itself
  bool wgmma = false;         ///< multiplies by it, which a compiler may serialise
};

/// `config` tells the threads of the kernel.
template <class Config>
StepSpec make_step(codegen::Source source, const Config& config, int shared_bytes) {
  StepSpec step{std::move(source), static_cast<unsigned>(config.num_threads()),
                static_cast<unsigned>(shared_bytes)};
  if constexpr (requires { config.min_blocks; }) {
    step.min_blocks = static_cast<unsigned>(config.min_blocks);
  }
  return step;
}

/// The kernels of a plan in the order in which they run, of each `Kind` one at most.
template <class Kind>
class Steps {
 public:
  struct Step : StepSpec {
    Kind kind;
  };

  /// Adds a step behind the others; `overlaps`: see StepSpec.
  template <class Config>
  Step& add(Kind kind, codegen::Source source, const Config& config, int shared_bytes,
            bool overlaps = false) {
    places_[static_cast<std::size_t>(kind)] = list_.size();
    kinds_[list_.size()] = kind;
    list_.push_back({make_step(std::move(source), config, shared_bytes), kind});
    list_.back().overlaps = overlaps;
    return list_.back();
  }
  /// The place of the step of that kind, or size().
  std::size_t find(Kind kind) const {
    return std::min(places_[static_cast<std::size_t>(kind)], list_.size());
  }
  Kind kind(std::size_t place) const { return kinds_[place]; }
  std::size_t size() const { return list_.size(); }
  const Step& front() const { return list_.front(); }
  const Step& operator[](std::size_t index) const { return list_[index]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  static constexpr std::size_t kMost = 24;

  std::vector<Step> list_;
  // Beside the list: each call asks, and steps hold their sources.
  std::array<std::size_t, kMost> places_ = absent();
  std::array<Kind, kMost> kinds_{};

  static constexpr std::array<std::size_t, kMost> absent() {
    std::array<std::size_t, kMost> places{};
    places.fill(~std::size_t{0});
    return places;
  }
};

}  // namespace attnjit::launch
