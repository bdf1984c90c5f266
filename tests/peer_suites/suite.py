"""What both suites share: parts of a sample for processes side by side, a deadline, and a line of JSON per result."""

import json
import os
import time
import zlib

import pytest

SHARD, SHARDS = int(os.environ.get("SHARD", "0")), int(os.environ.get("SHARDS", "1"))
DEADLINE = float(os.environ.get("DEADLINE", "inf"))  # seconds since the epoch
TIME_IS_UP = "the time is up"


def order(item):
    """A number that is random, and the same in each process."""
    return zlib.crc32(item.nodeid.encode())


def mine(items, family):
    """The items of this process. Those of a family share kernels, and so a process; the largest families are dealt
    out first."""
    families = {}
    for item in items:
        families.setdefault(family(item), []).append(item)
    shards = [[] for _ in range(SHARDS)]
    for members in sorted(families.values(), key=lambda found: (-len(found), found[0].nodeid)):
        min(shards, key=len).extend(members)
    return shards[SHARD]


def keep(config, items, wanted):
    kept = set(map(id, wanted))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = wanted


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.time() > DEADLINE:
        pytest.skip(TIME_IS_UP)


@pytest.hookimpl
def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    reason = ""
    if report.outcome == "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else str(report.longrepr)
    elif report.outcome == "skipped":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    record = {
        "id": report.nodeid,
        "outcome": report.outcome,
        "when": report.when,
        "seconds": round(report.duration, 2),
        "reason": reason[:2000],
    }
    with open(os.environ.get("RESULTS", os.devnull), "a") as file:
        file.write(json.dumps(record) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    import torch

    if torch.cuda.is_available() and torch.cuda.memory_reserved() > 4 << 30:
        torch.cuda.empty_cache()
