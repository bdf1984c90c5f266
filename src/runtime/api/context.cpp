#include "attnjit/context.hpp"

#include <utility>

#include "base/json.hpp"
#include "runtime/call/dispatcher.hpp"
#include "runtime/explain/explainer.hpp"

namespace attnjit {
namespace {

base::Environment environment_with(const ContextOptions& options) {
  base::Environment environment = base::process_environment();
  if (options.cache_directory && !options.cache_directory->empty()) {
    environment.cache_directory.reset();
    environment.cache_trouble.reset();
    if (*options.cache_directory != "0") {
      environment.cache_directory =
          base::absolute_path("cache_directory", *options.cache_directory);
    }
  }
  if (options.nvrtc_path && !options.nvrtc_path->empty())
    environment.nvrtc_path = *options.nvrtc_path;
  return environment;
}

base::Log::Sink sink_of(const ContextOptions& options) {
  if (!options.log) return {};
  return [log = options.log](base::LogLevel, std::string_view message) { log(message); };
}

template <class Args>
std::string explained(runtime::Dispatcher& dispatcher, const Args& args) {
  const base::Log::Delivery delivery(dispatcher.engine().log());
  const std::optional<cuda::DeviceInfo> device = dispatcher.find_device();
  runtime::Explainer explainer(dispatcher.engine(), device);
  const explain::Explanation explanation = explainer.explain(args, {});
  base::Json json = explain::to_json(explanation);
  json["lines"] = explain::lines(explanation);
  return base::dump_json(json);
}

}  // namespace

Context::Context() : Context(ContextOptions{}) {}
Context::Context(const ContextOptions& options)
    : dispatcher_(
          std::make_unique<runtime::Dispatcher>(environment_with(options), sink_of(options))) {
  dispatcher_->defer_log();
}
Context::~Context() = default;

void Context::forward(const ForwardArgs& args, Stream stream, Workspace workspace) {
  dispatcher_->forward(args, stream, workspace);
}
void Context::prepare_forward(const ForwardArgs& args) { dispatcher_->prepare_forward(args); }
std::size_t Context::forward_workspace_size(const ForwardArgs& args) {
  return dispatcher_->forward_workspace_size(args);
}
void Context::backward(const BackwardArgs& args, Stream stream, Workspace workspace) {
  dispatcher_->backward(args, stream, workspace);
}
void Context::prepare_backward(const BackwardArgs& args) { dispatcher_->prepare_backward(args); }
std::size_t Context::backward_workspace_size(const BackwardArgs& args) {
  return dispatcher_->backward_workspace_size(args);
}
void Context::merge_lse(const MergeLseArgs& args, Stream stream) {
  dispatcher_->merge_lse(args, stream);
}

std::size_t Context::prepared_mask_size(const PrepareMaskArgs& args) const {
  return dispatcher_->prepared_mask_size(args);
}
PreparedMask Context::prepare_mask(const PrepareMaskArgs& args, Stream stream) {
  return dispatcher_->prepare_mask(args, stream);
}

Expression Context::expression(std::string_view text) const { return expr::expression(text); }

std::string Context::explain(const ForwardArgs& args) { return explained(*dispatcher_, args); }
std::string Context::explain(const BackwardArgs& args) { return explained(*dispatcher_, args); }

Counters Context::counters() const { return dispatcher_->counters(); }

}  // namespace attnjit
