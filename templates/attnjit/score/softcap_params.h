#pragma once
#include "attnjit/types.h"

namespace attnjit::kernel {

// A softcap of scores, and what follows from it: computed by the host, so that instructions of the
// kernel take constants. The polynomial is that of the scores which it sees: unscaled ones in the
// forward's exponents, scaled ones in the backward.
struct SoftcapParams {
  float cap;
  float ratio;  // of tanh's argument to the scaled score, a finite number
  float most;   // |score| up to which the polynomial is meant
  // The polynomial tanh(x) / x of x^2: its leading coefficient, of score^10, and the others divided
  // by that, of score^(2 i). So no instruction takes two of them.
  float lead, near[5];
};

}  // namespace attnjit::kernel
