#pragma once
#include <boost/context/fiber.hpp>
#include <functional>

namespace attnjit::executor {

/// A function on a stack of its own that can stop in the middle and go on later. It stays on the
/// thread that first resumed it.
class Fiber {
 public:
  /// `body` is called again whenever resume() follows its return. It must let exceptions of
  /// boost::context pass: they unwind a stopped fiber when it is destroyed.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it calls suspend() or returns.
  void resume() { inside_ = std::move(inside_).resume(); }

  /// Called by the body: goes back to who called resume().
  void suspend() { outside_ = std::move(outside_).resume(); }

 private:
  const std::function<void()> body_;
  boost::context::fiber outside_;
  boost::context::fiber inside_;
};

}  // namespace attnjit::executor
