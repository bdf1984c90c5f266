// ThreadBlock::services: what primitives call.
#include "attnjit/executor/services.h"

#include <fmt/format.h>

#include <span>

#include "executor/thread_block.hpp"
#include "executor/violation.hpp"
#include "tensor/half.hpp"

namespace attnjit::executor {
namespace {

// `warpgroup`, which must have all of its threads.
Meeting& whole(Meeting& warpgroup) {
  if (warpgroup.count() == MatrixProducts::kThreads) return warpgroup;
  throw Violation(
      fmt::format("wants a warpgroup of 128 threads, and this one has {}", warpgroup.count()));
}

}  // namespace

const Services& ThreadBlock::services() {
  static constexpr Services kServices = {
      .thread_index = [] { return current_->self(); },
      .block_index = [] { return current_->index_; },

      .access_global =
          [](const void* address, unsigned bytes, GlobalAccess access, const char* function) {
            ThreadBlock& block = *current_;
            block.threads_.enter(function);
            block.memory_.access(address, bytes, access, block.waited_[block.self()]);
            if (access == GlobalAccess::kWrite || access == GlobalAccess::kAdd) {
              block.threads_.note_change();
            }
          },
      .load_shared =
          [](unsigned address, void* to, unsigned bytes, Reader reader, const char* function) {
            ThreadBlock& block = *current_;
            block.threads_.enter(function);
            block.shared_.load(block.self(), address, {static_cast<std::byte*>(to), bytes}, reader);
          },
      .store_shared =
          [](unsigned address, const void* from, unsigned bytes, const char* function) {
            ThreadBlock& block = *current_;
            block.threads_.enter(function);
            block.shared_.store(block.self(), address,
                                {static_cast<const std::byte*>(from), bytes});
          },
      .add_shared =
          [](unsigned address, unsigned value, const char* function) {
            ThreadBlock& block = *current_;
            block.threads_.enter(function);
            return block.shared_.add(block.self(), address, value);
          },

      .copy_async =
          [](unsigned shared, const void* global, unsigned bytes, bool valid,
             const char* function) {
            ThreadBlock& block = *current_;
            const int self = block.self();
            block.threads_.enter(function);
            if (valid) {
              block.memory_.access(global, bytes, GlobalAccess::kRead, block.waited_[self]);
            }
            block.shared_.begin_copy(self, shared, bytes);
            block.copies_[self].add(shared, global, bytes, valid);
          },
      .copy_async_commit = [] { current_->copies_[current_->self()].commit(); },
      .copy_async_wait =
          [](int pending) {
            ThreadBlock& block = *current_;
            block.copies_[block.self()].wait(block.self(), pending, block.shared_);
          },

      .warp_collective =
          [](const char* function, void* lane, Operate operate) {
            current_->threads_.enter(function);
            current_->warp().meet(function, lane, operate);
          },
      .warp_barrier =
          [](const char* function) {
            current_->threads_.enter(function);
            Meeting& warp = current_->warp();
            warp.meet(function, nullptr, [&warp](void* const*, int count) {
              current_->clocks_.meet(warp.first(), count);
            });
          },
      .block_barrier =
          [](const char* function, void* thread, Operate operate) {
            current_->threads_.enter(function);
            current_->block_.meet(function, thread, [operate](void* const* members, int count) {
              current_->shared_.pass_barrier();
              operate(members, count);
            });
          },
      .named_barrier =
          [](int barrier, int threads, bool waits, const char* function) {
            current_->threads_.enter(function);
            current_->warp().meet(function, nullptr, [](void* const*, int) {});
            current_->named_barriers_.arrive(barrier, threads, waits);
          },
      .wait_for_previous_kernel = [] { current_->waited_[current_->self()] = true; },
      .let_blocks_ahead =
          [](const char* function) {
            current_->threads_.enter(function);
            current_->threads_.go_away();
          },

      .barrier_init =
          [](unsigned barrier, int arrivals) {
            current_->threads_.enter("barrier_init");
            current_->mbarriers_.init(barrier, arrivals);
          },
      .barrier_init_fence = [] { current_->mbarriers_.init_fence(); },
      .barrier_arrive =
          [](unsigned barrier, int expected_bytes, const char* function) {
            current_->threads_.enter(function);
            current_->mbarriers_.arrive(barrier, expected_bytes);
          },
      .barrier_wait =
          [](unsigned barrier, unsigned parity) {
            current_->threads_.enter("barrier_wait");
            current_->mbarriers_.wait(barrier, parity);
          },

      .tensor_load =
          [](unsigned shared, const void* map, unsigned barrier, const int* start, int axes) {
            ThreadBlock& block = *current_;
            block.threads_.enter("tensor_load");
            block.tensor_copies_.load(block.self(), shared, map, barrier, std::span(start, axes),
                                      block.waited_[block.self()]);
          },
      .tensor_prefetch =
          [](const void* map, int axes) {
            current_->threads_.enter("prefetch_tensor");
            decode_tensor_map(map, static_cast<std::size_t>(axes));
          },
      .tensor_store =
          [](const void* map, unsigned shared, const int* start, int axes) {
            ThreadBlock& block = *current_;
            block.threads_.enter("tensor_store_if");
            block.tensor_copies_.store(block.self(), map, shared, std::span(start, axes),
                                       block.waited_[block.self()]);
          },
      .tensor_store_commit = [] { current_->tensor_copies_.commit(current_->self()); },
      .tensor_store_wait_read =
          [](int pending) {
            current_->threads_.enter("tensor_store_wait_read");
            current_->tensor_copies_.wait_read(current_->self(), pending);
          },
      .tensor_store_wait =
          [](int pending) {
            current_->threads_.enter("tensor_store_wait");
            current_->tensor_copies_.wait(current_->self(), pending);
          },
      .bulk_load =
          [](unsigned shared, const void* global, unsigned bytes, unsigned barrier) {
            ThreadBlock& block = *current_;
            block.threads_.enter("bulk_load");
            block.tensor_copies_.load_bytes(block.self(), shared, global, bytes, barrier,
                                            block.waited_[block.self()]);
          },
      .bulk_store =
          [](void* global, unsigned shared, unsigned bytes) {
            ThreadBlock& block = *current_;
            block.threads_.enter("bulk_store_if");
            block.tensor_copies_.store_bytes(block.self(), global, shared, bytes,
                                             block.waited_[block.self()]);
          },
      .bulk_add =
          [](void* global, unsigned shared, unsigned bytes) {
            ThreadBlock& block = *current_;
            block.threads_.enter("bulk_add_if");
            block.tensor_copies_.add_floats(block.self(), global, shared, bytes,
                                            block.waited_[block.self()]);
          },
      .fence_async_proxy = [] { current_->shared_.fence_async_proxy(current_->self()); },

      .wgmma_fence =
          [] {
            ThreadBlock& block = *current_;
            block.threads_.enter("wgmma_fence");
            whole(block.warpgroups_[block.warpgroup()])
                .meet("wgmma_fence", nullptr,
                      [&block](void* const*, int) { block.products_[block.warpgroup()].fence(); });
          },
      .multiply_async =
          [](const MatrixProduct& product) {
            ThreadBlock& block = *current_;
            block.threads_.enter("multiply_async");
            whole(block.warpgroups_[block.warpgroup()])
                .meet("multiply_async", const_cast<MatrixProduct*>(&product),
                      [&block](void* const* members, int) {
                        block.products_[block.warpgroup()].multiply(members);
                      });
          },
      .wgmma_commit =
          [] {
            ThreadBlock& block = *current_;
            block.threads_.enter("wgmma_commit");
            whole(block.warpgroups_[block.warpgroup()])
                .meet("wgmma_commit", nullptr,
                      [&block](void* const*, int) { block.products_[block.warpgroup()].commit(); });
          },
      .wgmma_wait =
          [](int pending) {
            ThreadBlock& block = *current_;
            block.threads_.enter("wgmma_wait");
            whole(block.warpgroups_[block.warpgroup()])
                .meet("wgmma_wait", nullptr, [&block, pending](void* const*, int) {
                  block.products_[block.warpgroup()].wait(pending);
                });
          },
      .give_registers =
          [](int count) {
            ThreadBlock& block = *current_;
            block.threads_.enter("give_registers");
            whole(block.warpgroups_[block.warpgroup()])
                .meet("give_registers", nullptr, [&block, count](void* const*, int) {
                  block.registers_.give(block.warpgroup(), count);
                });
          },
      .take_registers =
          [](int count) {
            ThreadBlock& block = *current_;
            block.threads_.enter("take_registers");
            whole(block.warpgroups_[block.warpgroup()])
                .meet("take_registers", nullptr, [&block, count](void* const*, int) {
                  block.registers_.take(block.warpgroup(), count);
                });
          },

      .widen_float16 = [](unsigned short bits) { return tensor::widen_float16(bits); },
      .round_to_float16 = [](float value) -> unsigned short { return tensor::to_float16(value); },
  };
  return kServices;
}

}  // namespace attnjit::executor
