#include "dump/folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

#include "attnjit/error.hpp"
#include "base/file.hpp"
#include "base/temporary_name.hpp"
#include "cache/directory.hpp"
#include "dump/file_format.hpp"

namespace attnjit::dump {
namespace {

constexpr std::string_view kReadme =
    "The files in this folder hold user data: the tensors of calls, whole.\n"
    "\n"
    "ATTNJIT_DUMP_CALLS wrote them. NAME.call is a call before it was made, NAME.results what it\n"
    "left; a call without results never returned. `attnjit replay FOLDER` runs and judges them.\n"
    "Delete the folder when it has served.\n";

}  // namespace

std::optional<std::string> why_no_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = cache::normal_form(folder);
  if (const int error = cache::make_private_directories(path); error != 0) {
    return fmt::format("it cannot be made ({})", std::strerror(error));
  }
  if (auto rule = cache::why_untrusted(path)) return rule;
  std::error_code absent;
  if (std::filesystem::exists(path / "README", absent)) return std::nullopt;
  const base::WriteResult result =
      base::write_file_atomic(path / "README", path, std::as_bytes(std::span(kReadme)));
  return result.ok() ? std::nullopt : std::optional(result.message());
}

std::vector<std::filesystem::path> list_calls(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == kCallSuffix) files.push_back(entry->path());
  }
  if (error) {
    throw Error(ErrorKind::kInvalidEnvironment,
                fmt::format("{}: {}; expected a folder that ATTNJIT_DUMP_CALLS names",
                            folder.string(), error.message()));
  }
  std::ranges::sort(files);
  return files;
}

std::string call_name(std::int64_t number) {
  const std::string unique = base::temporary_name();
  return fmt::format("{:06}.{}", number, unique.substr(0, unique.rfind('.')));
}

}  // namespace attnjit::dump
