"""Tunes problems twice on the GPU at hand and says whether the two runs agree, and whether what they
chose is faster than configuration 0 on problems of the same buckets that were not tuned:
  python3 bench/tuning.py --output tuning.json
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile

SHAPES = pathlib.Path(__file__).parent / "shapes"


class Attnjit:
    """The command line, with a cache of its own in `cache`."""

    def __init__(self, program, cache):
        self._program = program
        self._cache = cache

    def __call__(self, *arguments, **variables):
        inherited = {name: value for name, value in os.environ.items()
                     if name not in ("ATTNJIT_AUTOTUNE", "DISABLE_AUTOTUNE")}
        # Problems that failed are in the report; without one this raises.
        text = subprocess.run([self._program, *arguments, "--json"], check=False, text=True,
                              stdout=subprocess.PIPE,
                              env={**inherited, "ATTNJIT_CACHE_DIR": self._cache, **variables}).stdout
        return json.loads(text)


def measured(result):
    """What the record of a tuned problem says of its measurement."""
    return result["record"]["result"]


def winner(result):
    """The tile of the record of a tuned problem."""
    if measured(result)["verdict"] == "no_gain":
        return result["configuration_0"]
    return min(result["times"], key=lambda time: abs(time["us"] - measured(result)["us"]))["tile"]


def difference(runs):
    """By how much the winners of two runs differ in either, at most: 0 where they agree."""
    tiles = [winner(run) for run in runs]
    worst = 0.0
    for run in runs:
        times = {time["tile"]: time["us"] for time in run["times"] if time["us"] > 0}
        if all(tile in times for tile in tiles):
            worst = max(worst, abs(times[tiles[0]] / times[tiles[1]] - 1))
    return worst


def held_out(attnjit, manifest, rounds):
    """Milliseconds of each problem with configuration 0 and with records, taking turns."""
    times = {"off": {}, "cached": {}}
    for _ in range(rounds):
        for mode, rows in times.items():
            for row in attnjit("bench", "--shapes", manifest, ATTNJIT_AUTOTUNE=mode)["rows"]:
                rows.setdefault(row["name"], []).append(row.get("ms", math.nan))
    return {mode: {name: statistics.median(each) for name, each in rows.items()}
            for mode, rows in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/attnjit", help="default build/attnjit")
    parser.add_argument("--rounds", type=int, default=3, help="of the problems held out, default 3")
    parser.add_argument("--output", required=True, help="file of results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        attnjit = Attnjit(options.program, cache)
        manifest = str(SHAPES / "tuning.json")
        runs = [attnjit("tune", "--force", "--manifest", manifest) for _ in range(2)]
        times = held_out(attnjit, str(SHAPES / "tuning-held-out.json"), options.rounds)
    rows = []
    for pair in zip(*(run["results"] for run in runs)):
        name = pair[0]["name"]
        if any("record" not in result for result in pair):
            print(f"{name}: {[result.get('error') for result in pair]}")
            continue
        zero, tuned = times["off"][name], times["cached"][name]
        rows.append({"name": name, "winners": [winner(result) for result in pair],
                     "us": [measured(result)["us"] for result in pair],
                     "gain": [1 - measured(result)["us"] / measured(result)["default_us"]
                              for result in pair],
                     "difference": difference(pair), "held_out_ms": zero,
                     "held_out_tuned_ms": tuned, "held_out_gain": 1 - tuned / zero})
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump({"device": runs[0]["device"], "rows": rows, "runs": runs}, file, indent=1)
        file.write("\n")
    print(f"{'problem':<16} {'winner':<44} {'us':>8} {'gain':>6} {'again':>6} {'differ':>7} {'held out':>9}")
    for row in rows:
        again = "same" if row["winners"][0] == row["winners"][1] else "other"
        print(f"{row['name']:<16} {row['winners'][0]:<44.44} {row['us'][0]:>8.1f} {row['gain'][0]:>6.1%} "
              f"{again:>6} {row['difference']:>7.2%} {row['held_out_gain']:>9.1%}")


if __name__ == "__main__":
    main()
