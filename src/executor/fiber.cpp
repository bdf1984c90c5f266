#include "executor/fiber.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <memory>
#include <utility>

namespace attnjit::executor {
namespace {

// A kernel's arrays live in its frame here, some tens of KiB; what is never touched costs nothing.
// A guard page ends the stack.
constexpr std::size_t kStackBytes = std::size_t{512} << 10;

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)),
      inside_(std::allocator_arg, boost::context::protected_fixedsize_stack(kStackBytes),
              [this](boost::context::fiber&& outside) {
                outside_ = std::move(outside);
                for (;;) {
                  body_();
                  suspend();
                }
                return std::move(outside_);
              }) {}

}  // namespace attnjit::executor
