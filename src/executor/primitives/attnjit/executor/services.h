#pragma once
// The interface between src/executor and the primitives in this folder, which a host compiler
// builds into each kernel. Includes nothing, for it becomes part of the flattened source.
namespace attnjit::executor {

/// The kinds of access to global memory.
enum class GlobalAccess : int {
  kRead,       ///< sees what this kernel or an earlier one has written
  kReadConst,  ///< through the read-only cache: never what this kernel writes
  kWrite,
  kAdd,  ///< an atomic addition
};

/// The receivers of a read from shared memory: the thread that reads, or its whole warp.
enum class Reader : int { kThread, kWarp };

/// Does the work of a collective operation once all its members have arrived. members[i] is what
/// member i passed.
using Operate = void (*)(void* const* members, int count);

/// `function` is the name of the primitive, for reports. A call that breaks a rule does not return.
struct Services {
  int (*thread_index)();
  unsigned (*block_index)();

  void (*access_global)(const void* address, unsigned bytes, GlobalAccess access,
                        const char* function);
  void (*load_shared)(unsigned address, void* to, unsigned bytes, Reader reader,
                      const char* function);
  void (*store_shared)(unsigned address, const void* from, unsigned bytes, const char* function);

  void (*copy_async)(unsigned shared, const void* global, unsigned bytes, bool valid,
                     const char* function);
  void (*copy_async_commit)();
  void (*copy_async_wait)(int pending);

  void (*warp_collective)(const char* function, void* lane, Operate operate);
  void (*block_barrier)(const char* function, void* thread, Operate operate);
  void (*wait_for_previous_kernel)();

  float (*widen_float16)(unsigned short bits);
  unsigned short (*round_to_float16)(float value);
};

}  // namespace attnjit::executor
