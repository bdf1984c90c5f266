"""The command line of attnjit that the wheel carries: ``python -m attnjit doctor``."""

import os
import shutil
import sys
from pathlib import Path

from . import _nvrtc


def main() -> None:
    """Takes the place of this process with the command line; finds NVRTC as the package does."""
    carried = Path(__file__).parent / "bin" / "attnjit"
    command = str(carried) if carried.is_file() else shutil.which("attnjit")
    if command is None:
        sys.exit(
            "attnjit: neither this package nor PATH has the command line; "
            "install the wheel, or add the folder of attnjit to PATH"
        )
    if nvrtc := _nvrtc.find():
        os.environ["ATTNJIT_NVRTC"] = nvrtc
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
