// ARCHITECTURE.md's table of rooms, held against the tree.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Rooms = std::vector<std::string>;  // below src, in the order of the table: "base", "cli/work"

const fs::path kRoot = ATTNJIT_SOURCE_DIR;

void for_each_match(const fs::path& file, const char* pattern,
                    const std::function<void(std::size_t, const std::string&)>& visit) {
  const std::regex regex(pattern);
  std::ifstream stream(file);
  REQUIRE_MESSAGE(stream.good(), "cannot read ", file.string());
  std::size_t number = 1;
  for (std::string line; std::getline(stream, line); ++number) {
    if (std::smatch match; std::regex_search(line, match, regex)) visit(number, match[1]);
  }
}

Rooms listed_rooms() {
  Rooms rooms;
  for_each_match(kRoot / "ARCHITECTURE.md", R"(^\| `src/([\w/]+)` \|)",
                 [&](std::size_t, const std::string& room) { rooms.push_back(room); });
  REQUIRE_MESSAGE(!rooms.empty(), "ARCHITECTURE.md has no row that begins with | `src/ROOM` |");
  return rooms;
}

// The place of the room that `path` lies in, the innermost one; rooms.size() if it lies in none.
std::size_t place_of(const std::string& path, const Rooms& rooms) {
  const std::string directory = path.substr(0, path.find_last_of('/'));
  std::size_t place = rooms.size(), length = 0;
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    if ((directory + "/").starts_with(rooms[i] + "/") && rooms[i].size() > length) {
      place = i;
      length = rooms[i].size();
    }
  }
  return place;
}

void check_file(const fs::path& path, const Rooms& rooms) {
  const std::string file = fs::relative(path, kRoot / "src").generic_string();
  const std::size_t from = place_of(file, rooms);
  CHECK_MESSAGE(from < rooms.size(), "src/", file, " lies in no room of the table");
  for_each_match(
      path, "^ *# *include *\"([^\"]+)\"", [&](std::size_t line, const std::string& name) {
        // The public headers, and those that kernels share with the host, belong to no room.
        if (from == rooms.size() || name.starts_with("attnjit/") || name == "attnjit.h") return;
        const std::size_t to = place_of(name, rooms);
        const std::string where = "src/" + file + ":" + std::to_string(line);
        const std::string what = " of room " + rooms[from] + " includes \"" + name + "\" of ";
        CHECK_MESSAGE(to < rooms.size(), where, what, "no room of the table");
        if (to < rooms.size())
          CHECK_MESSAGE(to <= from, where, what, rooms[to], ", which is below it");
      });
}

TEST_CASE("no include runs against the table of rooms") {
  const Rooms rooms = listed_rooms();
  for (const std::string& room : rooms) {
    CHECK_MESSAGE(fs::is_directory(kRoot / "src" / room), "src/", room, " is not there");
  }
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    if (entry.is_regular_file()) check_file(entry.path(), rooms);
  }
}

TEST_CASE("every directory beside a room or shelf of the table is in it") {
  const Rooms rooms = listed_rooms();
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    const std::string path = fs::relative(entry.path(), kRoot / "src").generic_string();
    const auto is_beside = [parent = path.substr(0, path.find_last_of('/') + 1)](const auto& room) {
      return room.size() > parent.size() && room.starts_with(parent);
    };
    // One that has shelves is in the table by these.
    const auto is_within = [&](const std::string& room) { return room.starts_with(path + "/"); };
    if (!entry.is_directory() || std::ranges::none_of(rooms, is_beside) ||
        std::ranges::any_of(rooms, is_within)) {
      continue;
    }
    CHECK_MESSAGE(std::ranges::count(rooms, path) == 1, "src/", path, " is not in the table");
  }
}

// Fails where a file of `directory` below templates/attnjit includes what `pattern` finds.
void check_templates(const fs::path& directory, const std::string& pattern) {
  const fs::path kTemplates = kRoot / "templates/attnjit";
  REQUIRE_MESSAGE(fs::is_directory(kTemplates / directory), directory.string(), " is not there");
  for (const auto& entry : fs::directory_iterator(kTemplates / directory)) {
    for_each_match(entry.path(), ("^ *# *include *[\"<]attnjit/(" + pattern + ")[\">]").c_str(),
                   [&](std::size_t line, const std::string& name) {
                     FAIL_CHECK(entry.path().string(), ":", line, ": includes ", name);
                   });
  }
}

TEST_CASE("primitives know nothing of tiles, and tiles nothing of the features of scores") {
  check_templates("ptx", "(?:tile|score|forward|backward|prepass)/.*");
  check_templates("tile", "(?:score|forward|backward|prepass)/.*");
}

TEST_CASE("no main loop includes another's folder, and what they share includes none") {
  int loops = 0;
  for (const char* pass : {"forward", "backward"}) {
    check_templates(pass, ".*/.*/.*");
    for (const auto& entry : fs::directory_iterator(kRoot / "templates/attnjit" / pass)) {
      if (!entry.is_directory()) continue;
      const std::string loop = entry.path().filename().string();
      check_templates(fs::path(pass) / loop, ".*/(?!" + loop + "/).*/.*");
      ++loops;
    }
  }
  CHECK(loops == 6);
}

}  // namespace
