# attnjit_git_describe(VARIABLE GIT SOURCE [options...]): the answer of git describe in the checkout
# SOURCE; empty without git, without a tag unless the options allow for it, and where SOURCE is not the
# root of a checkout (a tarball, a copy in another project).
function(attnjit_git_describe variable git source)
  set(${variable} "" PARENT_SCOPE)
  if(NOT git)
    return()
  endif()
  execute_process(COMMAND ${git} -C ${source} rev-parse --show-toplevel
                  OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed
                  ERROR_QUIET)
  file(REAL_PATH ${source} source)
  if(failed OR NOT root STREQUAL source)
    return()
  endif()
  execute_process(COMMAND ${git} --no-optional-locks -C ${source} describe --match "v[0-9]*" ${ARGN}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed
                  ERROR_QUIET)
  if(NOT failed)
    set(${variable} "${described}" PARENT_SCOPE)
  endif()
endfunction()
