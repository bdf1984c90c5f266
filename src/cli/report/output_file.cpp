#include "cli/report/output_file.hpp"

#include <fmt/format.h>

#include <fstream>

#include "attnjit/error.hpp"

namespace attnjit::cli {

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream) {
    throw Error(
        ErrorKind::kCache,
        fmt::format("cannot write {}; name a file in a directory that you can write", path));
  }
}

}  // namespace attnjit::cli
