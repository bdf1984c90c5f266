#pragma once
#include <algorithm>
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
  bool overlaps = false;      ///< begins before the step ahead of it has ended, and waits itself
};

/// `config` tells the threads of the kernel.
template <class Config>
StepSpec make_step(codegen::Source source, const Config& config, int shared_bytes) {
  return {std::move(source), static_cast<unsigned>(config.num_threads()),
          static_cast<unsigned>(shared_bytes)};
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
  void add(Kind kind, codegen::Source source, const Config& config, int shared_bytes,
           bool overlaps = false) {
    list_.push_back({make_step(std::move(source), config, shared_bytes), kind});
    list_.back().overlaps = overlaps;
  }
  /// The place of the step of that kind, or size().
  std::size_t find(Kind kind) const {
    return static_cast<std::size_t>(std::ranges::find(list_, kind, &Step::kind) - list_.begin());
  }
  std::size_t size() const { return list_.size(); }
  const Step& front() const { return list_.front(); }
  const Step& operator[](std::size_t index) const { return list_[index]; }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

 private:
  std::vector<Step> list_;
};

}  // namespace attnjit::launch
