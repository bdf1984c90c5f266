#include "tuner/contest.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "attnjit/error.hpp"

namespace attnjit::tuner {
namespace {

using Samples = std::vector<double>;

double median(Samples samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  if (samples.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

double deviation(const Samples& samples) {
  const double center = median(samples);
  Samples distances;
  for (const double sample : samples) distances.push_back(std::abs(sample - center));
  return median(distances);
}

/// One attempt: who is still in it, and what they did.
class Attempt {
 public:
  Attempt(std::size_t count, const std::function<double(std::size_t)>& measure,
          const std::function<bool()>& expired, const ContestRules& rules)
      : measure_(measure), expired_(expired), rules_(rules), samples_(count), medians_(count) {
    for (std::size_t i = 0; i < count; ++i) entrants_.push_back(i);
  }

  ContestResult run() {
    const auto before = probe();
    play(1);
    drop_hopeless();
    play(rules_.rounds);
    note_medians();
    if (enough()) {
      keep_finalists();
      // Judged by new measurements: the best of many noisy medians is a lucky one.
      const std::vector<Samples> first = samples_;
      for (Samples& samples : samples_) samples.clear();
      play(2 * rules_.rounds);
      if (!enough()) samples_ = first;
      note_medians();
    }
    ContestResult result = judge();
    const auto after = probe();
    const bool drifted =
        before && after && std::abs(*after - *before) > rules_.drift * std::min(*before, *after);
    if (drifted) return {.verdict = Verdict::kDrift, .partial = partial_};
    result.medians = std::move(medians_);
    return result;
  }

 private:
  void measure(std::size_t candidate, Samples& samples) {
    try {
      samples.push_back(measure_(candidate));
    } catch (const Error&) {
      if (candidate == 0) throw;
      std::erase(entrants_, candidate);
    }
  }

  // Rounds until each entrant has `rounds` samples, or time is up. Each begins with another one.
  void play(int rounds) {
    while (static_cast<int>(samples_[0].size()) < rounds) {
      for (const std::size_t candidate : rotated()) {
        if (expired_()) {
          partial_ = true;
          return even_out();
        }
        measure(candidate, samples_[candidate]);
      }
    }
  }

  std::vector<std::size_t> rotated() {
    std::vector<std::size_t> order = entrants_;
    const std::size_t first = turn_++ % order.size();
    std::ranges::rotate(order, order.begin() + static_cast<std::ptrdiff_t>(first));
    return order;
  }

  // A round that was cut off does not count.
  void even_out() {
    std::size_t least = samples_[0].size();
    for (const std::size_t i : entrants_) least = std::min(least, samples_[i].size());
    for (const std::size_t i : entrants_) samples_[i].resize(least);
  }

  void note_medians() {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!samples_[i].empty()) medians_[i] = median(samples_[i]);
    }
  }

  bool enough() const { return static_cast<int>(samples_[0].size()) >= rules_.least_rounds; }

  double best() const {
    double least = median(samples_[0]);
    for (const std::size_t i : entrants_) least = std::min(least, median(samples_[i]));
    return least;
  }

  void drop_hopeless() {
    if (samples_[0].empty()) return;
    const double limit = rules_.hopeless * best();
    std::erase_if(entrants_, [&](std::size_t i) { return i != 0 && median(samples_[i]) > limit; });
  }

  // The fastest ones and those close to them, in their order; configuration 0 in any case.
  void keep_finalists() {
    std::vector<double> medians;
    for (const std::size_t i : entrants_) medians.push_back(median(samples_[i]));
    std::ranges::sort(medians);
    const std::size_t last = std::min(rules_.finalists, medians.size()) - 1;
    const double limit = std::max(medians[last], medians[0] * (1 + rules_.close));
    std::erase_if(entrants_, [&](std::size_t i) { return i != 0 && median(samples_[i]) > limit; });
  }

  ContestResult judge() const {
    ContestResult result;
    result.partial = partial_;
    result.rounds = static_cast<int>(samples_[0].size());
    if (!enough()) {
      result.verdict = Verdict::kBudget;
      return result;
    }
    result.winner = winner();
    result.verdict = result.winner == 0 ? Verdict::kNoGain : Verdict::kGain;
    result.us = median(samples_[result.winner]);
    result.mad = deviation(samples_[result.winner]);
    result.default_us = median(samples_[0]);
    return result;
  }

  bool beats_zero(std::size_t candidate) const {
    const double zero = median(samples_[0]);
    const double saved = zero - median(samples_[candidate]);
    const double noise = std::max(deviation(samples_[candidate]), deviation(samples_[0]));
    return saved >= rules_.margin * zero && saved > rules_.noise_factor * noise;
  }

  // Of those that beat configuration 0, the first that noise does not tell from the fastest.
  std::size_t winner() const {
    std::vector<std::size_t> faster = entrants_;
    std::erase_if(faster, [&](std::size_t i) { return i == 0 || !beats_zero(i); });
    if (faster.empty()) return 0;
    const auto time = [&](std::size_t i) { return median(samples_[i]); };
    const double least = time(*std::ranges::min_element(faster, {}, time));
    return *std::ranges::find_if(
        faster, [&](std::size_t i) { return time(i) - deviation(samples_[i]) <= least; });
  }

  // Configuration 0 as fast as the device is now.
  std::optional<double> probe() {
    Samples samples;
    for (int i = 0; i < rules_.least_rounds; ++i) {
      if (expired_()) return std::nullopt;
      measure(0, samples);
    }
    return median(samples);
  }

  const std::function<double(std::size_t)>& measure_;
  const std::function<bool()>& expired_;
  const ContestRules& rules_;
  std::vector<std::size_t> entrants_;
  std::vector<Samples> samples_;  // microseconds, by candidate
  std::vector<double> medians_;   // of the last samples of each
  std::size_t turn_ = 0;
  bool partial_ = false;
};

}  // namespace

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGain:
      return "gain";
    case Verdict::kNoGain:
      return "no_gain";
    case Verdict::kDrift:
      return "drift";
    case Verdict::kBudget:
      return "budget";
  }
  return "unknown";
}

ContestResult hold_contest(std::size_t count, const std::function<double(std::size_t)>& measure,
                           const std::function<bool()>& expired, const ContestRules& rules) {
  ContestResult result = Attempt(count, measure, expired, rules).run();
  if (result.verdict != Verdict::kDrift) return result;
  return Attempt(count, measure, expired, rules).run();
}

}  // namespace attnjit::tuner
