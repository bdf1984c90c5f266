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

/// A thread's part of an asynchronous product of a warpgroup, as ptx/wgmma.cuh describes it.
struct MatrixProduct {
  float* c;           ///< columns / 2 sums
  int columns;        ///< of the product
  const unsigned* a;  ///< 4 words; null: a_tile holds them
  unsigned long long a_tile;
  unsigned long long b_tile;
  bool adds;              ///< to c
  bool bfloat16;          ///< the elements; otherwise float16
  bool columns_in_lines;  ///< of b's tile; otherwise the depth
};

/// `function` is the name of the primitive, for reports. A call that breaks a rule does not return.
struct Services {
  int (*thread_index)();
  unsigned (*block_index)();

  void (*access_global)(const void* address, unsigned bytes, GlobalAccess access,
                        const char* function);
  void (*load_shared)(unsigned address, void* to, unsigned bytes, Reader reader,
                      const char* function);
  void (*store_shared)(unsigned address, const void* from, unsigned bytes, const char* function);
  /// Adds to a word, whole as seen by other threads, and returns what it was before.
  unsigned (*add_shared)(unsigned address, unsigned value, const char* function);

  void (*copy_async)(unsigned shared, const void* global, unsigned bytes, bool valid,
                     const char* function);
  void (*copy_async_commit)();
  void (*copy_async_wait)(int pending);

  void (*warp_collective)(const char* function, void* lane, Operate operate);
  void (*warp_barrier)(const char* function);  ///< orders accesses to memory
  void (*block_barrier)(const char* function, void* thread, Operate operate);
  void (*named_barrier)(int barrier, int threads, bool waits, const char* function);
  void (*wait_for_previous_kernel)();
  /// Lets other thread blocks go ahead. A thread calls it as long as it waits for what they count,
  /// and when it has just taken a number of its own.
  void (*let_blocks_ahead)(const char* function);

  void (*barrier_init)(unsigned barrier, int arrivals);
  void (*barrier_init_fence)();
  void (*barrier_arrive)(unsigned barrier, int expected_bytes, const char* function);
  void (*barrier_wait)(unsigned barrier, unsigned parity);

  void (*tensor_load)(unsigned shared, const void* map, unsigned barrier, const int* start,
                      int axes);
  void (*tensor_prefetch)(const void* map, int axes);
  void (*tensor_store)(const void* map, unsigned shared, const int* start, int axes);
  void (*tensor_store_commit)();
  void (*tensor_store_wait_read)(int pending);
  void (*tensor_store_wait)(int pending);
  void (*bulk_load)(unsigned shared, const void* global, unsigned bytes, unsigned barrier);
  void (*bulk_store)(void* global, unsigned shared, unsigned bytes);
  void (*bulk_add)(void* global, unsigned shared, unsigned bytes);
  void (*fence_async_proxy)();

  void (*wgmma_fence)();
  void (*multiply_async)(const MatrixProduct& product);
  void (*wgmma_commit)();
  void (*wgmma_wait)(int pending);
  void (*give_registers)(int count);
  void (*take_registers)(int count);

  float (*widen_float16)(unsigned short bits);
  unsigned short (*round_to_float16)(float value);
};

}  // namespace attnjit::executor
