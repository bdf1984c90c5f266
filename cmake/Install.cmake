# The install tree: relocatable, and free of references to fmt, json or the CUDA toolkit.
set(ATTNJIT_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
target_link_options(attnjit PRIVATE LINKER:--version-script=${ATTNJIT_EXPORTS})
set_property(TARGET attnjit APPEND PROPERTY LINK_DEPENDS ${ATTNJIT_EXPORTS})

option(ATTNJIT_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
if(NOT ATTNJIT_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(ATTNJIT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attnjit)
set(ATTNJIT_DATA_DIR ${CMAKE_INSTALL_DATADIR}/attnjit)

install(TARGETS attnjit EXPORT attnjitTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/attnjit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
install(FILES include/attnjit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE python/licenses/third-party.txt DESTINATION ${ATTNJIT_DATA_DIR})
install(DIRECTORY configs DESTINATION ${ATTNJIT_DATA_DIR})

# CMake consumers: find_package(attnjit 0.2 CONFIG).
install(EXPORT attnjitTargets NAMESPACE attnjit:: DESTINATION ${ATTNJIT_CMAKE_DIR})
configure_package_config_file(cmake/attnjitConfig.cmake.in attnjitConfig.cmake
                              INSTALL_DESTINATION ${ATTNJIT_CMAKE_DIR})
write_basic_package_version_file(attnjitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attnjitConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/attnjitConfigVersion.cmake
        DESTINATION ${ATTNJIT_CMAKE_DIR})

# Everyone else: pkg-config. Paths relative to the .pc file, so that the tree may move.
set(ATTNJIT_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH ATTNJIT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
     ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH ATTNJIT_PC_INCLUDE ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/attnjit.pc.in attnjit.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/attnjit.pc DESTINATION ${ATTNJIT_PC_DIR})

if(PROJECT_IS_TOP_LEVEL)
  include(cmake/Package.cmake)
endif()
if(ATTNJIT_BUILD_TESTS)
  add_subdirectory(tests/install)
endif()
