#include "unit/host_calls.hpp"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <stdexcept>

namespace attnjit::test {
namespace {

thread_local HostCalls calls;

// The C library's own function of this name.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

constexpr int kNoFilter = 2;  // exit status

// From here on this process may only exit.
bool forbid_system_calls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  const rlimit no_core{0, 0};
  return setrlimit(RLIMIT_CORE, &no_core) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

HostCalls count_host_calls(const std::function<void()>& work) {
  calls = {};
  work();
  return calls;
}

bool makes_system_calls(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (!forbid_system_calls()) _exit(kNoFilter);
    work();
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("cannot fork");
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  throw std::runtime_error("the kernel has no system call filter, or the work failed");
}

}  // namespace attnjit::test

using attnjit::test::calls;
using attnjit::test::next;

extern "C" {

// dlsym() may allocate, so the allocator is reached under the other names that glibc has for it.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  ++calls.allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++calls.allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++calls.allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++calls.allocations;
  return __libc_memalign(alignment, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  ++calls.locks;
  static const auto real = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  ++calls.locks;
  static const auto real = next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  ++calls.locks;
  static const auto real = next<int(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  return real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  ++calls.locks;
  static const auto real = next<int(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  return real(lock);
}

char* getenv(const char* name) noexcept {
  ++calls.environments;
  static const auto real = next<char*(const char*)>("getenv");
  return real(name);
}
char* secure_getenv(const char* name) noexcept {
  ++calls.environments;
  static const auto real = next<char*(const char*)>("secure_getenv");
  return real(name);
}

}  // extern "C"
