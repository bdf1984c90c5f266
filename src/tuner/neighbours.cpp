#include "tuner/neighbours.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>

namespace attnjit::tuner {
namespace {

struct Step {
  std::int32_t bucket;
  int distance;
};

// `bucket` and those next to it among `buckets`.
std::vector<Step> steps(std::span<const std::int32_t> buckets, std::int32_t bucket) {
  const auto at = std::ranges::find(buckets, bucket);
  std::vector<Step> list = {{bucket, 0}};
  if (at == buckets.end()) return list;
  if (at != buckets.begin()) list.push_back({*(at - 1), 1});
  if (at + 1 != buckets.end()) list.push_back({*(at + 1), 1});
  return list;
}

std::vector<Step> length_steps(std::int32_t bucket) {
  const std::span<const std::int32_t> lengths = problem::kLengthBuckets;
  return bucket == lengths.front() ? std::vector<Step>{{bucket, 0}}
                                   : steps(lengths.subspan(1), bucket);
}

}  // namespace

template <class PlanKey>
std::vector<PlanKey> neighbours(const PlanKey& key) {
  struct Place {
    PlanKey key;
    int distance;
    double work;
  };
  std::vector<Place> places;
  for (const Step& q : length_steps(key.bucket_q)) {
    for (const Step& kv : length_steps(key.bucket_kv)) {
      for (const Step& planes : steps(problem::kPlaneBuckets, key.bucket_planes)) {
        const int distance = q.distance + kv.distance + planes.distance;
        if (distance == 0) continue;
        PlanKey near = key;
        near.bucket_q = q.bucket;
        near.bucket_kv = kv.bucket;
        near.bucket_planes = planes.bucket;
        places.push_back({near, distance, double(q.bucket) * kv.bucket * planes.bucket});
      }
    }
  }
  std::ranges::stable_sort(places, {},
                           [](const Place& p) { return std::tuple(p.distance, p.work); });
  std::vector<PlanKey> keys;
  for (const Place& place : places) keys.push_back(place.key);
  return keys;
}

template std::vector<problem::PlanKey> neighbours(const problem::PlanKey&);
template std::vector<problem::BackwardPlanKey> neighbours(const problem::BackwardPlanKey&);

}  // namespace attnjit::tuner
