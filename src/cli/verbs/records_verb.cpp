#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/json.hpp"
#include "cli/input/text_file.hpp"
#include "cli/report/kept.hpp"
#include "cli/report/output_file.hpp"
#include "cli/report/table.hpp"
#include "cli/report/tile_cell.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/work/bundle/imported.hpp"
#include "tuner/stale.hpp"

namespace attnjit::cli {
namespace {

constexpr std::size_t kShortId = 12;  // digits that tables show

std::string id_of(const tuner::AnyRecord& record) {
  return std::visit([](const auto& each) { return base::hex(tuner::RecordStore::id(each.key)); },
                    record);
}

bool is_stale(const tuner::AnyRecord& record) {
  return std::visit([](const auto& each) { return tuner::is_stale(each); }, record);
}

template <class PlanKey>
std::vector<std::string> table_row(const tuner::BasicRecord<PlanKey>& record, const std::string& id,
                                   bool shipped) {
  return {problem::describe(record.key.plan),
          id.substr(0, kShortId),
          record.key.device.name,
          tile_cell(record),
          fmt::format("{:.1f}", record.us),
          fmt::format("{:.1f} %", 100 * record.gain()),
          record.key.space,
          fmt::format("{}{}{}", record.library, shipped ? ", shipped" : "",
                      tuner::is_stale(record) ? ", stale" : "")};
}

ExitCode list(const tuner::RecordStore& store, bool with_shipped, Console& console) {
  Table table({{"problem"},
               {"id"},
               {"device"},
               {"tile"},
               {"us", true},
               {"gain", true},
               {"space"},
               {"library"}});
  Json entries = Json::array();
  const auto add = [&](const std::vector<tuner::AnyRecord>& records, bool shipped) {
    for (const tuner::AnyRecord& record : records) {
      const std::string id = id_of(record);
      std::visit([&](const auto& each) { table.add(table_row(each, id, shipped)); }, record);
      entries.push_back({{"id", id},
                         {"shipped", shipped},
                         {"stale", is_stale(record)},
                         {"record", base::parse_json(to_json(record))}});
    }
  };
  add(store.list(), false);
  if (with_shipped) add(store.list_shipped(), true);
  if (!entries.empty()) console.print("{}", table.text());
  console.print("{} records", entries.size());
  console.print_json({{"records", entries}});
  return ExitCode::kDone;
}

std::vector<tuner::AnyRecord> matching(std::vector<tuner::AnyRecord> records,
                                       const std::string& id) {
  std::erase_if(records, [&](const auto& record) { return !id_of(record).starts_with(id); });
  return records;
}

ExitCode show(const tuner::RecordStore& store, const std::string& id, Console& console) {
  std::vector<tuner::AnyRecord> found = matching(store.list(), id);
  if (found.empty()) found = matching(store.list_shipped(), id);
  if (found.size() > 1) {
    usage_error("{} records have an id that begins with {}; give more digits", found.size(), id);
  }
  if (found.empty()) {
    const std::string message =
        fmt::format("no record has an id that begins with {}; attnjit records ls lists them", id);
    console.error(message);
    console.print_json({{"id", id}, {"error", message}});
    return ExitCode::kVerification;
  }
  const Json object = base::parse_json(to_json(found.front()));
  console.print("{}", base::dump_json(object, 2));
  console.print_json({{"id", id_of(found.front())}, {"record", object}});
  return ExitCode::kDone;
}

/// Records of files, the better one of each key, and lines that hold none.
struct Gathered {
  std::map<std::string, tuner::AnyRecord> records;  ///< by id
  std::vector<std::string> rejected;                ///< file, line and reason
};

// Of two records of one key.
tuner::AnyRecord better_of(const tuner::AnyRecord& a, const tuner::AnyRecord& b) {
  return std::visit(
      [&](const auto& first) -> tuner::AnyRecord {
        return better(first, std::get<std::remove_cvref_t<decltype(first)>>(b));
      },
      a);
}

Gathered gather(const std::vector<std::string>& files) {
  Gathered gathered;
  for (const std::string& file : files) {
    std::istringstream stream(read_text_file("records", file));
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      try {
        const tuner::AnyRecord record = tuner::record_from_json(line);
        const auto [place, first] = gathered.records.emplace(id_of(record), record);
        if (!first) place->second = better_of(place->second, record);
      } catch (const Error& error) {
        gathered.rejected.push_back(fmt::format("{}:{}: {}", file, number, error.what()));
      }
    }
  }
  return gathered;
}

ExitCode outcome(const std::vector<std::string>& rejected, Console& console) {
  for (const std::string& text : rejected) console.error(text);
  return rejected.empty() ? ExitCode::kDone : ExitCode::kSomeFailed;
}

void write_lines(const std::vector<tuner::AnyRecord>& records, const std::string& output,
                 Console& console) {
  std::string text;
  for (const tuner::AnyRecord& record : records) text += to_json(record) + '\n';
  Json object = {{"written", records.size()}};
  if (!output.empty()) {
    write_file(output, text);
    object["file"] = output;
    console.note("{}: {} records", output, records.size());
  } else if (!console.json()) {
    console.out() << text;
  } else {
    object["text"] = text;
  }
  console.print_json(object);
}

ExitCode import(tuner::RecordStore& disk, const std::vector<std::string>& files, Console& console) {
  Gathered gathered = gather(files);
  Imported imported;
  std::map<std::string, std::size_t> devices;
  for (const auto& [id, record] : gathered.records) {
    ++devices[describe(device_of(record))];
    import_record(record, disk, imported);
  }
  for (std::string& text : gathered.rejected) imported.reject(std::move(text));
  // A record serves its own kind of device only; say which these are for.
  for (const auto& [device, count] : devices) console.print("{}: {} records", device, count);
  console.print("{}", imported.text());
  Json object = imported.json();
  object["devices"] = devices;
  console.print_json(object);
  imported.report_errors("records are", console);
  return kept_code(imported.there(), imported.missing());
}

ExitCode merge(const std::vector<std::string>& files, const std::string& output, Console& console) {
  const Gathered gathered = gather(files);
  std::vector<tuner::AnyRecord> records;
  for (const auto& [id, record] : gathered.records) records.push_back(record);
  write_lines(records, output, console);
  return outcome(gathered.rejected, console);
}

}  // namespace

ExitCode records(const RecordsOptions& options, Session& session) {
  const tuner::RecordStore& store = session.engine().records();
  Console& console = session.console();
  switch (options.verb) {
    case RecordsVerb::kList:
      return list(store, options.shipped, console);
    case RecordsVerb::kShow:
      return show(store, options.id, console);
    case RecordsVerb::kExport:
      write_lines(store.list(), options.output, console);
      return ExitCode::kDone;
    case RecordsVerb::kImport: {
      expect_cache(session.environment(), "records import");
      tuner::RecordStore disk = session.records_on_disk();
      return import(disk, options.files, console);
    }
    case RecordsVerb::kMerge:
      return merge(options.files, options.output, console);
  }
  return ExitCode::kFailure;
}

}  // namespace attnjit::cli
