#pragma once
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli_fixtures.hpp"

namespace attnjit::test {

/// The result of one run of a program.
struct Outcome {
  int code = -1;
  std::string out;
  std::string err;

  base::Json json() const { return base::parse_json(out); }
};

/// Whether `part` is in `text`.
inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// `text` as one word of a shell command.
inline std::string quoted(const std::string& text) {
  std::string result(1, '\'');
  for (const char c : text) {
    if (c == '\'') {
      result.append("'\\''");
    } else {
      result.push_back(c);
    }
  }
  result.push_back('\'');
  return result;
}

/// Starts the attnjit binary with a cache of its own, and without a GPU even where there is one.
class CommandLine {
 public:
  using Variables = std::map<std::string, std::string>;

  /// `prefix` are words of a shell command that runs the one which follows them.
  Outcome operator()(const std::vector<std::string>& arguments, const Variables& set = {},
                     const std::string& prefix = "") const {
    Variables variables = {{"ATTNJIT_CACHE_DIR", cache().string()}, {"CUDA_VISIBLE_DEVICES", ""}};
    for (const auto& [name, value] : set) variables[name] = value;
    std::string command = prefix + " env";
    for (const auto& [name, value] : variables)
      command += fmt::format(" {}", quoted(name + "=" + value));
    command += fmt::format(" {}", quoted(ATTNJIT_BINARY));
    for (const std::string& argument : arguments) command += fmt::format(" {}", quoted(argument));
    command += fmt::format(" </dev/null >{} 2>{}", quoted(file("out")), quoted(file("err")));
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(file("out")),
            read_file(file("err"))};
  }

  std::string file(const std::string& name) const { return (directory_ / name).string(); }
  std::filesystem::path cache() const { return directory_ / "cache"; }

  /// The only kernel in the cache.
  std::filesystem::path entry() const {
    std::vector<std::filesystem::path> found;
    for (const auto& item : std::filesystem::recursive_directory_iterator(cache())) {
      if (item.path().extension() == ".atk") found.push_back(item.path());
    }
    REQUIRE(found.size() == 1);
    return found.front();
  }

  /// A copy of templates/ in which `name` has `after` where it has `before`.
  std::string changed_templates(const std::string& name, const std::string& before,
                                const std::string& after) const {
    const std::filesystem::path copy = file("templates");
    std::filesystem::copy(std::filesystem::path(ATTNJIT_SOURCE_DIR) / "templates", copy,
                          std::filesystem::copy_options::recursive);
    std::string text = read_file(copy / "attnjit" / name);
    const std::size_t place = text.find(before);
    REQUIRE(place != std::string::npos);
    write_file(copy / "attnjit" / name, text.replace(place, before.size(), after));
    return copy.string();
  }

 private:
  TempDirectory directory_;
};

/// Flags of a kernel that compiles quickly.
inline std::vector<std::string> small_problem(std::vector<std::string> front) {
  for (const char* flag :
       {"--heads-q", "2", "--seqlen-q", "64", "--head-dim", "32", "--arch", "sm_80"}) {
    front.emplace_back(flag);
  }
  return front;
}

}  // namespace attnjit::test
