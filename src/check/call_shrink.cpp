#include "check/call_shrink.hpp"

#include <utility>

#include "check/call_features.hpp"

namespace attnjit::check {
namespace {

class Shrinker {
 public:
  Shrinker(dump::HostCall call, const std::function<bool(dump::HostCall&)>& fails, int most,
           unsigned jobs)
      : call_(std::move(call)), fails_(fails), most_(most), jobs_(jobs) {}

  ShrunkCall run() {
    take(with_plain_mask(call_, jobs_));
    for (bool smaller = true; smaller;) {
      smaller = take_sequence();
      for (Range CallCut::*axis :
           {&CallCut::batch, &CallCut::heads_kv, &CallCut::group, &CallCut::rows, &CallCut::keys}) {
        while (take_half(axis)) smaller = true;
      }
      for (const CallFeature& feature : call_features()) {
        if (take(drop_feature(call_, feature, jobs_))) smaller = true;
      }
    }
    return {std::move(call_), tried_};
  }

 private:
  // Goes on with `smaller` if it fails.
  bool take(std::optional<dump::HostCall> smaller) {
    if (!smaller || tried_ >= most_) return false;
    ++tried_;
    if (!fails_(*smaller)) return false;
    call_ = *std::move(smaller);
    return true;
  }

  // One of the packed sequences alone.
  bool take_sequence() {
    const ForwardArgs& args = call_.call().forward_args();
    if (args.cu_seqlens_q == nullptr || args.cu_seqlens_kv == nullptr) return false;
    for (std::int64_t n = 0; n < args.num_sequences; ++n) {
      CallCut cut = whole(args);
      cut.batch = {n, n + 1};
      cut.rows = {args.cu_seqlens_q[n], args.cu_seqlens_q[n + 1]};
      cut.keys = {args.cu_seqlens_kv[n], args.cu_seqlens_kv[n + 1]};
      const CallCut all = whole(args);
      const auto lies_in = [](const Range& part, const Range& range) {
        return part.begin >= 0 && part.size() > 0 && part.end <= range.end;
      };
      if (!lies_in(cut.rows, all.rows) || !lies_in(cut.keys, all.keys)) continue;
      if (take(cut_call(call_, cut, jobs_))) return true;
    }
    return false;
  }

  bool take_half(Range CallCut::*axis) {
    CallCut cut = whole(call_.call().forward_args());
    const std::int64_t size = (cut.*axis).size(), middle = (size + 1) / 2;
    if (size < 2 || call_.call().forward_args().cu_seqlens_q != nullptr) return false;
    for (const Range& half : {Range{0, middle}, Range{middle, size}}) {
      cut.*axis = half;
      if (take(cut_call(call_, cut, jobs_))) return true;
    }
    return false;
  }

  dump::HostCall call_;
  const std::function<bool(dump::HostCall&)>& fails_;
  const int most_;
  const unsigned jobs_;
  int tried_ = 0;
};

}  // namespace

ShrunkCall shrink_call(dump::HostCall call, const std::function<bool(dump::HostCall&)>& fails,
                       int most, unsigned jobs) {
  return Shrinker(std::move(call), fails, most, jobs).run();
}

}  // namespace attnjit::check
