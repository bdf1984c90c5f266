#pragma once
#include <array>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "executor/global_memory.hpp"
#include "executor/mbarriers.hpp"
#include "executor/shared_memory.hpp"
#include "executor/tensor_map.hpp"

namespace attnjit::executor {

/// The copies of the copy engine that a block has under way: of boxes of tensors, and of bytes that
/// follow one another. A load is done when nothing else can go on; a store has read shared memory
/// when its thread waits for that, and changes global memory when its thread waits for that, or
/// when the block ends: as late as can be. Global memory is checked where they start. The functions
/// throw Violation for a box that does not fit its map or its place.
class TensorCopies {
 public:
  TensorCopies(Mbarriers& barriers, SharedMemory& shared, GlobalMemory& memory, int threads)
      : barriers_(barriers), shared_(shared), memory_(memory), stores_(threads) {}

  /// For a new thread block.
  void reset();

  /// `thread` starts a load to `shared` of the box at `start`, innermost axis first. `waited`: it
  /// has waited for earlier kernels.
  void load(int thread, unsigned shared, const void* map, unsigned barrier,
            std::span<const int> start, bool waited);
  void load_bytes(int thread, unsigned shared, const void* global, unsigned bytes, unsigned barrier,
                  bool waited);
  /// Does the oldest load; false where there is none.
  bool land();

  void store(int thread, const void* map, unsigned shared, std::span<const int> start, bool waited);
  /// `thread` starts to write bytes to global memory, or to add floats there.
  void store_bytes(int thread, void* global, unsigned shared, unsigned bytes, bool waited);
  void add_floats(int thread, void* global, unsigned shared, unsigned bytes, bool waited);
  void commit(int thread);
  /// Has the stores of `thread` read shared memory until at most `pending` groups are left.
  void wait_read(int thread, int pending);
  /// Does the stores of `thread` until at most `pending` groups are left.
  void wait(int thread, int pending);

  /// Does the stores that have read shared memory when all threads have ended. Throws for what else
  /// is under way.
  void finish();

 private:
  struct Box {
    TensorDescription tensor;
    std::array<int, TensorDescription::kMaxRank> start;
    unsigned shared;
    bool adds = false;  // floats, instead of writing bytes
  };
  struct Load {
    Box box;
    unsigned barrier;
    int thread;
  };
  /// Bytes that a store changes in global memory.
  struct Change {
    std::byte* to;
    std::vector<std::byte> data;
    bool adds;  // floats
  };
  struct Stores {
    std::vector<Box> open;                 // of no group yet
    std::deque<std::vector<Box>> groups;   // oldest first, younger than those that
    std::deque<std::vector<Change>> read;  // have read shared memory
  };

  static Box make_box(const void* map, unsigned shared, std::span<const int> start);
  static Box make_bytes(const void* global, unsigned shared, unsigned bytes);
  void start_load(const Box& box, unsigned barrier, int thread, bool waited);
  std::vector<Change> read_stored(const std::vector<Box>& group, int thread);
  void start_store(const Box& box, int thread, GlobalAccess access, bool waited);
  void check_global(const Box& box, GlobalAccess access, bool waited);

  Mbarriers& barriers_;
  SharedMemory& shared_;
  GlobalMemory& memory_;
  std::deque<Load> loads_;
  std::vector<Stores> stores_;  // of each thread
};

}  // namespace attnjit::executor
