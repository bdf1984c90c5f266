#pragma once
#include <doctest/doctest.h>

/// Ends the test case with a message that CTest counts as a skip (tests/CMakeLists.txt). For cases
/// that need more than this machine has; `why` says what.
#define ATTNJIT_SKIP(why)      \
  do {                         \
    MESSAGE("skipped: ", why); \
    return;                    \
  } while (false)
