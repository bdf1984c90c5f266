"""Puts each page's plain Markdown beside its HTML, and llms.txt, which lists them: plain_pages.py SITE

llms.txt is in the form of llmstxt.org: title, summary, and a list of links for each part of the navigation.
"""

import pathlib
import re
import sys

import yaml

SETTINGS = re.compile(r"\A---\n.*?\n---\n\n", re.DOTALL)
TITLE = re.compile(r"^# +(.*)$", re.MULTILINE)


def entries_of(nav: list) -> list[tuple[str, str]]:
    """(title, page) of all pages of a part of the navigation, in order."""
    named = [pair for entry in nav for pair in entry.items()]
    return [
        page
        for title, value in named
        for page in ([(title, value)] if isinstance(value, str) else entries_of(value))
    ]


def title_of(page: pathlib.Path, otherwise: str) -> str:
    return TITLE.search(page.read_text())[1] if page.suffix == ".md" else otherwise


def main() -> None:
    site = pathlib.Path(sys.argv[1])
    for page in (site / "pages").rglob("*.md"):
        copy = site / "html" / page.relative_to(site / "pages")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(SETTINGS.sub("", page.read_text()))
    config = yaml.unsafe_load((site / "mkdocs.yml").read_text())
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for part in config["nav"]:
        for title, nav in part.items():
            pages = entries_of([{title: nav}])
            lines += ["", f"## {title}", ""]
            lines += [f"- [{title_of(site / 'pages' / page, name)}]({page})" for name, page in pages]
    (site / "html/llms.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
