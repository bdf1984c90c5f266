# Writes OUTPUT, the source of attnjit::cli::checkout(), for the sources in SOURCE. Called at build time:
# a commit changes no file that a build could depend on. Leaves OUTPUT alone where it is right already.
include(${CMAKE_CURRENT_LIST_DIR}/GitDescribe.cmake)
attnjit_git_describe(described "${GIT}" "${SOURCE}" --always --dirty)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "cli/version.hpp"

const char* attnjit::cli::checkout() { return "@described@"; }
]])
