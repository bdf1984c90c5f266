#pragma once
#include <optional>

#include "executor/executor.hpp"
#include "executor/tensors.hpp"

namespace attnjit::executor {

/// Makes calls take a prepared mask in the place of theirs, and keeps its memory.
class PreparedCall {
 public:
  /// Both must outlive it; `templates` are those of the executor.
  PreparedCall(Executor& executor, const codegen::TemplateSet& templates)
      : executor_(executor), templates_(templates) {}

  /// Prepares the mask of `args`, by the kernel that does, and takes it out. Throws Violation as
  /// the executor does.
  void prepare(ForwardArgs& args, bool for_backward);

 private:
  Executor& executor_;
  const codegen::TemplateSet& templates_;
  std::optional<Scratch> memory_;
};

}  // namespace attnjit::executor
