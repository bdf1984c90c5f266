#include "executor/fiber.hpp"

#include <boost/context/preallocated.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <memory>
#include <utility>

namespace attnjit::executor {
namespace {

// A kernel keeps its arrays in its frame, some tens of KiB here. Pages that are never touched cost
// no memory, and a guard page ends the stack.
constexpr std::size_t kStackBytes = std::size_t{512} << 10;

boost::context::protected_fixedsize_stack stacks() {
  return boost::context::protected_fixedsize_stack(kStackBytes);
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : Fiber(std::move(body), stacks().allocate()) {}

Fiber::Fiber(std::function<void()> body, const boost::context::stack_context& stack)
    : body_(std::move(body)),
      sanitizer_(static_cast<const std::byte*>(stack.sp) - stack.size, stack.size),
      inside_(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
              stacks(),
              [this](boost::context::fiber&& outside) { return run(std::move(outside)); }) {}

Fiber::~Fiber() {
  ending_ = true;
  resume();
}

void Fiber::resume() {
  sanitizer_.outside_before();
  inside_ = std::move(inside_).resume();
  sanitizer_.outside_after();
}

void Fiber::suspend() {
  sanitizer_.inside_before(false);
  outside_ = std::move(outside_).resume();
  sanitizer_.inside_after();
  if (ending_) throw Ended();
}

boost::context::fiber Fiber::run(boost::context::fiber&& outside) {
  sanitizer_.inside_after();
  outside_ = std::move(outside);
  try {
    while (!ending_) {
      body_();
      suspend();
    }
  } catch (const Ended&) {
    // Only ~Fiber() leads here.
  }
  sanitizer_.inside_before(true);
  return std::move(outside_);
}

}  // namespace attnjit::executor
