// A profiler as NVTX loads it: remembers the names of ranges.
#include <nvtx3/nvToolsExt.h>

#include <string>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::string names;  // a line each
int depth = 0;

int push(const char* name) {
  names += std::string(name) + '\n';
  return depth++;
}
int pop() { return --depth; }

}  // namespace

FAKE_EXPORT const char* fake_profiler_names() { return names.c_str(); }
FAKE_EXPORT int fake_profiler_depth() { return depth; }

FAKE_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
