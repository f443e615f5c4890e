"""What setuptools calls to build the module: CMake compiles the extension and collects the data.

The wheel has everything: the extension, the module that holds SimGrid, and the data files, in the package's folder.
TRAINYARD_CMAKE_ARGS has more arguments for CMake.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(trainyard VERSION ([0-9.]+)", text).group(1)


VERSION = _version()


class BuildModule(build_py):
    """Copies the Python files, and installs what CMake builds next to them."""

    def run(self):
        super().run()
        build = ROOT / "build" / "pip"
        subprocess.check_call([
            "cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTRAINYARD_TESTS=OFF",
            "-DTRAINYARD_PYTHON=ON", f"-DPython_EXECUTABLE={sys.executable}", "-DTRAINYARD_PYTHON_FOLDER=.",
            *shlex.split(os.environ.get("TRAINYARD_CMAKE_ARGS", ""))])
        subprocess.check_call(["cmake", "--build", build, "--target", "trainyard_core", "trainyard_simgrid"])
        for component in ("python", "python_bundle"):
            subprocess.check_call(["cmake", "--install", build, "--component", component, "--prefix",
                                   os.path.abspath(self.build_lib)])


class PlatformWheel(bdist_wheel):
    """A wheel for this machine's kind only: it has compiled code."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False
