#pragma once
#include <filesystem>
#include <string>

#include "dump/folder.hpp"
#include "dump/reader.hpp"
#include "dump/writer.hpp"
#include "instance/host_problem.hpp"

namespace attnjit::test {

inline constexpr std::uint64_t kDumpMemory = std::uint64_t{1} << 30;

inline dump::Call call_of(const instance::HostProblem& host) {
  return host.spec().backward ? dump::Call(host.backward_args()) : dump::Call(host.args());
}

/// Writes `call`, which is in host memory, and its results; the file of the call.
inline std::filesystem::path write_dump(const std::filesystem::path& folder, const dump::Call& call,
                                        const dump::Origin& origin = {},
                                        const std::string& name = "000001.test") {
  dump::CallWriter writer(folder, name, call, dump::fetch_from_host);
  const bool written = writer.write_call(origin).ok() && writer.write_results().ok();
  return written ? writer.call_file() : std::filesystem::path();
}

}  // namespace attnjit::test
