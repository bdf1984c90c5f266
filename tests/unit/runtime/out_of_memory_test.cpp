// A context where memory runs out: each allocation on the way to one fails once. An executable of
// its own, for it takes the place of operator new.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "attnjit.h"
#include "unit/child_process.hpp"
#include "unit/temp_directory.hpp"

namespace {
int allocations = 0;
int failing = 0;  // the number of the one that fails, from 1
}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = ++allocations == failing ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("a context that there is no memory for is an error, whichever allocation fails") {
  const attnjit::test::TempDirectory temp;
  const std::string cache = (temp / "cache").string();
  attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
  options.cache_directory = cache.c_str();
  const auto create = [&] {
    attnjit_context* context = nullptr;
    const attnjit_status status = attnjit_context_create(&options, &context);
    attnjit_context_destroy(context);
    return status;
  };
  allocations = 0;
  REQUIRE(create() == ATTNJIT_OK);
  const int all = allocations;
  CHECK(all > 100);
  for (int number = 1; number <= all; ++number) {
    CAPTURE(number);
    CHECK(attnjit::test::true_in_child([&] {
      failing = allocations + number;
      const attnjit_status status = create();
      return status == ATTNJIT_OK || status == ATTNJIT_INTERNAL;
    }));
  }
}
