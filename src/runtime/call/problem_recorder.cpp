#include "runtime/call/problem_recorder.hpp"

#include <fmt/format.h>

#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.hpp"

namespace attnjit::runtime {
namespace {

// Whether `line` is one of the lines of `text` that have an end.
bool has_line(std::string_view text, std::string_view line) {
  for (std::size_t at = text.find(line); at != std::string_view::npos;
       at = text.find(line, at + 1)) {
    const std::size_t end = at + line.size();
    const bool begins = at == 0 || text[at - 1] == '\n';
    if (begins && end < text.size() && text[end] == '\n') return true;
  }
  return false;
}

}  // namespace

ProblemRecorder::ProblemRecorder(std::optional<std::filesystem::path> file, base::Log& log)
    : file_(std::move(file)), log_(log) {}

void ProblemRecorder::note(const std::string& manifest_line) {
  if (!file_) return;
  std::error_code absent;
  if (const auto bytes = std::filesystem::file_size(*file_, absent); !absent && bytes > kMaxBytes) {
    log_.warn_once("record size", fmt::format("ATTNJIT_RECORD: {} has more than {} bytes and gets "
                                              "no more lines; move it away",
                                              file_->string(), kMaxBytes));
    return;
  }
  const auto bytes = base::read_regular_file(*file_, kMaxBytes);
  const std::string_view text =
      bytes ? std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
  if (has_line(text, manifest_line)) return;
  // A line that was cut short, by a full disk for instance, must not take this one with it.
  const bool torn = !text.empty() && text.back() != '\n';
  const base::WriteResult result =
      base::append_line(*file_, torn ? '\n' + manifest_line : manifest_line);
  if (result.ok()) return;
  log_.warn_once("record file",
                 fmt::format("ATTNJIT_RECORD: cannot append to {} ({}); name a file in a directory "
                             "that you can write",
                             file_->string(), result.message()));
}

}  // namespace attnjit::runtime
