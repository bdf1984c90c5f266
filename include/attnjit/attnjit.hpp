#pragma once
// The C++ API of attnjit in one header.
#include "attnjit/backward.hpp"
#include "attnjit/context.hpp"
#include "attnjit/error.hpp"
#include "attnjit/expression.hpp"
#include "attnjit/forward.hpp"
#include "attnjit/merge_lse.hpp"
#include "attnjit/prepared_mask.hpp"
#include "attnjit/tensor.hpp"
