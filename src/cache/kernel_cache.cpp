#include "cache/kernel_cache.hpp"

#include <fmt/format.h>

#include <utility>

#include "attnjit/error.hpp"
#include "cache/cubin.hpp"

namespace attnjit::cache {
namespace {

/// A source that does not compile will not the next time either. Everything else that stops a build
/// can pass: no memory, no compiler, no permission to compile.
bool is_lasting(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kCompile;
  } catch (...) {
    return false;
  }
}

}  // namespace

KernelCache::KernelCache(KernelCacheOptions options, CompilerIdentity compiler, base::Log& log)
    : options_(std::move(options)),
      log_(log),
      store_(options_.directory, log),
      collector_(store_, options_.limits, options_.lock_directory, log),
      compiler_(std::move(compiler)) {}

Fetched KernelCache::fetch(const KernelKey& key, const std::string& arch,
                           const std::function<Entry()>& build) {
  const auto own = std::make_shared<Flight>();
  const std::shared_ptr<Flight> flight = join(key, own);
  if (flight != own) {
    Fetched fetched = flight->result.get();
    fetched.origin = Fetched::Origin::kMemory;
    ++memory_hits_;
    return fetched;
  }
  try {
    own->promise.set_value(load_or_build(key, arch, build));
  } catch (...) {
    if (!is_lasting(std::current_exception())) forget(key, own);
    own->promise.set_exception(std::current_exception());
  }
  return own->result.get();
}

std::shared_ptr<KernelCache::Flight> KernelCache::join(const KernelKey& key,
                                                       const std::shared_ptr<Flight>& own) {
  State& state = *state_;
  const std::scoped_lock lock(state.flights_mutex);
  return state.flights.try_emplace(key, own).first->second;
}

void KernelCache::forget(const KernelKey& key, const std::shared_ptr<Flight>& flight) {
  State& state = *state_;
  const std::scoped_lock lock(state.flights_mutex);
  const auto found = state.flights.find(key);
  // After a reset() the key may have another flight.
  if (found != state.flights.end() && found->second == flight) state.flights.erase(found);
}

Fetched KernelCache::load_or_build(const KernelKey& key, const std::string& arch,
                                   const std::function<Entry()>& build) {
  if (auto entry = find_in_bundles(key, arch)) {
    ++bundle_hits_;
    return {std::make_shared<Entry>(*std::move(entry)), Fetched::Origin::kBundle, std::nullopt};
  }
  const std::string likely = likely_compiler_id();
  if (auto found = find_on_disk(key, arch, likely)) return *std::move(found);
  const std::unique_ptr<FileLock> held = lock(key);
  if (held) {
    // The process that held the lock may have built this kernel.
    if (auto found = find_on_disk(key, arch, likely)) return *std::move(found);
    const std::string exact = exact_compiler_id();
    if (exact != likely) {
      if (auto found = find_on_disk(key, arch, exact)) return *std::move(found);
    }
  }
  Entry built = build_counted(key, arch, build);
  auto why_not_kept = publish(built);
  return {std::make_shared<Entry>(std::move(built)), Fetched::Origin::kBuild,
          std::move(why_not_kept)};
}

std::unique_ptr<FileLock> KernelCache::lock(const KernelKey& key) {
  if (!store_.root()) return nullptr;
  const auto path = options_.lock_directory / lock_name(store_.root_digest(), key.digest);
  auto lock = std::make_unique<FileLock>(path, options_.lock_budget, log_);
  if (lock->outcome() == FileLock::Outcome::kBusy) ++lock_timeouts_;
  return lock;
}

Entry KernelCache::build_counted(const KernelKey& key, const std::string& arch,
                                 const std::function<Entry()>& build) {
  Entry built = build();
  if (const auto why = why_not_code(built.cubin, arch)) {
    throw Error(
        ErrorKind::kNoCompiler,
        fmt::format("the compiler made no kernel: {}; set ATTNJIT_NVRTC to another NVRTC", *why));
  }
  ++builds_;
  built.key = key;
  built.arch = arch;
  built.compiler_id = exact_compiler_id();
  return built;
}

SecondEntry KernelCache::second_entry(const Entry& refused, const std::function<Entry()>& build) {
  auto held = lock(refused.key);
  auto other = find_on_disk(refused.key, refused.arch, exact_compiler_id());
  if (other && other->entry->cubin != refused.cubin) {
    return {std::move(held), *other->entry};
  }
  return {std::move(held), build_counted(refused.key, refused.arch, build)};
}

std::optional<std::string> KernelCache::publish(const Entry& entry) {
  auto why_not_kept = store_.publish(entry);
  if (!why_not_kept) collector_.note_write(entry.cubin.size());
  return why_not_kept;
}

void KernelCache::replace(Entry entry) {
  const auto kept = std::make_shared<const Entry>(std::move(entry));
  const auto present = store_.find(kept->key, kept->arch, kept->compiler_id);
  const bool there = present && present->cubin == kept->cubin;
  const auto why_not_kept = there ? std::nullopt : store_.replace(*kept);
  if (!there && !why_not_kept) collector_.note_write(kept->cubin.size());
  const auto flight = std::make_shared<Flight>();
  flight->promise.set_value({kept, Fetched::Origin::kBuild, why_not_kept});
  State& state = *state_;
  const std::scoped_lock lock(state.flights_mutex);
  state.flights.insert_or_assign(kept->key, flight);
}

std::optional<Fetched> KernelCache::look_up(const KernelKey& key, const std::string& arch) {
  const auto fetched = [](std::optional<Entry> entry, Fetched::Origin origin) {
    return entry ? std::optional(Fetched{std::make_shared<Entry>(*std::move(entry)), origin, {}})
                 : std::nullopt;
  };
  if (auto found = fetched(find_in_bundles(key, arch), Fetched::Origin::kBundle)) return found;
  if (!store_.root()) return std::nullopt;
  const std::string likely = likely_compiler_id();
  auto entry = store_.find(key, arch, likely);
  if (!entry) {
    const std::string exact = exact_compiler_id();
    if (exact != likely) entry = store_.find(key, arch, exact);
  }
  return fetched(std::move(entry), Fetched::Origin::kDisk);
}

std::optional<Entry> KernelCache::find_in_bundles(const KernelKey& key,
                                                  const std::string& arch) const {
  return options_.bundles != nullptr ? options_.bundles->find(key, arch) : std::nullopt;
}

std::optional<Fetched> KernelCache::find_on_disk(const KernelKey& key, const std::string& arch,
                                                 const std::string& compiler_id) {
  if (!store_.root()) return std::nullopt;
  auto entry = store_.find(key, arch, compiler_id);
  if (!entry) return std::nullopt;
  ++disk_hits_;
  return Fetched{std::make_shared<Entry>(*std::move(entry)), Fetched::Origin::kDisk, std::nullopt};
}

std::string KernelCache::likely_compiler_id() {
  State& state = *state_;
  const std::scoped_lock lock(state.compiler_mutex);
  if (!state.exact_id.empty()) return state.exact_id;
  if (state.likely_id.empty()) state.likely_id = compiler_.likely();
  return state.likely_id;
}

std::string KernelCache::exact_compiler_id() {
  State& state = *state_;
  const std::scoped_lock lock(state.compiler_mutex);
  if (state.exact_id.empty()) state.exact_id = compiler_.exact();
  return state.exact_id;
}

void KernelCache::reset() {
  State& state = *state_;
  const std::scoped_lock lock(state.flights_mutex);
  state.flights.clear();
}

Counters KernelCache::counters() const {
  return {.memory_hits = memory_hits_,
          .bundle_hits = bundle_hits_,
          .disk_hits = disk_hits_,
          .builds = builds_,
          .corrupt = store_.corrupt() + (options_.bundles ? options_.bundles->corrupt() : 0),
          .write_failures = store_.write_failures(),
          .lock_timeouts = lock_timeouts_};
}

}  // namespace attnjit::cache
