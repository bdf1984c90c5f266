"""Reads raw files of bench/results: what `attnjit bench`, peers.py, feature_peers.py and users.py wrote, in one form.

`newest("decode.json", "decode-cudnn.json")` is the newest visit that has both: a folder of bench/results is a day on a
device. A row of it is a problem; each implementation that ran it has a result, with `ms`, `tflops` and what else the
program wrote. Where several files have a row, as those of several rounds do, the median counts.
"""

import json
import pathlib
import statistics

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
OURS = "attnjit"


def _read(file):
    """The document of a file; of lines of JSON those with a name are its rows."""
    if file.suffix == ".json":
        return json.loads(file.read_text())
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {**lines[0], "rows": [line for line in lines if "name" in line]}


def _results(row):
    """(name, implementation, result) of all that ran a row."""
    if "implementations" in row:  # of users.py: both passes of a training step
        name = row["name"].removesuffix(" backward")
        for which, steps in row["implementations"].items():
            for step in ("forward", "backward"):
                if step in steps:
                    yield f"{name} {step}", which, {**steps[step], "errors": steps.get("errors", {})}
    elif "backends" in row:
        for which, result in row["backends"].items():
            yield row["name"], which, result
    else:
        yield row["name"], OURS, row


class Measured:
    """A visit: the results of some files, which one machine or machines of one kind wrote."""

    def __init__(self, files):
        self.files = files
        self.documents = [_read(file) for file in files]
        self.about = self.documents[0]
        self.names = []
        self._found = {}
        for document in self.documents:
            for row in document["rows"]:
                for name, which, result in _results(row):
                    if name not in self.names:
                        self.names.append(name)
                    if result.get("ms") is not None:
                        self._found.setdefault((name, which), []).append(result)

    def has(self, name, *implementations):
        return all((name, which) in self._found for which in implementations)

    def results(self, name, which=OURS):
        return self._found[name, which]

    def value(self, name, which=OURS, member="ms"):
        return statistics.median(result[member] for result in self.results(name, which))

    def ratio(self, name, peer):
        """How many times as fast as the peer we are."""
        return self.value(name, member="tflops") / self.value(name, peer, "tflops")

    def device(self):
        """The device's name: "NVIDIA H200"."""
        device = self.about["device"]
        return device if isinstance(device, str) else device["name"]

    def model(self):
        """Its model: "H200"."""
        return self.device().split()[1]

    def dates(self):
        return sorted({document["date"][:10] for document in self.documents})

    def configuration(self):
        """Which configurations of ours ran."""
        rows = [row for document in self.documents for row in document["rows"]]
        return "tuned" if any("record" in row.get("config_from", "") for row in rows) else "configuration 0"

    def member(self, name):
        """A member of the first file that has it, as the version of a peer."""
        return next((document[name] for document in self.documents if name in document), None)


def _visits(patterns):
    for folder in RESULTS.iterdir():
        files = [sorted(folder.glob(pattern)) for pattern in patterns]
        if all(files):
            yield Measured([file for group in files for file in group])


def newest(*patterns, of=()):
    """The newest visit with a file for each pattern, and a row that all of `of` ran."""
    visits = [v for v in _visits(patterns) if not of or any(v.has(name, *of) for name in v.names)]
    if not visits:
        raise SystemExit(f"report: no folder of bench/results has {' and '.join(patterns)}")
    return max(visits, key=lambda visit: visit.about["date"])


def newest_files(pattern, of):
    """Of each model the newest file whose rows `of` accepts all names: files that are a visit each, newest first."""
    found = {}
    for file in RESULTS.glob(f"*/{pattern}"):
        visit = Measured([file])
        if set(of) <= set(visit.names):
            found.setdefault(visit.model(), []).append(visit)
    chosen = [max(visits, key=lambda visit: visit.about["date"]) for visits in found.values()]
    return sorted(chosen, key=lambda visit: visit.about["date"], reverse=True)
