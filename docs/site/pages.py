"""Writes the pages that MkDocs reads: pages.py FOLDER ATTNJIT

They are the repository's Markdown pages and the files that they link to, and the pages of the Python API and the
command line. The copies keep their places, so that the links of a page are right both in the repository and in the site. A link to a
source file goes to a page that shows it, one to a folder to its README.md or else to a page that lists its files; pages
that are made here are in no search.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import command_line
import python_api
from snippets import notebook_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
# Suffixes of source files, and what they are coloured as.
SOURCES = {
    ".c": "c",
    ".h": "c",
    ".cpp": "cpp",
    ".hpp": "cpp",
    ".cuh": "cuda",
    ".py": "python",
    ".txt": "text",
}
# Pages that outweigh others in a search: for a message, the one that says what to do.
BOOST = {pathlib.Path("docs/guide/troubleshooting.md"): 10}
NOTEBOOKS = pathlib.Path("docs/notebooks")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def tracked(*patterns: str) -> list[pathlib.Path]:
    """Files of the repository, tracked or new, that match patterns of git; paths below ROOT."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.splitlines() if (ROOT / (path := pathlib.Path(name))).is_file()]


def outside_code(text: str, replace) -> str:
    """`text` with `replace` applied to what is no code."""
    parts, end = [], 0
    for match in CODE.finditer(text):
        parts += [replace(text[end : match.start()]), match.group()]
        end = match.end()
    return "".join([*parts, replace(text[end:])])


def unsearched(title: str, body: str) -> str:
    return f"---\nsearch:\n  exclude: true\n---\n\n# `{title}`\n\n{body}\n"


def add(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Adds a file that a page links to; the path of what shows it."""
    shown = path.with_name(path.name + ".md") if path.suffix in SOURCES else path
    (target / shown).parent.mkdir(parents=True, exist_ok=True)
    if shown == path:
        shutil.copyfile(ROOT / path, target / path)
    else:
        code = (ROOT / path).read_text()
        (target / shown).write_text(unsearched(str(path), f"````{SOURCES[path.suffix]}\n{code}````"))
    return shown


def add_folder(folder: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Adds a folder that a page links to; the path of the page that shows it."""
    files = tracked(str(folder))
    if folder / "README.md" in files:
        return folder / "README.md"
    rows = (f"- [{path.relative_to(folder)}]({add(path, target).relative_to(folder)})" for path in files)
    (target / folder / "index.md").write_text(unsearched(f"{folder}/", "\n".join(rows)))
    return folder / "index.md"


def linked(page: pathlib.Path, match: re.Match, target: pathlib.Path) -> str:
    """A link of a page as the copy has it; adds what it goes to."""
    name, anchor = match.group(1), match.group(2) or ""
    path = (ROOT / page.parent / name).resolve()
    if re.match(r"[a-z]+:", name) or path.suffix == ".md" or not path.is_relative_to(ROOT):
        return match.group()
    path = path.relative_to(ROOT)
    shown = add_folder(path, target) if (ROOT / path).is_dir() else add(path, target)
    return f"]({os.path.relpath(shown, page.parent)}{anchor})"


def copy_of(page: pathlib.Path, target: pathlib.Path) -> str:
    """The text of a page, with links to what shows the files in the site; adds those."""
    text = (ROOT / page).read_text()
    settings = f"---\nsearch:\n  boost: {BOOST[page]}\n---\n\n" if page in BOOST else ""
    text = settings + outside_code(
        text, lambda part: LINK.sub(lambda match: linked(page, match, target), part)
    )
    if page.parent == NOTEBOOKS:
        name = page.with_suffix(".ipynb").name
        (target / NOTEBOOKS / name).write_text(notebook_of(text))
        text += f"\n[This page as a Jupyter notebook]({name})\n"
    return text


def write_pages(target: pathlib.Path) -> None:
    """Writes pages and what they link to below `target`."""
    for page in tracked("*.md"):
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).write_text(copy_of(page, target))


def main() -> None:
    target, attnjit = map(pathlib.Path, sys.argv[1:])
    write_pages(target)
    python_api.write_page(target / "api/python.md")
    command_line.write_page(target / "api/command-line.md", attnjit)


if __name__ == "__main__":
    main()
