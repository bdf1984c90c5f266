#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>

#include "attnjit/context.hpp"
#include "base/per_process.hpp"
#include "cuda/device.hpp"
#include "runtime/call/call_dumper.hpp"
#include "runtime/call/call_table.hpp"
#include "runtime/call/plan_maker.hpp"
#include "runtime/call/plan_table.hpp"
#include "runtime/load/engine.hpp"

namespace attnjit::runtime {

/// The work of a Context: validates a call, finds its plan or makes one, and launches it.
/// A call that has its plan takes no lock, allocates no host memory and asks the system for
/// nothing; it costs the caller what the driver's launch costs and little more.
class Dispatcher {
 public:
  /// Launches through `driver`, or else through the machine's, which the first call loads; tunes
  /// over `spaces`; takes only `path`, as Engine does.
  explicit Dispatcher(base::Environment environment, base::Log::Sink sink = {},
                      std::shared_ptr<const cuda::Driver> driver = nullptr,
                      Engine::Spaces spaces = {}, std::optional<codegen::Path> path = {});

  /// Waits for a sink that is called from another thread: it may be calling the dispatcher.
  ~Dispatcher() { engine_.watch().stop(); }

  /// Has lines for the sink wait until a call that logged them is about to return, or is a long
  /// compile: then the sink may call the dispatcher. To be called before anything else.
  void defer_log() { engine_.log().defer(); }

  /// As the functions of Context of the same names.
  void forward(const ForwardArgs& args, Stream stream, const Workspace& workspace = {});
  void prepare_forward(const ForwardArgs& args);
  std::size_t forward_workspace_size(const ForwardArgs& args);
  void backward(const BackwardArgs& args, Stream stream, const Workspace& workspace = {});
  void prepare_backward(const BackwardArgs& args);
  std::size_t backward_workspace_size(const BackwardArgs& args);
  void merge_lse(const MergeLseArgs& args, Stream stream);
  std::size_t prepared_mask_size(const PrepareMaskArgs& args) const;
  PreparedMask prepare_mask(const PrepareMaskArgs& args, Stream stream);
  Counters counters() const;

  Engine& engine() { return engine_; }
  /// The device of the current context; nullopt without a driver, a GPU or a current context.
  std::optional<cuda::DeviceInfo> find_device();

 private:
  const cuda::Driver& driver();
  const cuda::Driver& own_driver();
  const cuda::Driver& load_driver();

  template <class Pass>
  void run(BasicPlanTable<Pass>& plans, CallTable<Pass>& calls, const typename Pass::Args& args,
           Stream stream, const Workspace& workspace);
  template <class Pass>
  void launch(const launch::Plan<Pass>& plan, const typename Pass::Problem& problem,
              const typename Pass::Args& args, const typename Pass::Layout& layout, Stream stream,
              const Workspace& workspace, const typename Pass::Kept& kept);
  template <class Pass>
  void run_untuned(BasicPlanTable<Pass>& plans, const typename Pass::Problem& problem,
                   const typename Pass::Args& args, Stream stream);
  template <class Pass>
  void prepare(BasicPlanTable<Pass>& plans, const typename Pass::Args& args);
  template <class Pass>
  std::size_t workspace_size(BasicPlanTable<Pass>& plans, const typename Pass::Args& args);
  template <class Pass>
  const launch::Plan<Pass>& find_plan(BasicPlanTable<Pass>& plans,
                                      const typename Pass::Problem& problem,
                                      const typename Pass::Args& args,
                                      std::initializer_list<Stream> streams);

  const bool named_;  // launches, for a profiler that listens
  Engine engine_;
  PlanMaker plan_maker_;
  CallDumper dumper_;
  struct Loaded {
    std::mutex mutex;
    std::shared_ptr<const cuda::Driver> driver;  // guarded by `mutex`
  };
  base::PerProcess<Loaded> loaded_;
  std::atomic<const cuda::Driver*> driver_ = nullptr;  // set once, to what `loaded_` holds
  PlanTable forward_plans_;
  BackwardPlanTable backward_plans_;
  CallTable<launch::ForwardPass> forward_calls_;
  CallTable<launch::BackwardPass> backward_calls_;
  MergePlanTable merge_plans_;
  MaskPlanTable mask_plans_;
};

}  // namespace attnjit::runtime
