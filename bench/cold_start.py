"""Measures how long processes take to get their kernels, without a GPU: warm starts, a storm of
cold processes on one kernel, and how well a warm-up uses the cores.

Needs a build of the targets attnjit_cli and bench_warm_start, and an idle machine:
  python3 bench/cold_start.py --jobs 2 16 --output cold-start.json
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

STARTS = 21
STORM = 32
ONE_KERNEL = ["--heads-q", "8", "--seqlen-q", "1024", "--head-dim", "128", "--arch", "sm_90a"]
MANIFEST = str(pathlib.Path(__file__).parent / "shapes" / "warmup.json")


class Machine:
    """Programs of a build directory, each with an environment of its own below `root`."""

    def __init__(self, build, root):
        self._build = pathlib.Path(build)
        self._root = pathlib.Path(root)

    def environment(self, **variables):
        """That of this process, with no setting of attnjit but `variables`."""
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith("ATTNJIT_")}
        return {**inherited, "DISABLE_AUTOTUNE": "1", "CUDA_VISIBLE_DEVICES": "",
                "XDG_RUNTIME_DIR": str(self._root), **variables}

    def run(self, program, *arguments, **variables):
        """What `program` prints, as JSON, and the seconds that it took, start and end included."""
        begin = time.perf_counter()
        text = subprocess.run([self._build / program, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE, env=self.environment(**variables)).stdout
        return json.loads(text), time.perf_counter() - begin

    def warmup(self, cache, *arguments):
        return self.run("attnjit", "warmup", "--json", "--quiet", *arguments, ATTNJIT_CACHE_DIR=str(cache))

    def path(self, name):
        return self._root / name


def warm_start(machine, **variables):
    """The medians of STARTS processes whose kernels are all there."""
    runs = [machine.run("bench_warm_start", **variables) for _ in range(STARTS)]
    reports = [report for report, _ in runs]
    if any(report["compiles"] or report["nvrtc_loaded"] for report in reports):
        raise SystemExit(f"a warm process compiled, or loaded NVRTC: {reports}")
    row = {name: statistics.median(report[name] for report in reports)
           for name in ("context_ms", "first_launch_ms", "second_call_ms")}
    return {**row, "process_ms": 1000 * statistics.median(seconds for _, seconds in runs),
            "slowest_first_launch_ms": max(report["first_launch_ms"] for report in reports),
            "starts": STARTS, "compiles": 0, "nvrtc_loaded": False}


def warm_starts(machine):
    """From the cache directory, and from a bundle where there is neither cache nor compiler."""
    cache, bundle = machine.path("warm"), machine.path("warm.atkb")
    machine.run("bench_warm_start", ATTNJIT_CACHE_DIR=str(cache))
    machine.run("attnjit", "cache", "export", "--json", str(bundle), ATTNJIT_CACHE_DIR=str(cache))
    return {"cache": warm_start(machine, ATTNJIT_CACHE_DIR=str(cache)),
            "bundle": warm_start(machine, ATTNJIT_CACHE_DIR="0", ATTNJIT_NVRTC="/nonexistent",
                                 ATTNJIT_BUNDLE_PATH=str(bundle))}


def storm(machine):
    """STORM processes at once that want the same kernels, against one."""
    report, alone = machine.warmup(machine.path("alone"), *ONE_KERNEL)
    with concurrent.futures.ThreadPoolExecutor(STORM) as pool:
        begin = time.perf_counter()
        runs = list(pool.map(lambda _: machine.warmup(machine.path("storm"), *ONE_KERNEL),
                             range(STORM)))
        seconds = time.perf_counter() - begin
    return {"processes": STORM, "kernels": len(report["kernels"]),
            "compiles": sum(each["compiled"] for each, _ in runs), "seconds": seconds,
            "seconds_of_one": alone}


def warm_up(machine, manifest, jobs, rounds):
    """The kernels of `manifest` by one thread and by each number of `jobs`, in turns; the best of each
    counts."""
    seconds = {count: [] for count in [1, *jobs]}
    for i in range(rounds):
        for count, spent in seconds.items():
            report, each = machine.warmup(machine.path(f"jobs-{count}-{i}"), "--manifest",
                                          manifest, "--jobs", str(count))
            spent.append(each)
            if report["compiled"] != len(report["kernels"]):
                raise SystemExit(f"not all kernels were compiled: {report['counters']}")
    best = {count: min(each) for count, each in seconds.items()}
    return {"kernels": report["compiled"], "seconds": seconds,
            "efficiency": {count: best[1] / (count * best[count]) for count in jobs}}


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build directory, default build")
    parser.add_argument("--jobs", type=int, nargs="+", default=[os.cpu_count()],
                        help="numbers of threads of the warm-up, default as many as there are cores")
    parser.add_argument("--rounds", type=int, default=3, help="of the warm-up, default 3; 0: none")
    parser.add_argument("--manifest", default=MANIFEST, help="of the warm-up, default shapes/warmup.json")
    parser.add_argument("--git", default="", help="commit to name in the results")
    parser.add_argument("--output", required=True, help="file of results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(options.build, root)
        doctor, _ = machine.run("attnjit", "doctor", "--json")
        results = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                   "git": options.git, "library": doctor["version"],
                   "nvrtc": doctor["compiler"]["version"], "cpu": cpu_name(),
                   "cores": os.cpu_count(), "load_before": os.getloadavg()[0],
                   "warm_start": warm_starts(machine), "storm": storm(machine)}
        if options.rounds > 0:
            results["warm_up"] = warm_up(machine, options.manifest, options.jobs, options.rounds)
        results["load_after"] = os.getloadavg()[0]
    with open(options.output, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
