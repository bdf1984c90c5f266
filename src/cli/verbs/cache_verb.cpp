#include <algorithm>
#include <iterator>
#include <optional>
#include <variant>

#include "base/json.hpp"
#include "cache/collector.hpp"
#include "cli/report/table.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bundle/bundle_report.hpp"

namespace attnjit::cli {
namespace {

constexpr std::size_t kShortKey = 12;       // digits that tables show
constexpr std::size_t kShortCompiler = 24;  // a host compiler's name is long; show has all of it

Json parse_meta(const cache::Entry& entry) {
  Json meta = base::try_parse_json(entry.meta_json);
  return meta.is_object() ? meta : Json::object();
}

Json entry_json(const cache::StoredFile& file, const cache::Entry& entry) {
  return {{"key", file.key},     {"arch", file.arch},          {"compiler", entry.compiler_id},
          {"bytes", file.bytes}, {"file", file.path.string()}, {"meta", parse_meta(entry)}};
}

// The kernel's name in its metadata; another program may have written it.
std::string title_of(const Json& meta) {
  const auto title = meta.find("title");
  return title != meta.end() && title->is_string() ? title->get<std::string>()
                                                   : "no title: its metadata is not readable";
}

ExitCode print_path(const cache::Store& store, Console& console) {
  if (!store.root()) {
    throw Error(ErrorKind::kCache,
                "there is no cache directory: kernels are kept in memory only; set "
                "ATTNJIT_CACHE_DIR to a directory");
  }
  console.print("{}", store.root()->string());
  console.print_json({{"path", store.root()->string()}});
  return ExitCode::kDone;
}

void print_bundles(const cache::BundlePath& bundles, Console& console) {
  for (const cache::Bundle& bundle : bundles.bundles()) {
    console.print("bundle {}", bundle_text(bundle));
  }
}

ExitCode list(const cache::Store& store, const cache::BundlePath& bundles, Console& console) {
  Table table({{"key"}, {"arch"}, {"size", true}, {"compiler"}, {"title"}});
  Json entries = Json::array();
  double bytes = 0;
  for (const cache::StoredFile& file : store.list()) {
    const auto result = store.read(file);
    bytes += static_cast<double>(file.bytes);
    const std::string size = human_bytes(static_cast<double>(file.bytes));
    const std::string key = file.key.substr(0, kShortKey);
    if (const auto* rejection = std::get_if<cache::Rejection>(&result)) {
      table.add({key, file.arch, size, "-", "not usable: " + rejection->reason});
      entries.push_back({{"key", file.key}, {"arch", file.arch}, {"error", rejection->reason}});
      continue;
    }
    Json entry = entry_json(file, std::get<cache::Entry>(result));
    table.add({key, file.arch, size, entry["compiler"].get<std::string>().substr(0, kShortCompiler),
               title_of(entry["meta"])});
    entries.push_back(std::move(entry));
  }
  if (!entries.empty()) console.print("{}", table.text());
  console.print("{} kernels, {}", entries.size(), human_bytes(bytes));
  print_bundles(bundles, console);
  console.print_json({{"entries", entries}, {"bytes", bytes}, {"bundles", bundles_json(bundles)}});
  return ExitCode::kDone;
}

// The one stored file whose key begins with `prefix`; nullopt where there is none.
std::optional<cache::StoredFile> find_file(const cache::Store& store, const std::string& prefix) {
  std::vector<cache::StoredFile> found = store.list();
  std::erase_if(found, [&](const auto& file) { return !file.key.starts_with(prefix); });
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  std::string matches;
  for (const auto& file : found) {
    matches += fmt::format("\n  {} for {} by compiler {}", file.key, file.arch, file.compiler_tag);
  }
  usage_error("{} kernels begin with {}; give more digits of one of{}", found.size(), prefix,
              matches);
}

// The message for a kernel that cannot be shown.
ExitCode refuse(const std::string& key, const std::string& message, Console& console) {
  console.error(message);
  console.print_json({{"key", key}, {"error", message}});
  return ExitCode::kVerification;
}

ExitCode show(const cache::Store& store, const std::string& key, Console& console) {
  const auto file = find_file(store, key);
  if (!file) {
    return refuse(key,
                  fmt::format("no kernel in the cache has a key that begins with {}; attnjit "
                              "cache ls lists them",
                              key),
                  console);
  }
  const auto result = store.read(*file);
  if (const auto* rejection = std::get_if<cache::Rejection>(&result)) {
    return refuse(file->key,
                  fmt::format("{}: {}; it is built again when needed", file->path.string(),
                              rejection->reason),
                  console);
  }
  const Json object = entry_json(*file, std::get<cache::Entry>(result));
  console.print("{}", base::dump_json(object, 2));
  console.print_json(object);
  return ExitCode::kDone;
}

ExitCode verify(const cache::Store& store, const tuner::RecordStore& records,
                const tuner::FaultStore& faults, Console& console) {
  const std::size_t total = store.list().size();
  std::vector<cache::BadEntry> found = store.verify();
  std::ranges::copy(records.verify(), std::back_inserter(found));
  std::ranges::copy(faults.verify(), std::back_inserter(found));
  Json bad = Json::array();
  for (const cache::BadEntry& entry : found) {
    console.print("{}: {}", entry.path.string(), entry.reason);
    bad.push_back({{"file", entry.path.string()}, {"reason", entry.reason}});
  }
  console.print("{} kernels, {} files not usable", total, bad.size());
  console.print_json({{"entries", total}, {"bad", bad}});
  if (!bad.empty()) {
    console.note("kernels are built again when needed; attnjit cache gc removes unfinished files");
  }
  return bad.empty() ? ExitCode::kDone : ExitCode::kVerification;
}

ExitCode stat(const cache::Store& store, const tuner::RecordStore& records,
              const tuner::FaultStore& faults, const cache::BundlePath& bundles,
              const base::Environment& environment, Console& console) {
  const cache::Size size = cache::size_of(store.list());
  const auto count = [&](const std::filesystem::path& directory) {
    return store.used() ? cache::children(directory).size() : 0;
  };
  const std::size_t unfinished = store.root() ? count(store.temporary_directory()) : 0;
  const std::size_t quarantined = store.root() ? count(store.quarantine_directory()) : 0;
  const std::size_t tuned = records.list().size();
  const std::size_t faulty = faults.list().size();
  const cache::SizeLimits limits{.bytes = environment.cache_max_bytes};
  console.print("{} kernels, {}", size.files, human_bytes(static_cast<double>(size.bytes)));
  console.print("limits: {}", limits.bytes == 0
                                  ? "none"
                                  : fmt::format("{} kernels, {}", limits.files,
                                                human_bytes(static_cast<double>(limits.bytes))));
  console.print("{} tuning records, {} faulty configurations", tuned, faulty);
  console.print("{} unfinished files, {} damaged kernels in quarantine", unfinished, quarantined);
  print_bundles(bundles, console);
  console.print_json({{"kernels", size.files},
                      {"bytes", size.bytes},
                      {"max_bytes", limits.bytes},
                      {"max_kernels", limits.bytes == 0 ? 0 : limits.files},
                      {"records", tuned},
                      {"faulty", faulty},
                      {"unfinished", unfinished},
                      {"quarantined", quarantined},
                      {"bundles", bundles_json(bundles)}});
  return ExitCode::kDone;
}

ExitCode collect(cache::Store& store, base::Log& log, const base::Environment& environment,
                 Console& console) {
  cache::Collector collector(store, {.bytes = environment.cache_max_bytes},
                             environment.lock_directory, log);
  const auto done = collector.collect();
  if (!done) {
    console.error(
        "nothing was done: no cache directory is in use, or another process cleans it now");
    console.print_json({{"error", "nothing was done"}});
    return ExitCode::kFailure;
  }
  console.print("{} kernels removed, {}; {} unfinished files removed; {} kernels left, {}",
                done->evicted.files, human_bytes(static_cast<double>(done->evicted.bytes)),
                done->swept, done->left.files, human_bytes(static_cast<double>(done->left.bytes)));
  console.print_json({{"removed", done->evicted.files},
                      {"removed_bytes", done->evicted.bytes},
                      {"unfinished_removed", done->swept},
                      {"kernels", done->left.files},
                      {"bytes", done->left.bytes}});
  return ExitCode::kDone;
}

ExitCode clear(cache::Store& store, Console& console) {
  const std::size_t removed = store.clear();
  console.print("{} kernels removed", removed);
  console.print_json({{"removed", removed}});
  return ExitCode::kDone;
}

}  // namespace

ExitCode cache(const CacheOptions& options, Session& session) {
  base::Log log(session.environment().log_level, session.log_sink());
  cache::Store store(session.environment().cache_directory, log);
  const tuner::RecordStore records(session.environment().cache_directory,
                                   session.environment().lock_directory, log);
  const tuner::FaultStore faults(session.environment().cache_directory, log);
  Console& console = session.console();
  switch (options.verb) {
    case CacheVerb::kPath:
      return print_path(store, console);
    case CacheVerb::kList:
      return list(store, cache::BundlePath(session.environment().bundle_path, log), console);
    case CacheVerb::kShow:
      return show(store, options.key, console);
    case CacheVerb::kVerify:
      return verify(store, records, faults, console);
    case CacheVerb::kStat:
      return stat(store, records, faults, cache::BundlePath(session.environment().bundle_path, log),
                  session.environment(), console);
    case CacheVerb::kCollect:
      return collect(store, log, session.environment(), console);
    case CacheVerb::kClear:
      return clear(store, console);
  }
  return ExitCode::kFailure;
}

}  // namespace attnjit::cli
