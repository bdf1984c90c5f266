"""summary.py RESULTS.jsonl ...: counts by test, reasons of skips, and the first line of each failure."""

import collections
import json
import pathlib
import sys

from suite import TIME_IS_UP

records = [json.loads(line) for path in sys.argv[1:] for line in pathlib.Path(path).read_text().splitlines()]
counts = collections.defaultdict(collections.Counter)
skips = collections.Counter()
for record in records:
    name = record["id"].split("::", 1)[1].split("[")[0]
    outcome = (
        "not run" if TIME_IS_UP in record["reason"] and record["outcome"] == "skipped" else record["outcome"]
    )
    counts[name][outcome] += 1
    counts["all"][outcome] += 1
    if outcome == "skipped":
        skips[record["reason"].split("\n")[0][:110]] += 1
columns = ("passed", "failed", "skipped", "not run")
print(f"{'':<44}" + "".join(f"{c:>9}" for c in columns))
for name, found in sorted(counts.items(), key=lambda pair: pair[0] == "all"):
    print(f"{name:<44}" + "".join(f"{found[c]:>9}" for c in columns))
for reason, count in skips.most_common(25):
    print(f"skipped {count:>4}: {reason}")
groups = collections.defaultdict(list)
for record in records:
    if record["outcome"] == "failed":
        groups[record["id"].split("::", 1)[1].split("[")[0]].append(record)
for name, found in groups.items():
    for record in found[:12]:
        lines = [line for line in record["reason"].split("\n") if line.strip()]
        print(f"FAILED {record['id'].split('::', 1)[1][:130]}\n       {' | '.join(lines[:2])[:230]}")
    if len(found) > 12:
        print(f"       and {len(found) - 12} more of {name}")
sys.exit(1 if groups else 0)
