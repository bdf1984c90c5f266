# Compares VERSION, the project's, with the last tag v* before the commit that is checked out in SOURCE: a
# tagged commit has the tag's version, later ones that or a newer one.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/GitDescribe.cmake)
attnjit_git_describe(described "${GIT}" "${SOURCE}")
if(described STREQUAL "")
  message("skipped: git describe finds no tag v* in ${SOURCE}")
  return()
endif()
if(NOT described MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)(-[0-9]+-g[0-9a-f]+)?$")
  message(FATAL_ERROR "git describe finds ${described}; name tags of versions vMAJOR.MINOR.PATCH")
endif()
set(tag ${CMAKE_MATCH_1})
if("${CMAKE_MATCH_2}" STREQUAL "" AND NOT VERSION VERSION_EQUAL tag)
  message(FATAL_ERROR "the commit is tagged v${tag}, and project() in CMakeLists.txt says ${VERSION}; "
                      "set it to ${tag}, commit, and tag that commit")
endif()
if(VERSION VERSION_LESS tag)
  message(FATAL_ERROR "${described} comes after version ${tag}, and project() in CMakeLists.txt says "
                      "${VERSION}; raise it")
endif()
message(STATUS "${described} agrees with ${VERSION}")
