#include "tuner/fault_store.hpp"

#include <span>
#include <system_error>
#include <utility>

#include "attnjit/error.hpp"
#include "base/fields_json.hpp"
#include "base/file.hpp"

namespace attnjit::tuner {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFaultBytes = 64 * 1024;
constexpr std::string_view kDirectory = "faulty";

}  // namespace

std::string to_json(const Fault& fault) { return base::dump_json(base::to_json_value(fault)); }

Fault fault_from_json(std::string_view text) {
  return base::from_json_value<Fault>(base::parse_json(text), "faulty configuration");
}

FaultStore::FaultStore(std::optional<fs::path> root, base::Log& log)
    : root_(std::move(root), log), log_(log) {}

fs::path FaultStore::place(const std::string& id) const {
  return root_.version_directory() / kDirectory / (id + ".json");
}

std::vector<fs::path> FaultStore::files() const {
  if (!root_.trusted()) return {};
  return cache::children(root_.version_directory() / kDirectory);
}

std::variant<Fault, std::string> FaultStore::inspect(const fs::path& path) const try {
  const auto bytes = base::read_private_file(path, kMaxFaultBytes);
  if (!bytes) return "it is not a small regular file that only you can write";
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  auto fault = fault_from_json(text);
  if (place(fault.id) != path) return "it holds another fault than its name says";
  return fault;
} catch (const Error& error) {
  return error.what();
}

bool FaultStore::has(const std::string& id) const {
  {
    Memory& memory = *memory_;
    const std::scoped_lock lock(memory.mutex);
    if (memory.ids.contains(id)) return true;
  }
  if (!root_.trusted()) return false;
  const fs::path path = place(id);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return false;
  const auto result = inspect(path);
  if (const auto* const why = std::get_if<std::string>(&result)) {
    log_.info("{} is not used: {}", path.string(), *why);
    return false;
  }
  return true;
}

void FaultStore::remember(const std::string& id) {
  Memory& memory = *memory_;
  const std::scoped_lock lock(memory.mutex);
  memory.ids.insert(id);
}

std::optional<std::string> FaultStore::publish(const Fault& fault) {
  remember(fault.id);
  if (const auto why = root_.why_unused()) return why;
  const std::string text = to_json(fault) + '\n';
  return root_.write(place(fault.id), std::as_bytes(std::span(text)));
}

std::vector<Fault> FaultStore::list() const {
  std::vector<Fault> faults;
  for (const fs::path& path : files()) {
    auto result = inspect(path);
    if (auto* const fault = std::get_if<Fault>(&result)) faults.push_back(std::move(*fault));
  }
  return faults;
}

std::vector<cache::BadEntry> FaultStore::verify() const {
  std::vector<cache::BadEntry> bad;
  for (const fs::path& path : files()) {
    const auto result = inspect(path);
    if (const auto* const why = std::get_if<std::string>(&result)) bad.push_back({path, *why});
  }
  return bad;
}

}  // namespace attnjit::tuner
