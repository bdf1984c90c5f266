#pragma once
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "cache/root.hpp"
#include "cache/store.hpp"
#include "tuner/record.hpp"

namespace attnjit::tuner {

/// A configuration that hung or crashed a device: it is not tried there again.
struct Fault {
  std::string id;  ///< 64 hexadecimal digits: of device, configuration and its kernels' text
  DeviceClass device;
  std::string pass;       ///< "forward" or "backward"
  std::string problem;    ///< that it was met with, described
  std::string config;     ///< as codegen::describe_tile() has it
  std::string why;        ///< "signal 11 (Segmentation fault)"
  std::string library;    ///< version
  std::int64_t time = 0;  ///< seconds since 1970
};

constexpr auto fields(const Fault*) {
  using F = Fault;
  return base::fields_of<F>(base::Field{"id", &F::id}, base::Field{"device", &F::device},
                            base::Field{"pass", &F::pass}, base::Field{"problem", &F::problem},
                            base::Field{"config", &F::config}, base::Field{"why", &F::why},
                            base::Field{"library", &F::library}, base::Field{"time", &F::time});
}

/// A fault as one line of JSON, without its end.
std::string to_json(const Fault& fault);

/// The inverse. Throws Error(kInvalidEnvironment) where `text` is no fault, or has members that
/// this version does not know.
Fault fault_from_json(std::string_view text);

/// Faults on disk, one file each, <root>/v1/faulty/<id>.json, and ids of faults in memory; guarded
/// as RecordStore guards records. A changed template gives kernels of another text, and so another
/// id: what was repaired is tried. Thread-safe.
class FaultStore {
 public:
  /// `root` nullopt: there is no disk. `log` must outlive the store.
  FaultStore(std::optional<std::filesystem::path> root, base::Log& log);

  /// Whether there is a fault of that id in memory or on disk.
  bool has(const std::string& id) const;

  /// Keeps the id of a fault in memory.
  void remember(const std::string& id);

  /// Remembers the id of `fault`, and keeps all of it on disk if that can be done. Returns why it
  /// is not on disk; nullopt: it is.
  std::optional<std::string> publish(const Fault& fault);

  /// Every readable fault on disk, sorted by id.
  std::vector<Fault> list() const;

  /// The files on disk in a fault's place that hold none, and why.
  std::vector<cache::BadEntry> verify() const;

  /// The file of a fault. There must be a disk.
  std::filesystem::path place(const std::string& id) const;

 private:
  std::vector<std::filesystem::path> files() const;
  /// A fault, or why there is none.
  std::variant<Fault, std::string> inspect(const std::filesystem::path& path) const;

  cache::Root root_;
  base::Log& log_;
  struct Memory {
    std::mutex mutex;
    std::set<std::string> ids;
  };
  base::PerProcess<Memory> memory_;
};

}  // namespace attnjit::tuner
