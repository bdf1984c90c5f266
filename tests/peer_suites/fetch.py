"""Puts other libraries' tests beside their adapters, for a machine with a GPU:

  python3 tests/peer_suites/fetch.py DIRECTORY

DIRECTORY/xf gets xformers' package and tests/test_mem_eff_attention.py, DIRECTORY/fa flash-attn's tests/test_flash_attn.py
with what it imports, DIRECTORY/vl two files of vLLM's tests/kernels/attention, from the source distributions of the
package index (PIP_INDEX_URL, by default PyPI). Their files stay as they are, but for one import of xformers' profiler,
which is left out.
"""

import io
import json
import os
import pathlib
import shutil
import sys
import tarfile
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).parent
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
LEFT_OUT = ("benchmarks/", "csrc/", "flash_attn_3/", "profiler/", "sparse/")  # of xformers' package


def read(url, accept="*/*"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as answer:
        return answer.read()


def download(project, file):
    listing = json.loads(read(f"{INDEX}/{project}/", "application/vnd.pypi.simple.v1+json"))
    urls = [entry["url"] for entry in listing["files"] if entry["filename"] == file]
    if not urls:
        sys.exit(f"fetch: {INDEX} has no {file}")
    return read(urllib.request.urljoin(f"{INDEX}/{project}/", urls[0]))


def source_files(project, version):
    """(path inside of the distribution, bytes) of a source distribution's files."""
    archive = io.BytesIO(download(project, f"{project.replace('-', '_')}-{version}.tar.gz"))
    with tarfile.open(fileobj=archive) as tar:
        for member in tar:
            if member.isfile():
                yield member.name.split("/", 1)[1], tar.extractfile(member).read()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def fetch_xformers(target):
    for path, text in source_files("xformers", "0.0.35"):
        package = path.startswith("xformers/") and not path.removeprefix("xformers/").startswith(LEFT_OUT)
        if package or path in ("LICENSE", "tests/test_mem_eff_attention.py"):
            write(target / path, text)
    write(target / "tests" / "__init__.py", b"")
    (target / "utils.py").rename(target / "tests" / "utils.py")
    info = target / "xformers" / "info.py"
    line = "from .profiler.profiler_dcgm import DCGM_PROFILER_AVAILABLE\n"
    info.write_text(info.read_text().replace(line, "DCGM_PROFILER_AVAILABLE = False\n"))


def fetch_flash_attn(target):
    for path, text in source_files("flash-attn", "2.8.3.post2"):
        if path == "tests/test_flash_attn.py":
            write(target / "test_flash_attn.py", text)
        elif path in ("LICENSE", "flash_attn/bert_padding.py"):
            write(target / path, text)
    wheel = zipfile.ZipFile(io.BytesIO(download("einops", "einops-0.8.2-py3-none-any.whl")))
    for name in wheel.namelist():
        if not name.startswith("einops/tests/"):
            wheel.extract(name, target)


def fetch_vllm(target):
    tests = "tests/kernels/attention"
    for path, text in source_files("vllm", "0.33.0"):
        if path in (f"{tests}/test_flash_attn.py", f"{tests}/test_triton_prefill_attention.py"):
            write(target / pathlib.Path(path).name, text)
        elif path == "LICENSE":
            write(target / path, text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[1])
    shutil.copytree(
        HERE, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("fetch.py", "__pycache__")
    )
    fetch_xformers(directory / "xf")
    fetch_flash_attn(directory / "fa")
    fetch_vllm(directory / "vl")


if __name__ == "__main__":
    main()
