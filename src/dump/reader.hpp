#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/random_access_file.hpp"
#include "dump/file_format.hpp"
#include "dump/host_call.hpp"
#include "dump/origin.hpp"

namespace attnjit::dump {

/// Outputs of a call as they were after it, packed, by the part's place in Call::parts(); empty
/// for inputs.
using Results = std::vector<std::vector<std::byte>>;

/// A call that CallWriter has written.
class CallFile {
 public:
  /// Reads all but the tensors. Throws Error(kInvalidEnvironment) that names the file and says why
  /// it is none: absent, a link, writable by others, damaged, or of another format.
  static CallFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const Origin& origin() const { return origin_; }
  /// With the addresses of call_from_json().
  const Call& call() const { return call_; }

  /// Reads the inputs; outputs are NaN. Throws as open() does where they are damaged, and
  /// Error(kUnsupported) where they take more than `max_bytes`.
  HostCall load(std::uint64_t max_bytes) const;

  /// Reads the outputs; nullopt where the call never returned. Throws as open() does.
  std::optional<Results> load_results() const;

 private:
  CallFile(std::filesystem::path path, base::RandomAccessFile file, std::uint64_t begin,
           base::Digest digest, Origin origin, Call call);

  std::filesystem::path path_;
  base::RandomAccessFile file_;
  std::uint64_t begin_;  // of the tensors
  base::Digest digest_;
  Origin origin_;
  Call call_;
};

}  // namespace attnjit::dump
