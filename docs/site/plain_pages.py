"""Puts each page's plain Markdown beside its HTML, and llms.txt, which lists them: plain_pages.py SITE

llms.txt is in the form of llmstxt.org: title, summary, and a list of links for each part of the navigation.
"""

import pathlib
import re
import sys

import yaml

SETTINGS = re.compile(r"\A---\n.*?\n---\n\n", re.DOTALL)
TITLE = re.compile(r"^# +(.*)$", re.MULTILINE)


def pages_of(nav: list | str) -> list[str]:
    """The Markdown pages of a part of the navigation, in order."""
    if isinstance(nav, str):
        return [nav] if nav.endswith(".md") else []
    return [page for entry in nav for value in entry.values() for page in pages_of(value)]


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
            lines += ["", f"## {title}", ""]
            lines += [
                f"- [{TITLE.search((site / 'pages' / page).read_text())[1]}]({page})"
                for page in pages_of(nav)
            ]
    (site / "html/llms.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
