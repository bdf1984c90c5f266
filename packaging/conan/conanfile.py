"""The Conan recipe of attnjit: `conan create packaging/conan`. It builds the checkout that it lies in.

The CUDA toolkit, 12.4 or newer, is looked for on the machine: its headers are needed to build, its NVRTC when kernels
are compiled."""

import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

required_conan_version = ">=2.4"


class AttnjitRecipe(ConanFile):
    name = "attnjit"
    description = "Attention kernels for NVIDIA GPUs, specialised at run time with NVRTC"
    license = "Apache-2.0"
    topics = ("cuda", "attention", "nvrtc", "jit", "deep-learning")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"cli": [True, False]}
    default_options = {"cli": False}

    @property
    def _checkout(self):
        return pathlib.Path(self.recipe_folder).parent.parent

    def set_version(self):
        if self.version is None:
            text = (self._checkout / "CMakeLists.txt").read_text()
            self.version = re.search(r"project\(attnjit VERSION ([0-9.]+)", text)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "configs/*", "include/*", "src/*", "templates/*",
                        "python/licenses/*", "tests/version.cmake"):  # fmt: skip
            copy(self, pattern, self._checkout, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            from conan.errors import ConanInvalidConfiguration

            raise ConanInvalidConfiguration("attnjit is for Linux")

    def requirements(self):
        # Compiled into the library, and seen by nobody else.
        self.requires("fmt/[>=9 <13]", visible=False)
        self.requires("nlohmann_json/[>=3.11 <4]", visible=False)
        if self.options.cli:
            self.requires("cli11/[>=2.1 <3]", visible=False)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ATTNJIT_BUILD_CLI"] = bool(self.options.cli)
        for part in ("TESTS", "EXAMPLES", "BENCH", "EXECUTOR", "PYTHON"):
            toolchain.cache_variables[f"ATTNJIT_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder, "licenses"))
        copy(self, "third-party.txt", pathlib.Path(self.source_folder, "python/licenses"),
             pathlib.Path(self.package_folder, "licenses"))  # fmt: skip
        rmdir(self, str(pathlib.Path(self.package_folder, "lib/pkgconfig")))

    def package_info(self):
        self.cpp_info.libs = ["attnjit"]
        self.cpp_info.set_property("cmake_file_name", "attnjit")
        self.cpp_info.set_property("cmake_target_name", "attnjit::attnjit")
        self.cpp_info.set_property("pkg_config_name", "attnjit")
