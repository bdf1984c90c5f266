// faulty_worker CACHE FAULT: a worker of tune on a fake device. FAULT says what comes of launches
// of the candidate of two warps: crash, exit, hang, lose, or none; the number of a signal, which
// the process then gets as from outside; "crash-all" crashes in every launch. "garbage" answers no
// request as a worker does. "nest" passes a request on to a worker of its own, writes that one's
// process id when it hangs, and hangs as well.
#include <sys/resource.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/child_process.hpp"
#include "cli/tuning_machine.hpp"
#include "cli/work/tune/tune_service.hpp"

namespace {

using attnjit::test::FakeDevice;

constexpr unsigned kThreads = 64;  // of the candidate that goes wrong

[[noreturn]] void hang() {
  for (;;) ::pause();
}

void go_wrong(std::string_view fault) {
  if (fault == "crash" || fault == "crash-all") std::raise(SIGSEGV);
  if (fault == "exit") std::_Exit(3);
  if (fault == "hang") hang();
  if (fault == "lose") FakeDevice::lose_context();
  if (std::isdigit(static_cast<unsigned char>(fault[0])) != 0) std::raise(std::atoi(fault.data()));
}

void answer_garbage() {
  for (std::string line; std::getline(std::cin, line);) std::cout << "pardon?" << std::endl;
}

void nest(const char* self, const char* cache) {
  std::string line;
  std::getline(std::cin, line);
  attnjit::base::ChildProcess inner({self, cache, "hang"});
  inner.send(line);
  while (line.find("\"num_warps\":2") == std::string::npos) {
    using Received = attnjit::base::ChildProcess::Received;
    if (inner.receive(line, std::chrono::seconds(60)) != Received::kLine) std::_Exit(1);
  }
  std::cout << inner.id() << std::endl;
  hang();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGSEGV, SIG_DFL);  // sanitizers catch it
  const std::string_view fault = argv[2];
  if (fault == "garbage") {
    answer_garbage();
    return 0;
  }
  if (fault == "nest") nest(argv[0], argv[1]);
  const FakeDevice device;
  FakeDevice::run() = [fault](const CUlaunchConfig& launch) {
    if (launch.blockDimX == kThreads || fault == "crash-all") go_wrong(fault);
  };
  FakeDevice::milliseconds() = [](const CUlaunchConfig& launch) {
    return launch.blockDimX == kThreads ? 0.02f : launch.blockDimX == kThreads / 2 ? 0.05f : 0.1f;
  };
  attnjit::runtime::Engine engine = attnjit::test::tuning_engine(argv[1]);
  attnjit::cli::serve_tuning(std::cin, std::cout, engine, *device);
  return 0;
}
