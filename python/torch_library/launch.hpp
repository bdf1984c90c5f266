#pragma once
#include <cstddef>
#include <functional>

#include "attnjit.h"

namespace attnjit::torch_library {

/// Throws std::runtime_error with the library's message for a status other than ATTNJIT_OK.
void check(attnjit_status status);

/// The context of this process, until it ends: other threads may still be in calls then.
attnjit_context* shared_context();

/// Enqueues a forward on a stream of device `device`. `allocate` makes workspace of a number of
/// bytes, which is asked for at most once.
void enqueue(const attnjit_forward_args& args, int device, CUstream_st* stream,
             const std::function<void*(std::size_t)>& allocate);

}  // namespace attnjit::torch_library
