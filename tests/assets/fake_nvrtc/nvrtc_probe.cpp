// Prints the path of the NVRTC that a search of the given directories finds. A process of its own
// per search, because a library that was once opened answers all later searches.
#include <cstdio>

#include "attnjit/error.hpp"
#include "compiler/nvrtc.hpp"

int main(int argc, char** argv) {
  try {
    const attnjit::compiler::Nvrtc nvrtc(
        {.explicit_path = "", .directories = {argv + 1, argv + argc}});
    std::puts(nvrtc.path().c_str());
    return 0;
  } catch (const attnjit::Error& error) {
    std::puts(error.what());
    return 1;
  }
}
