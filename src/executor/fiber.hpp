#pragma once
#include <boost/context/fiber.hpp>
#include <functional>

#include "executor/sanitizer_fiber.hpp"

namespace attnjit::executor {

/// A function on a stack of its own that can stop in the middle and go on later. It stays on the
/// thread that first resumed it.
class Fiber {
 public:
  /// Thrown by suspend() in a body whose fiber is destroyed, so that its objects are too. The body
  /// must let it pass.
  struct Ended {};

  /// `body` is called again whenever resume() follows its return.
  explicit Fiber(std::function<void()> body);
  /// Ends the body where it stands.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it calls suspend() or returns.
  void resume();

  /// Called by the body: goes back to who called resume().
  void suspend();

 private:
  Fiber(std::function<void()> body, const boost::context::stack_context& stack);
  boost::context::fiber run(boost::context::fiber&& outside);

  const std::function<void()> body_;
  SanitizerFiber sanitizer_;
  bool ending_ = false;
  boost::context::fiber outside_;
  boost::context::fiber inside_;
};

}  // namespace attnjit::executor
