# Flags that every target of this project is built with.
add_library(attnjit_flags INTERFACE)
target_compile_options(attnjit_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                                               -Wno-missing-field-initializers
  # False positives: inside libstdc++ 12, and of files that are compiled together.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict -Wno-array-bounds -Wno-subobject-linkage>
  # The compiler collects no garbage before it has 512 MiB, which few files take: a tenth less time.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
if(ATTNJIT_SANITIZE)
  target_compile_options(attnjit_flags INTERFACE -fsanitize=${ATTNJIT_SANITIZE}
                                                 -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(attnjit_flags INTERFACE -fsanitize=${ATTNJIT_SANITIZE})
endif()

# attnjit_embed_templates(VARIABLE ROOT dir FILES name... HEADER h FUNCTION f): sets VARIABLE to a source
# file that EmbedTemplates.cmake writes.
function(attnjit_embed_templates variable)
  cmake_parse_arguments(EMBED "" "ROOT;HEADER;FUNCTION" "FILES" ${ARGN})
  string(TOLOWER ${variable} name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/generated/${name}.cpp)
  list(TRANSFORM EMBED_FILES PREPEND ${EMBED_ROOT}/ OUTPUT_VARIABLE paths)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} -D ROOT=${EMBED_ROOT} -D "FILES=${EMBED_FILES}"
            -D HEADER=${EMBED_HEADER} -D FUNCTION=${EMBED_FUNCTION}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedTemplates.cmake
    DEPENDS ${paths} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedTemplates.cmake
    COMMENT "Embedding ${EMBED_FUNCTION}" VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

# attnjit_compile_together(TARGET): compiles up to 24 of its files as one, in 30 s and 1 GB at most. Most of
# the time goes into headers and templates that they share.
function(attnjit_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ATTNJIT_UNITY_BUILD}
                                             UNITY_BUILD_BATCH_SIZE 24)
endfunction()

# attnjit_common_headers(TARGET [FROM target | header...]): the headers that most files read are compiled once
# for TARGET, together with the headers named, or have been for another target with the same options.
function(attnjit_common_headers target)
  cmake_parse_arguments(HEADERS "" "FROM" "" ${ARGN})
  if(NOT ATTNJIT_UNITY_BUILD)
    return()
  endif()
  if(HEADERS_FROM)
    target_precompile_headers(${target} REUSE_FROM ${HEADERS_FROM})
    # Those of a library are of position-independent code, which a program has to be then too.
    target_compile_options(${target} PRIVATE -fPIC)
  else()
    target_precompile_headers(${target} PRIVATE <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>
      <algorithm> <filesystem> <fstream> <functional> <map> <mutex> <optional> <set> <string> <variant> <vector>
      ${HEADERS_UNPARSED_ARGUMENTS})
  endif()
  # For ccache, which hashes what the preprocessor writes.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endfunction()

# attnjit_cold(TARGET): what TARGET does takes the time of files, compilers and devices, so it is optimised less.
function(attnjit_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# attnjit_room(NAME [COLD] [DEPENDS room...] [SOURCES extra...]): the static library of src/NAME and its shelves.
# ARCHITECTURE.md has the rule that DEPENDS states.
function(attnjit_room name)
  cmake_parse_arguments(ROOM "COLD" "" "DEPENDS;SOURCES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/${name}/*.cpp)
  add_library(attnjit_${name} STATIC EXCLUDE_FROM_ALL ${sources} ${ROOM_SOURCES})
  target_include_directories(attnjit_${name} PUBLIC
    ${CMAKE_CURRENT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR}/src
    ${CMAKE_CURRENT_SOURCE_DIR}/templates)
  target_include_directories(attnjit_${name} SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(attnjit_${name} PUBLIC ATTNJIT_VERSION="${PROJECT_VERSION}")
  target_link_libraries(attnjit_${name} PUBLIC attnjit_flags attnjit_fmt
    nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
  foreach(dependency ${ROOM_DEPENDS})
    target_link_libraries(attnjit_${name} PUBLIC attnjit_${dependency})
  endforeach()
  attnjit_compile_together(attnjit_${name})
  if(ROOM_COLD)
    attnjit_cold(attnjit_${name})
  endif()
  if(name STREQUAL base)
    attnjit_common_headers(attnjit_base)
  else()
    attnjit_common_headers(attnjit_${name} FROM attnjit_base)
  endif()
endfunction()
