#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "attnjit/backward.hpp"
#include "attnjit/export.h"
#include "attnjit/expression.hpp"
#include "attnjit/forward.hpp"
#include "attnjit/merge_lse.hpp"

struct CUstream_st;

namespace attnjit::runtime {
class Dispatcher;
}

namespace attnjit::inline ATTNJIT_CPP_VERSION {

/// A CUDA stream: CUstream of the driver API and cudaStream_t of the runtime are the same pointer.
using Stream = CUstream_st*;

/// Device memory that a call may scribble on. Empty: the call takes its own from the stream-ordered
/// allocator. Two calls that may overlap in time need two workspaces.
struct Workspace {
  void* data = nullptr;   ///< aligned to 256 bytes
  std::size_t bytes = 0;  ///< at least what the call's workspace_size function says
};

/// What a context did so far.
struct Counters {
  std::uint64_t plans = 0;            ///< plans made; a call that needs no new one is a look-up
  std::uint64_t compiles = 0;         ///< kernels that NVRTC compiled
  std::uint64_t disk_hits = 0;        ///< kernels read from the cache directory
  std::uint64_t corrupt = 0;          ///< damaged cache files and members of bundles, ignored
  std::uint64_t write_failures = 0;   ///< kernels that could not be kept on disk
  std::uint64_t tunes = 0;            ///< problems that were tuned
  std::uint64_t timing_launches = 0;  ///< launches for their time; 0 under DISABLE_AUTOTUNE
  std::uint64_t record_hits = 0;      ///< plans whose configuration came from a kept tuning record
  std::uint64_t memory_hits = 0;      ///< kernels that this process had already
  std::uint64_t bundle_hits = 0;      ///< kernels read from a bundle
  std::uint64_t lock_timeouts = 0;    ///< kernels that another process was given up on building
};

/// Settings that take the place of environment variables of the same name
/// (docs/reference/environment.md lists them); an empty one is none, as there.
struct ContextOptions {
  std::optional<std::string> cache_directory;  ///< ATTNJIT_CACHE_DIR; "0" keeps kernels in memory
  std::optional<std::string> nvrtc_path;       ///< ATTNJIT_NVRTC
  /// Receives warnings and notes, in their order and one call at a time; stderr without it. A line
  /// comes before the call that caused it returns, or, while another thread is in this function,
  /// from that thread. It may call the context and wait for threads that do; a line that it causes
  /// on its own thread is dropped, and what it throws is ignored.
  std::function<void(std::string_view message)> log;
};

/// Everything that attention calls share: compiler, cache and plans. Thread-safe; one per process
/// is enough. Calls run in the CUDA context that is current on the calling thread, which the
/// caller provides (the primary context that the CUDA runtime and PyTorch use, for instance).
/// Destroy it before the CUDA context; captured graphs must not outlive it.
class ATTNJIT_EXPORT Context {
 public:
  /// Reads the environment. Loads neither libcuda nor NVRTC. Throws Error(kInvalidEnvironment).
  Context();
  /// As Context(), with settings that take the place of variables of the environment.
  explicit Context(const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Enqueues one attention forward on `stream`. The first call of a kind specialises, compiles
  /// and loads its kernels, while calls of the same kind on other threads wait; later ones look
  /// them up, without a lock. Throws Error before anything is enqueued. Only the first call of a
  /// kind asks the driver whether the addresses are device memory; shapes, strides and the rest
  /// are checked in every call.
  void forward(const ForwardArgs& args, Stream stream = nullptr, Workspace workspace = {});

  /// Does all that a first forward() would do but the launch, tuning and the check of addresses
  /// included. Prepare a call before it is captured in a CUDA graph: captures tune nothing.
  void prepare_forward(const ForwardArgs& args);

  /// Bytes of workspace that suffice for forward() with these arguments; 0 for most problems. Tunes
  /// nothing: until the problem is tuned, what suffices for each configuration that may win.
  std::size_t forward_workspace_size(const ForwardArgs& args);

  /// Enqueues the gradients of one attention call on `stream`; otherwise as forward(). It needs the
  /// out and lse that forward() wrote.
  void backward(const BackwardArgs& args, Stream stream = nullptr, Workspace workspace = {});

  /// As prepare_forward().
  void prepare_backward(const BackwardArgs& args);

  /// As forward_workspace_size(), for backward(). Linear in the sizes of the
  /// tensors: fp32 sums for dq, at times for dk and dv, and for a dbias that adds up planes.
  std::size_t backward_workspace_size(const BackwardArgs& args);

  /// Enqueues the merge of partial results on `stream`. It needs no workspace, and its kernel, one
  /// per dtypes and Dv, is not tuned; otherwise as forward().
  void merge_lse(const MergeLseArgs& args, Stream stream = nullptr);

  /// Bytes that a prepared mask takes: about an eighth of the mask's elements, twice that for a
  /// backward. Of `args` the shape, strides and for_backward are read.
  std::size_t prepared_mask_size(const PrepareMaskArgs& args) const;

  /// Enqueues on `stream` the preparation of a mask that many calls share, and tells what it will
  /// be: ForwardArgs::prepared_mask of calls on the stream, or after it. The mask may change once
  /// it is done; prepared memory is written in place by a call like this one alone, which a graph
  /// may capture. Its kernel is not tuned; otherwise as forward(). Throws Error(kInvalidProblem)
  /// for a mask that does not differ over keys, which has no prepared form.
  PreparedMask prepare_mask(const PrepareMaskArgs& args, Stream stream = nullptr);

  /// The handle of a text in the language of docs/reference/expressions.md, for
  /// ForwardArgs::score or keep. Make it once: a call then compares a pointer. Throws
  /// Error(kInvalidProblem) for what is no token of the language; names and types are checked in
  /// the first call, where operands are known.
  Expression expression(std::string_view text) const;

  /// Why a call takes as long as it does, without running it: one JSON object with the lines that
  /// `attnjit explain` prints ("lines") and their numbers, as docs/guide/explain.md says. Of the
  /// current context's device, or else of an H200. Reads no tensor, and of addresses whether they
  /// are null and how they are aligned. Throws Error as forward() does of a call that is none.
  std::string explain(const ForwardArgs& args);
  std::string explain(const BackwardArgs& args);  ///< the same of a backward

  /// Counts of this context so far; may be asked for while other threads call.
  Counters counters() const;

 private:
  std::unique_ptr<runtime::Dispatcher> dispatcher_;
};

}  // namespace attnjit::inline ATTNJIT_CPP_VERSION
