# Fails if a run path of FILES, separated by |, has an empty element: the loader takes that for the
# working directory, and whoever writes there would have a say in what a program loads.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" files "${FILES}")
foreach(file IN LISTS files)
  execute_process(COMMAND ${READELF} -d ${file} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "(RUNPATH|RPATH)[^[]*\\[[^]]*" paths "${dynamic}")
  foreach(path IN LISTS paths)
    string(REGEX REPLACE ".*\\[" "" path "${path}")
    if(":${path}:" MATCHES "::")
      message(FATAL_ERROR "${file}: the run path '${path}' has an empty element; set BUILD_RPATH or no INSTALL_RPATH")
    endif()
  endforeach()
endforeach()
