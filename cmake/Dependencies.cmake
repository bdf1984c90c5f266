# System packages first, a pinned download second. Offline builds with local sources:
#   -DFETCHCONTENT_SOURCE_DIR_FMT=... -DFETCHCONTENT_FULLY_DISCONNECTED=ON
include(FetchContent)
find_package(Threads REQUIRED)
# CMake looks at CUDA_PATH by itself, but not at its other common name.
if(DEFINED ENV{CUDA_HOME} AND NOT DEFINED ENV{CUDA_PATH} AND NOT CUDAToolkit_ROOT)
  set(CUDAToolkit_ROOT $ENV{CUDA_HOME})
endif()
# Headers only: libcuda and libnvrtc are opened at run time.
find_package(CUDAToolkit 12.4 REQUIRED)

FetchContent_Declare(fmt
  URL https://github.com/fmtlib/fmt/releases/download/11.2.0/fmt-11.2.0.zip
  FIND_PACKAGE_ARGS 9 CONFIG)
FetchContent_Declare(nlohmann_json
  URL https://github.com/nlohmann/json/releases/download/v3.12.0/json.tar.xz
  FIND_PACKAGE_ARGS 3.11 CONFIG)
FetchContent_MakeAvailable(fmt nlohmann_json)

# attnjit_fmt: fmt as a static library.
get_target_property(fmt_type fmt::fmt TYPE)
if(fmt_type STREQUAL "STATIC_LIBRARY")
  add_library(attnjit_fmt ALIAS fmt::fmt)
else()
  add_library(attnjit_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_library.cpp)
  target_include_directories(attnjit_fmt SYSTEM PUBLIC
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
endif()

if(ATTNJIT_BUILD_EXECUTOR)
  find_package(Boost 1.74 REQUIRED COMPONENTS context)
endif()
if(ATTNJIT_BUILD_CLI)
  FetchContent_Declare(CLI11
    URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.5.0.tar.gz
    FIND_PACKAGE_ARGS 2.1 CONFIG)
  FetchContent_MakeAvailable(CLI11)
endif()
if(ATTNJIT_BUILD_TESTS)
  FetchContent_Declare(doctest
    URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.12.tar.gz
    FIND_PACKAGE_ARGS 2.4.9 CONFIG)
  FetchContent_MakeAvailable(doctest)
endif()
