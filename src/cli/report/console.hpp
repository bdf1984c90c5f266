#pragma once
#include <fmt/format.h>

#include <ostream>
#include <string_view>
#include <utility>

#include "base/json_fwd.hpp"

namespace attnjit::cli {

using base::Json;

/// How much goes to stderr besides errors.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// The way of a verb's words: data to `out`, everything else to `err`. With `json`, the data is one
/// JSON object and the text form is not written. Control characters in lines of text, but for line
/// ends and tabs, are written as "\x1b".
class Console {
 public:
  Console(std::ostream& out, std::ostream& err, bool json, Verbosity verbosity)
      : out_(out), err_(err), json_(json), verbosity_(verbosity) {}

  bool json() const { return json_; }
  Verbosity verbosity() const { return verbosity_; }
  std::ostream& out() { return out_; }

  /// A line of data.
  template <class... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) {
    if (!json_) write(out_, fmt::format(text, std::forward<Args>(args)...));
  }
  /// The data as a JSON object; `object` gets the member "schema" in front.
  void print_json(const Json& object);

  /// A line for people that no program needs.
  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    if (verbosity_ != Verbosity::kQuiet) {
      write(err_, fmt::format(text, std::forward<Args>(args)...));
    }
  }
  void error(std::string_view message);

  /// Whether progress() shows anything.
  bool has_progress() const;

  /// "3/20 name" on one line that overwrites itself, where stderr is a terminal; an empty `name`
  /// erases it.
  void progress(std::size_t done, std::size_t total, std::string_view name);

 private:
  static void write(std::ostream& stream, std::string_view line);

  std::ostream& out_;
  std::ostream& err_;
  bool json_;
  Verbosity verbosity_;
};

}  // namespace attnjit::cli
