#pragma once
#include <cstddef>

namespace attnjit::executor {

/// Tells a sanitizer of each switch to and from a stack that it would take for stray memory. Does
/// nothing in a build without one.
class SanitizerFiber {
 public:
  /// `bottom` is the lowest address of a stack of `size` bytes.
  SanitizerFiber(const void* bottom, std::size_t size);
  ~SanitizerFiber();
  SanitizerFiber(const SanitizerFiber&) = delete;
  SanitizerFiber& operator=(const SanitizerFiber&) = delete;

  // Each is called on the side that its name begins with, right before or after the switch.
  void outside_before();
  void inside_after();
  void inside_before(bool for_good);
  void outside_after();

 private:
  [[maybe_unused]] const void* bottom_;
  [[maybe_unused]] std::size_t size_;
  [[maybe_unused]] const void* outside_bottom_ = nullptr;
  [[maybe_unused]] std::size_t outside_size_ = 0;
  // The sanitizer's state of each side while that side does not run.
  [[maybe_unused]] void* inside_ = nullptr;
  [[maybe_unused]] void* outside_ = nullptr;
};

}  // namespace attnjit::executor
