#!/usr/bin/env bash
# run.sh xf|fa|vl|pt [seconds] [processes]: tests of xformers, flash-attn, vLLM or PyTorch on attnjit's kernels, a sample
# of the first two. README.md says which. Needs torch, Triton, pytest, scipy and a GPU, and attnjit on
# PYTHONPATH (by default build/python of the working directory). Runs in a folder that fetch.py has filled. Kernels go to $ATTNJIT_CACHE_DIR, by default a folder in /tmp.
# Prints a summary; under $OUT it leaves SUITE-results.jsonl and SUITE-log.txt.
suite=${1:?xf, fa, vl or pt} seconds=${2:-200} processes=${3:-16}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) out=${OUT:-/tmp/suites-out} work=$(mktemp -d)
mkdir -p "$out"
export PYTHONPATH=$here/$suite:$here:${PYTHONPATH:-build/python} PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
export ATTNJIT_CACHE_DIR=${ATTNJIT_CACHE_DIR:-/tmp/suites-cache} DISABLE_AUTOTUNE=${DISABLE_AUTOTUNE-1}
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 XFORMERS_IGNORE_FLASH_VERSION_CHECK=1
export SHARDS=$processes DEADLINE=$(($(date +%s) + seconds - 25)) CUDA_MODULE_LOADING=LAZY
pids=()
for ((i = 0; i < processes; i++)); do
  SHARD=$i RESULTS=$work/$i.jsonl timeout -k 5 "$seconds" python3 -m pytest -p no:cacheprovider -p suite -q --tb=short \
    -W ignore -c /dev/null --rootdir "$here/$suite" "$here/$suite" >"$work/$i.log" 2>&1 &
  pids+=($!)
done
for ((i = 0; i < processes; i++)); do
  wait "${pids[i]}"; code=$?
  [ $code -le 1 ] || { echo "process $i ended with $code:"; tail -n 5 "$work/$i.log"; }
done
touch "$work/none.jsonl"
cat "$work"/*.jsonl >"$out/$suite-results.jsonl"
for ((i = 0; i < processes; i++)); do echo "== process $i"; head -c 700000 "$work/$i.log"; done >"$out/$suite-log.txt"
python3 "$here/summary.py" "$out/$suite-results.jsonl" | tee "$out/$suite-summary.txt"
exit "${PIPESTATUS[0]}"
