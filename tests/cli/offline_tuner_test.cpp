// Tuning in a worker process that hangs, crashes, or loses its device: a real process, the worker's
// own loop and the tuner, on a fake device.
#include "cli/work/tune/offline_tuner.hpp"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "cli_fixtures.hpp"
#include "problem/manifest_line.hpp"
#include "runtime/tune/problem_tuner.hpp"
#include "tuning_machine.hpp"

namespace attnjit::test {
namespace {

using cli::OfflineTuner;
using cli::Remeasure;
using cli::TunedProblem;
using cli::TuneWorker;

cli::Case small_case(std::int64_t batch = 1) {
  cli::Case job{"small", "", {}};
  job.spec.batch = batch;
  job.spec.seqlen_q = job.spec.seqlen_kv = 60;
  job.spec.head_dim = 12;  // rows are not aligned: configuration 0 is on path mma
  return job;
}

// A hang costs `least`, and a slow machine must not pass for one.
constexpr cli::TuneLimits kLimits{.prepare = std::chrono::seconds(60),
                                  .first = std::chrono::seconds(60),
                                  .least = std::chrono::seconds(2)};

/// A directory, and tunings by workers with a fault.
class Workshop {
 public:
  TunedProblem tune(const std::string& fault, const Remeasure& remeasure = {}) const {
    return tune(fault, directory(), remeasure);
  }
  TunedProblem tune_in_memory(const std::string& fault) const { return tune(fault, "0", {}); }

  /// Leaves the compiled kernels.
  void forget() const {
    for (const char* what : {"t", "faulty"}) {
      std::filesystem::remove_all(temp_ / "cache" / "v1" / what);
    }
  }

  /// Makes the only record one that another version of the library measured.
  void age_record() const {
    namespace fs = std::filesystem;
    for (const auto& item : fs::recursive_directory_iterator(temp_ / "cache" / "v1" / "t")) {
      if (!item.is_regular_file()) continue;
      auto record = std::get<tuner::Record>(tuner::record_from_json(read_file(item.path())));
      record.library = "0.0.1";
      write_file(item.path(), tuner::to_json(record));
    }
  }

  std::string directory() const { return temp_.path().string(); }

  /// The faulty configurations of the small problem that a new process finds.
  std::size_t known_faulty() const {
    const FakeDevice device;
    runtime::Engine engine = tuning_engine(directory());
    return runtime::ForwardTuner(engine).tune(*device, cli::make_problem(small_case().spec)).faulty;
  }

 private:
  TunedProblem tune(const std::string& fault, const std::string& cache,
                    const Remeasure& remeasure) const {
    const FakeDevice device;
    runtime::Engine engine = tuning_engine(cache);
    TuneWorker worker({FAULTY_WORKER, cache, fault}, kLimits);
    return OfflineTuner(engine, worker, cuda::current_device(*device), remeasure)
        .tune(small_case());
  }

  TempDirectory temp_;
};

int winner_warps(const TunedProblem& problem) {
  REQUIRE_MESSAGE(problem.record, problem.text);
  return std::get<tuner::Record>(*problem.record).config.num_warps;
}

TEST_CASE("the fastest candidate of a sound worker wins, and its record is kept") {
  const Workshop workshop;
  const TunedProblem tuned = workshop.tune("none");
  CHECK(tuned.state == "gain");
  CHECK(winner_warps(tuned) == 2);
  CHECK(tuned.faults.empty());
  REQUIRE(tuned.times.size() == 3);
  CHECK(tuned.times[0].us == doctest::Approx(100));
  CHECK(tuned.times[1].us == doctest::Approx(20));
  const TunedProblem again = workshop.tune("crash");  // no worker is asked
  CHECK(again.state == "recorded");
  CHECK(winner_warps(again) == 2);
}

TEST_CASE(
    "a candidate that hangs, crashes or loses the device is left out, and never tried again") {
  struct Row {
    const char *fault, *why;
  };
  const Workshop workshop;
  for (const Row& row : {Row{"crash", "signal 11"}, Row{"exit", "exit status 3"},
                         Row{"hang", "did not answer"}, Row{"lose", "cannot"}}) {
    CAPTURE(std::string(row.fault));
    workshop.forget();
    const TunedProblem tuned = workshop.tune(row.fault);
    CHECK(tuned.state == "gain");
    CHECK(winner_warps(tuned) == 1);  // the best of the others
    REQUIRE(tuned.faults.size() == 1);
    CHECK(tuned.faults[0].why.find(row.why) != std::string::npos);
    CHECK(tuned.faults[0].device.sm_count == 132);
    CHECK(tuned.known_faulty == 1);
    CHECK(tuned.times.size() == 2);
    // Neither the next tune, whose worker would not survive it, nor the library's tuner runs it.
    const TunedProblem forced = workshop.tune(row.fault, {.all = true});
    CHECK(forced.faults.empty());
    CHECK(winner_warps(forced) == 1);
    CHECK(workshop.known_faulty() == 1);
  }
}

TEST_CASE("a stale record is measured again where that is asked for") {
  const Workshop workshop;
  workshop.tune("none");
  CHECK(workshop.tune("none", {.stale = true}).state == "recorded");
  workshop.age_record();
  CHECK(workshop.tune("none").state == "recorded");
  CHECK(workshop.tune("none", {.stale = true}).state == "gain");
  CHECK(workshop.tune("none", {.stale = true}).state == "recorded");
}

TEST_CASE("without a disk a fault is known for as long as the run lasts, and no record is kept") {
  const Workshop workshop;
  const TunedProblem tuned = workshop.tune_in_memory("crash");
  CHECK(tuned.faults.size() == 1);
  CHECK(tuned.why_not_kept);
  CHECK(winner_warps(tuned) == 1);
}

TEST_CASE("what is no fault of a candidate fails the problem, and is not kept") {
  struct Row {
    const char *fault, *why;
  };
  const Workshop workshop;
  // 1, 2, 3, 9 and 15 are SIGHUP, SIGINT, SIGQUIT, SIGKILL and SIGTERM.
  for (const Row& row :
       {Row{"crash-all", "configuration 0 does not run: its process ended: signal 11"},
        Row{"1", "from outside"}, Row{"2", "from outside"}, Row{"3", "from outside"},
        Row{"9", "from outside"}, Row{"15", "from outside"},
        Row{"garbage", "what the worker says"}}) {
    CAPTURE(std::string(row.fault));
    workshop.forget();
    const TunedProblem tuned = workshop.tune(row.fault);
    CHECK(tuned.state == "failed");
    CHECK(tuned.code == cli::ExitCode::kFailure);
    CHECK_MESSAGE(tuned.text.find(row.why) != std::string::npos, tuned.text);
    CHECK(tuned.faults.empty());
    CHECK(workshop.known_faulty() == 0);
  }
}

TEST_CASE("a worker that ended is started again for the next problem") {
  const TempDirectory temp;
  const FakeDevice device;
  runtime::Engine engine = tuning_engine(temp.path().string());
  TuneWorker worker({FAULTY_WORKER, temp.path().string(), "garbage"}, kLimits);
  OfflineTuner tuner(engine, worker, cuda::current_device(*device), {});
  CHECK(tuner.tune(small_case(1)).state == "failed");
  CHECK(tuner.tune(small_case(1)).state == "same");
  const TunedProblem other = tuner.tune(small_case(64));
  CHECK(other.text.find("what the worker says") != std::string::npos);
  TuneWorker absent({"/nonexistent/worker"}, kLimits);
  OfflineTuner without(engine, absent, cuda::current_device(*device), {});
  CHECK(without.tune(small_case()).text.find("cannot start /nonexistent/worker") !=
        std::string::npos);
}

TEST_CASE("a worker does not outlive the process that started it") {
  const TempDirectory temp;
  base::ChildProcess parent({FAULTY_WORKER, temp.path().string(), "nest"});
  const cli::TuneRequest request{problem::manifest_line(cli::make_problem(small_case().spec)), {}};
  REQUIRE(parent.send(to_line(request)));
  std::string line;
  REQUIRE(parent.receive(line, std::chrono::seconds(60)) == base::ChildProcess::Received::kLine);
  const pid_t worker = std::stoi(line);
  REQUIRE(::kill(worker, 0) == 0);
  parent.finish(std::chrono::milliseconds(0));  // kills it
  // Only its new parent, init or whoever stands in, reaps it: until then it is a zombie.
  const auto alive = [&] {
    const std::string status = read_file(fmt::format("/proc/{}/stat", worker));
    return !status.empty() && status.find(") Z ") == std::string::npos;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (alive() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK_FALSE(alive());
  if (alive()) ::kill(worker, SIGKILL);
}

}  // namespace
}  // namespace attnjit::test
