#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/nvrtc.hpp"

namespace attnjit::compiler {

/// One NVRTC program: a source, and after compile() what became of it.
class Program {
 public:
  /// `name` stands for the file in the log.
  Program(const Nvrtc& nvrtc, const std::string& source, const std::string& name);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult compile(const std::vector<std::string>& options);

  std::string log() const;
  std::string ptx() const;
  std::vector<std::byte> cubin() const;

 private:
  void check(nvrtcResult result, std::string_view what) const;
  template <class GetSize, class Get>
  std::string text(GetSize get_size, Get get, std::string_view what) const;

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace attnjit::compiler
