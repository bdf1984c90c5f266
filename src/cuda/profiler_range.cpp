#include "cuda/profiler_range.hpp"

#include <sys/auxv.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
namespace {
// Answers of NVTX without a profiler.
int nvtxRangePushA(const char*) { return -2; }
int nvtxRangePop() { return -2; }
}  // namespace
#endif

namespace attnjit::cuda {

bool profiler_listens() {
  if (getauxval(AT_SECURE) != 0) return false;
  // The level of the range, which is below 0 without a profiler.
  if (nvtxRangePushA("attnjit") < 0) return false;
  nvtxRangePop();
  return true;
}

ProfilerRange::ProfilerRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
ProfilerRange::~ProfilerRange() { nvtxRangePop(); }

}  // namespace attnjit::cuda
