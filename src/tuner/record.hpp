#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tuner/tuned.hpp"

namespace attnjit::tuner {

/// The properties of a device that decide which configuration is fastest. Devices of one class
/// share records.
struct DeviceClass {
  std::string name;  ///< as the driver has it, "NVIDIA H200"
  int sm_count = 0;
  std::string arch;  ///< "sm_90a"
  std::uint64_t l2_bytes = 0;

  auto operator<=>(const DeviceClass&) const = default;
};

constexpr auto fields(const DeviceClass*) {
  using D = DeviceClass;
  return base::fields_of<D>(base::Field{"name", &D::name}, base::Field{"sm_count", &D::sm_count},
                            base::Field{"arch", &D::arch}, base::Field{"l2_bytes", &D::l2_bytes});
}

/// "NVIDIA H200 (132 SMs, sm_90a)".
std::string describe(const DeviceClass& device);

/// The key of a record.
template <class PlanKey>
struct BasicTuneKey {
  DeviceClass device;
  PlanKey plan;
  std::string space;  ///< BasicSearchSpace::name()

  auto operator<=>(const BasicTuneKey&) const = default;
};

/// No timer of a device is finer, microseconds: samples that are equal to the digit are no proof of
/// no noise.
inline constexpr double kTimerStepUs = 0.01;

/// The configuration that won a contest, and how.
template <class PlanKey>
struct BasicRecord {
  BasicTuneKey<PlanKey> key;
  std::string exact;  ///< the problem that was measured, described
  TunablesFor<PlanKey> config{};

  std::string verdict;    ///< "gain" or "no_gain"
  double us = 0;          ///< of `config`, microseconds; above 0
  double mad = 0;         ///< median absolute deviation; from kTimerStepUs to `us`
  double default_us = 0;  ///< of configuration 0
  int rounds = 0;
  bool partial = false;  ///< not all candidates were measured

  // Its origin. Not part of the key: a record of another version is still used.
  std::string library;    ///< version
  std::string nvrtc;      ///< version
  int driver = 0;         ///< CUDA version of the driver, 1000 * major + 10 * minor
  std::int64_t time = 0;  ///< seconds since 1970

  double gain() const { return default_us > 0 ? 1 - us / default_us : 0; }
};

using TuneKey = BasicTuneKey<problem::PlanKey>;
using Record = BasicRecord<problem::PlanKey>;
using BackwardTuneKey = BasicTuneKey<problem::BackwardPlanKey>;
using BackwardRecord = BasicRecord<problem::BackwardPlanKey>;

/// A record of either pass.
using AnyRecord = std::variant<Record, BackwardRecord>;

const DeviceClass& device_of(const AnyRecord& record);

/// One line of JSON with every value by name.
template <class PlanKey>
std::string to_json(const BasicRecord<PlanKey>& record);
std::string to_json(const AnyRecord& record);

/// The beginning of that line in every record of `key`, and in no other.
template <class PlanKey>
std::string beginning_of_line(const BasicTuneKey<PlanKey>& key);

/// The inverse. Unknown members are ignored, but not in the key or the config: another version
/// may mean something else. Throws Error(kCache) that says what is wrong: malformed text, a missing
/// member, a value of another type, an integer that is not exact or out of range, times and noise
/// that cannot be, a configuration that is not legal for its own family and architecture.
AnyRecord record_from_json(std::string_view text);

/// Which of two records of one key to keep: the one with less relative noise, then the newer one,
/// then by their text, so that the order of merging does not matter.
template <class PlanKey>
const BasicRecord<PlanKey>& better(const BasicRecord<PlanKey>& a, const BasicRecord<PlanKey>& b);

}  // namespace attnjit::tuner
