#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "attnjit/context.hpp"
#include "launch/forward_plan.hpp"
#include "runtime/engine.hpp"
#include "runtime/plan_maker.hpp"

namespace attnjit::runtime {

/// What a Context does with a call: validates it, finds its plan or makes one, and launches it.
class Dispatcher {
 public:
  /// Launches through `driver`, or else through the machine's, which the first call loads.
  explicit Dispatcher(base::Environment environment, base::Log::Sink sink = {},
                      std::shared_ptr<const cuda::Driver> driver = nullptr);

  /// As the functions of Context of the same names.
  void forward(const ForwardArgs& args, Stream stream, const Workspace& workspace);
  void prepare_forward(const ForwardArgs& args);
  std::size_t forward_workspace_size(const ForwardArgs& args);
  Counters counters() const;

 private:
  // Plans belong to the CUDA context that they were loaded into.
  using Key = std::pair<unsigned long long, problem::PlanKey>;

  const cuda::Driver& driver();
  const launch::ForwardPlan& find_plan(const problem::Problem& problem,
                                       std::optional<Stream> stream = {});
  void check_addresses(const ForwardArgs& args);

  Engine engine_;
  PlanMaker plan_maker_;
  std::once_flag driver_once_;
  std::shared_ptr<const cuda::Driver> driver_;
  std::shared_mutex plans_mutex_;
  std::map<Key, std::unique_ptr<launch::ForwardPlan>> plans_;
};

}  // namespace attnjit::runtime
