// A libnvrtc that compiles nothing, for tests of how the real one is found and judged.
// FAKE_MAJOR and FAKE_MINOR are the version that it claims, FAKE_UPDATE the text of its errors;
// with FAKE_INCOMPLETE it lacks an entry point. Every compile fails as if the builtins library were
// missing, and its log lists the options; with a number in the variable FAKE_NVRTC_RESULT it fails
// with that result, or "throw" in it makes memory run out. With a FIFO in FAKE_NVRTC_GATE a compile
// takes until its writer has closed it. One thread at a time.
#include <fcntl.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#ifndef FAKE_UPDATE
#define FAKE_UPDATE "NVRTC_ERROR_FAKE"
#endif

namespace {
std::string last_log;

void wait_at_gate() {
  const char* const gate = std::getenv("FAKE_NVRTC_GATE");
  if (gate == nullptr) return;
  const int fd = open(gate, O_RDONLY);
  char byte;
  while (read(fd, &byte, 1) > 0) {
  }
  close(fd);
}
}  // namespace

#pragma GCC visibility push(default)
extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = FAKE_MAJOR;
  *minor = FAKE_MINOR;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult) { return FAKE_UPDATE; }

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80;
  archs[1] = 90;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram*, const char*, const char*, int, const char* const*,
                               const char* const*) {
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_SUCCESS; }

nvrtcResult nvrtcCompileProgram(nvrtcProgram, int count, const char* const* options) {
  wait_at_gate();
  last_log = "nvrtc: error: failed to open libnvrtc-builtins.so\noptions:";
  for (int i = 0; i < count; ++i) last_log += std::string(" ") + options[i];
  last_log += '\n';
  const char* const result = std::getenv("FAKE_NVRTC_RESULT");
  if (result == nullptr) return NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
  if (std::strcmp(result, "throw") == 0) throw std::bad_alloc();
  return static_cast<nvrtcResult>(std::atoi(result));
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* size) {
  *size = last_log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  std::memcpy(log, last_log.c_str(), last_log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t*) { return NVRTC_ERROR_INVALID_PROGRAM; }
nvrtcResult nvrtcGetPTX(nvrtcProgram, char*) { return NVRTC_ERROR_INVALID_PROGRAM; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t*) { return NVRTC_ERROR_INVALID_PROGRAM; }
#ifndef FAKE_INCOMPLETE
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return NVRTC_ERROR_INVALID_PROGRAM; }
#endif

}  // extern "C"
#pragma GCC visibility pop
