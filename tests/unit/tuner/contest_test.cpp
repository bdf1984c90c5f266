#include "tuner/contest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "attnjit/error.hpp"

using namespace attnjit;
using tuner::ContestResult;
using tuner::Verdict;

namespace {

// A device whose kernels take `us` microseconds, within a share of `noise`.
class FakeDevice {
 public:
  explicit FakeDevice(std::vector<double> us, double noise = 0, unsigned seed = 1)
      : us_(std::move(us)), noise_(noise), engine_(seed) {}

  double operator()(std::size_t candidate) {
    order.push_back(candidate);
    ++calls[candidate];
    const double now = us_.at(candidate) * speed(order.size());
    if (now < 0) throw Error(ErrorKind::kCuda, "this candidate does not run");
    return now * std::uniform_real_distribution<double>(1 - noise_, 1 + noise_)(engine_);
  }

  ContestResult hold(const std::function<bool()>& expired = [] { return false; }) {
    return tuner::hold_contest(us_.size(), std::ref(*this), expired);
  }

  std::vector<std::size_t> order;
  std::map<std::size_t, int> calls;
  std::function<double(std::size_t)> speed = [](std::size_t) { return 1.0; };

 private:
  std::vector<double> us_;
  double noise_;
  std::mt19937 engine_;
};

std::function<bool()> after(const FakeDevice& device, std::size_t calls) {
  return [&device, calls] { return device.order.size() >= calls; };
}

}  // namespace

TEST_CASE("the fastest wins, and its numbers are of the final rounds") {
  FakeDevice device({100, 95, 80, 81});
  const ContestResult result = device.hold();
  CHECK(result.verdict == Verdict::kGain);
  CHECK(result.winner == 2);
  CHECK(result.us == doctest::Approx(80));
  CHECK(result.default_us == doctest::Approx(100));
  CHECK(result.gain() == doctest::Approx(0.2));
  CHECK(result.mad == 0);
  CHECK(result.rounds == 14);
  CHECK_FALSE(result.partial);
  CHECK(result.conclusive());
}

TEST_CASE("a gain below the margin keeps configuration 0") {
  const ContestResult result = FakeDevice({100, 98.1, 99}).hold();
  CHECK(result.verdict == Verdict::kNoGain);
  CHECK(result.winner == 0);
  CHECK(result.us == doctest::Approx(100));
  CHECK(result.gain() == 0);
  CHECK(FakeDevice({100, 97.9}).hold().winner == 1);
}

TEST_CASE("a gain below three times the noise keeps configuration 0") {
  // 4 % faster, while each measurement is 3 % too high or too low: the MAD is 3 %.
  std::map<std::size_t, int> calls;
  const auto measure = [&](std::size_t candidate) {
    return (candidate == 0 ? 100 : 96) * (++calls[candidate] % 2 == 0 ? 1.03 : 0.97);
  };
  tuner::ContestRules rules;
  rules.drift = 1;
  const auto hold = [&] {
    return tuner::hold_contest(
        2, measure, [] { return false; }, rules);
  };
  CHECK(hold().verdict == Verdict::kNoGain);
  rules.noise_factor = 1;
  CHECK(hold().verdict == Verdict::kGain);
}

TEST_CASE("among equals configuration 0 stays, but for one lucky candidate in a thousand") {
  int lost = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    lost += FakeDevice(std::vector<double>(20, 100), 0.02, seed).hold().winner != 0;
    CHECK(FakeDevice(std::vector<double>(20, 100), 0.01, seed).hold().winner == 0);
  }
  CHECK(lost <= 2);  // of 200 contests with 19 challengers each
}

TEST_CASE("under noise a clear winner is found, always the same") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    FakeDevice device({100, 90, 70, 101, 95}, 0.01, seed);
    CAPTURE(seed);
    CHECK(device.hold().winner == 2);
  }
}

TEST_CASE("ties go to the first") {
  CHECK(FakeDevice({100, 80, 80, 80}).hold().winner == 1);
  for (unsigned seed = 1; seed <= 20; ++seed) {
    // Equal within the noise: 0.1 % apart, measured to 2 %.
    FakeDevice device({100, 70.05, 70}, 0.02, seed);
    CAPTURE(seed);
    CHECK(device.hold().us == doctest::Approx(70).epsilon(0.03));
  }
}

TEST_CASE("who is twice as slow as the best plays one round only") {
  FakeDevice device({100, 210, 95, 60});
  device.hold();
  CHECK(device.calls[1] == 1);
  CHECK(device.calls[2] > 1);
  // Configuration 0 always stays: the others are compared with it.
  FakeDevice fast({100, 10});
  CHECK(fast.hold().default_us == doctest::Approx(100));
  CHECK(fast.calls[0] > 14);
}

TEST_CASE("only the best and those close to them play the final") {
  FakeDevice device({100, 70, 71, 72, 73, 90});
  device.hold();
  for (const std::size_t finalist : {1, 2, 3, 4}) CHECK(device.calls[finalist] == 7 + 14);
  CHECK(device.calls[5] == 7);
  CHECK(device.calls[0] == 3 + 7 + 14 + 3);
}

TEST_CASE("candidates take turns, and each is first in some round") {
  FakeDevice device({100, 99, 98});
  device.hold();
  // Three probes, then rounds of three.
  const std::vector<std::size_t> rounds(device.order.begin() + 3, device.order.begin() + 12);
  CHECK(rounds == std::vector<std::size_t>{0, 1, 2, 1, 2, 0, 2, 0, 1});
}

TEST_CASE("a candidate that does not run is out, configuration 0 that does not is an error") {
  FakeDevice device({100, -1, 80});
  CHECK(device.hold().winner == 2);
  CHECK(device.calls[1] == 1);
  FakeDevice broken({-1, 80});
  CHECK_THROWS_AS(broken.hold(), Error);
}

TEST_CASE("a candidate that fails later is out as well") {
  FakeDevice device({100, 50, 80});
  const auto measure = [&](std::size_t candidate) {
    if (candidate == 1 && device.calls[1] == 4) throw Error(ErrorKind::kCuda, "gone");
    return device(candidate);
  };
  const auto result = tuner::hold_contest(3, measure, [] { return false; });
  CHECK(result.winner == 2);
  CHECK(device.calls[1] == 4);
}

TEST_CASE("a device that changes speed is measured again, and then nothing is concluded") {
  FakeDevice once({100, 80});
  once.speed = [](std::size_t call) { return call < 20 ? 1.0 : 1.2; };
  CHECK(once.hold().verdict == Verdict::kGain);
  CHECK(once.calls[0] > 2 * 14);

  FakeDevice always({100, 80});
  always.speed = [](std::size_t call) { return 1 + 0.01 * static_cast<double>(call); };
  const ContestResult result = always.hold();
  CHECK(result.verdict == Verdict::kDrift);
  CHECK(result.winner == 0);
  CHECK_FALSE(result.conclusive());
}

TEST_CASE("slow drift meets all candidates alike") {
  // 4 % from start to end: an ordered sweep would call the last ones slower.
  FakeDevice device({100, 90, 90, 90});
  device.speed = [](std::size_t call) { return 1 + 0.0004 * static_cast<double>(call); };
  const ContestResult result = device.hold();
  CHECK(result.verdict == Verdict::kGain);
  CHECK(result.gain() == doctest::Approx(0.1).epsilon(0.05));
}

TEST_CASE("out of time, what was measured decides, if it is enough") {
  FakeDevice none({100, 50});
  CHECK(none.hold(after(none, 0)).verdict == Verdict::kBudget);
  CHECK(none.order.empty());

  FakeDevice two_rounds({100, 50});
  const ContestResult little = two_rounds.hold(after(two_rounds, 3 + 2 * 2 + 1));
  CHECK(little.verdict == Verdict::kBudget);
  CHECK(little.winner == 0);
  CHECK(little.partial);

  FakeDevice four_rounds({100, 50});
  const ContestResult some = four_rounds.hold(after(four_rounds, 3 + 4 * 2 + 1));
  CHECK(some.verdict == Verdict::kGain);
  CHECK(some.winner == 1);
  CHECK(some.rounds == 4);
  CHECK(some.partial);

  // In the final, before it says more than the rounds before it.
  FakeDevice cut_final({100, 50});
  const ContestResult most = cut_final.hold(after(cut_final, 3 + 7 * 2 + 3));
  CHECK(most.winner == 1);
  CHECK(most.rounds == 7);
  CHECK(most.partial);
}

TEST_CASE("configuration 0 alone is a contest too") {
  const ContestResult result = FakeDevice({100}).hold();
  CHECK(result.verdict == Verdict::kNoGain);
  CHECK(result.us == doctest::Approx(100));
}

TEST_CASE("equal measurements give equal results") {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const auto a = FakeDevice({100, 90, 88, 91}, 0.02, seed).hold();
    const auto b = FakeDevice({100, 90, 88, 91}, 0.02, seed).hold();
    CHECK(a.winner == b.winner);
    CHECK(a.us == b.us);
  }
}
