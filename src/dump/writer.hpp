#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/file.hpp"
#include "dump/call.hpp"
#include "dump/elements.hpp"
#include "dump/file_format.hpp"
#include "dump/origin.hpp"
#include "dump/pages.hpp"

namespace attnjit::dump {

/// Writes a call before it is made, and its results after it. What is under a name is whole.
class CallWriter {
 public:
  /// Looks at which pages of a pool `call` reads. `name`: of the files, without what follows it.
  CallWriter(std::filesystem::path folder, std::string name, const Call& call, const Fetch& fetch);

  /// The bytes of both files, heads apart.
  std::uint64_t bytes() const;

  /// Writes the members and the inputs. Throws what `fetch` does.
  base::WriteResult write_call(const Origin& origin);

  /// Writes the outputs. After write_call().
  base::WriteResult write_results();

  std::filesystem::path call_file() const;

 private:
  base::WriteResult write(const std::filesystem::path& file, Content content,
                          const std::string& head, Role role);
  void write_part(base::AtomicFile& file, const Part& part) const;

  const std::filesystem::path folder_;
  const std::string name_;
  Call call_;
  const Fetch fetch_;
  std::optional<Pages> pages_;
  std::string digest_;  // of the call's file
};

}  // namespace attnjit::dump
