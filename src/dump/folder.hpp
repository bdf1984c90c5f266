#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attnjit::dump {

/// Makes `folder`, mode 0700, with a README whose first line says that it holds user data. The rule
/// that makes it unfit, such as one that others may write to, or the failure, as a sentence;
/// nullopt where calls can be written there.
std::optional<std::string> why_no_folder(const std::filesystem::path& folder);

/// The files of calls in `folder`, by name, which is the order in which a process made them.
/// Throws Error(kInvalidEnvironment) where it cannot be read.
std::vector<std::filesystem::path> list_calls(const std::filesystem::path& folder);

/// A name for the files of call `number`, which no other process or context comes up with.
std::string call_name(std::int64_t number);

}  // namespace attnjit::dump
