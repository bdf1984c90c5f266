#include "executor/sanitizer_fiber.hpp"

// g++ has a macro for each sanitizer, clang++ a feature.
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define ATTNJIT_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define ATTNJIT_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace attnjit::executor {

#if defined(ATTNJIT_ADDRESS_SANITIZER)

SanitizerFiber::SanitizerFiber(const void* bottom, std::size_t size)
    : bottom_(bottom), size_(size) {}

// The next mapping of that address begins clean.
SanitizerFiber::~SanitizerFiber() { ASAN_UNPOISON_MEMORY_REGION(bottom_, size_); }

void SanitizerFiber::outside_before() { __sanitizer_start_switch_fiber(&outside_, bottom_, size_); }
void SanitizerFiber::inside_after() {
  __sanitizer_finish_switch_fiber(inside_, &outside_bottom_, &outside_size_);
}
void SanitizerFiber::inside_before(bool for_good) {
  __sanitizer_start_switch_fiber(for_good ? nullptr : &inside_, outside_bottom_, outside_size_);
}
void SanitizerFiber::outside_after() {
  __sanitizer_finish_switch_fiber(outside_, nullptr, nullptr);
}

#elif defined(ATTNJIT_THREAD_SANITIZER)

SanitizerFiber::SanitizerFiber(const void* bottom, std::size_t size)
    : bottom_(bottom), size_(size), inside_(__tsan_create_fiber(0)) {}
SanitizerFiber::~SanitizerFiber() { __tsan_destroy_fiber(inside_); }

void SanitizerFiber::outside_before() {
  outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_, 0);
}
void SanitizerFiber::inside_after() {}
void SanitizerFiber::inside_before(bool) { __tsan_switch_to_fiber(outside_, 0); }
void SanitizerFiber::outside_after() {}

#else

SanitizerFiber::SanitizerFiber(const void* bottom, std::size_t size)
    : bottom_(bottom), size_(size) {}
SanitizerFiber::~SanitizerFiber() = default;

void SanitizerFiber::outside_before() {}
void SanitizerFiber::inside_after() {}
void SanitizerFiber::inside_before(bool) {}
void SanitizerFiber::outside_after() {}

#endif

}  // namespace attnjit::executor
