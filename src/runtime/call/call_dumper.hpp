#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launch/plan.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::runtime {

/// ATTNJIT_DUMP_CALLS: keeps the first calls of a context whole, in files that attnjit replay runs.
/// Each is on disk before it is launched, and its results once it has returned, so that the call
/// waits for the device. Thread-safe.
class CallDumper {
 public:
  /// `engine` must outlive it.
  explicit CallDumper(Engine& engine);

  /// Whether calls are to go through run(): the one branch that it costs to keep none.
  bool active() const { return active_.load(std::memory_order_relaxed); }

  /// Calls launch(), with the call written before and its results after it. Of a call whose stream
  /// is captured, one beyond the limits and one that cannot be written it says so once. What keeps
  /// a call from being kept is logged, never thrown.
  template <class Pass>
  void run(const cuda::Driver& driver, const launch::Plan<Pass>& plan,
           const typename Pass::Problem& problem, const typename Pass::Args& args, CUstream stream,
           bool captured, const std::function<void()>& launch);

  /// Bytes that a context keeps at most.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;

 private:
  std::optional<std::int64_t> take_number();
  bool take_bytes(std::uint64_t bytes);
  void warn(const char* key, const std::string& message);

  Engine& engine_;
  const std::optional<base::CallDumps> dumps_;
  std::atomic<bool> active_ = false;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace attnjit::runtime
