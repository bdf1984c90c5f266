# An overlay port that builds the checkout it lies in: vcpkg install attnjit --overlay-ports=packaging/vcpkg
# A registry's port has vcpkg_from_github() in the place of the next line.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

# There is no static library: it would carry fmt and JSON into the program.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES cli ATTNJIT_BUILD_CLI)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} -DATTNJIT_BUILD_TESTS=OFF -DATTNJIT_BUILD_EXAMPLES=OFF -DATTNJIT_BUILD_BENCH=OFF
          -DATTNJIT_BUILD_EXECUTOR=OFF -DATTNJIT_BUILD_PYTHON=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/attnjit)
vcpkg_fixup_pkgconfig()
if("cli" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES attnjit AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/python/licenses/third-party.txt")
