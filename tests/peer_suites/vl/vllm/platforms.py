"""What the tests ask of the machine."""

import os
from types import SimpleNamespace

current_platform = SimpleNamespace(
    device_type="cpu" if os.environ.get("SUITE_ON_CPU") else "cuda",
    is_rocm=lambda: False,
    is_device_capability_family=lambda family: False,
)
