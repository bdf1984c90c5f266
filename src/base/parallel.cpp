#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace attnjit::base {

void parallel_for(std::size_t count, unsigned jobs, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::once_flag failed;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      std::call_once(failed, [&] { failure = std::current_exception(); });
      next = count;
    }
  };

  {
    // The calling thread works too, so one job needs no thread.
    const std::size_t wanted = std::min<std::size_t>(std::max(jobs, 1U), count);
    std::vector<std::jthread> threads;
    try {
      while (threads.size() + 1 < wanted) threads.emplace_back(work);
    } catch (const std::system_error&) {
      // A limit on threads: those that started share the work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace attnjit::base
