#include "cli/input/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "cli/report/exit_code.hpp"

namespace attnjit::cli {

std::string read_text_file(std::string_view flag, const std::filesystem::path& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> buffer(std::size_t{1} << 16);
  std::string text;
  while (stream) {
    stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    text.append(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMaxTextBytes) {
      usage_error("{}: {} has more than {} bytes; name a smaller file", flag, file.string(),
                  kMaxTextBytes);
    }
  }
  if (!stream.eof()) {
    usage_error("{}: cannot read {}: {}; name a readable file", flag, file.string(),
                std::strerror(errno != 0 ? errno : EIO));
  }
  return text;
}

}  // namespace attnjit::cli
