#pragma once
#include <stdexcept>

namespace attnjit::executor {

/// Thrown where a kernel broke a rule of the machine, to which a GPU would have answered with a
/// fault, a wrong number or nothing at all. what() says what it did; once it leaves the executor,
/// it also names the kernel, the block, the thread and the primitive.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One whose what() names thread and primitive.
class ThreadViolation : public Violation {
 public:
  using Violation::Violation;
};

}  // namespace attnjit::executor
