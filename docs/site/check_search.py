"""Checks that the site's search finds messages: check_search.py HTML

For each message that a heading of docs/guide/troubleshooting.md quotes, the first hit of a search for its text is that
page. The index is searched as the site's own script does it: titles outweigh text, and each word may be the beginning of
one.
Exits 1 and lists the messages that are not found.
"""

import json
import pathlib
import re
import sys

from lunr.builder import Builder
from lunr.query import Query
from lunr.stop_word_filter import stop_word_filter

PAGE = "docs/guide/troubleshooting/"
HEADING = re.compile(r"^### (.*)$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
TAG = re.compile(r"<[^>]+>")
SIGNS = re.compile(r"[-+*~^:\"]")  # as search_query.js


def words_of(text: str, separator: re.Pattern) -> list[str]:
    return [word for word in separator.split(TAG.sub(" ", text).lower()) if word]


def weight(hit: dict, words: list[str]) -> float:
    """What the site multiplies a hit's score by: pages outweigh sections, and hits with more of the words others."""
    found = {word for word in words if any(term.startswith(word) for term in hit["match_data"].metadata)}
    missed = {word for word in words if word not in found and stop_word_filter(word)}
    return 1 + (("#" not in hit["ref"]) + len(found) / len(found | missed)) ** 2


def search_of(index: dict):
    """A function from a text to the locations that match it, best first."""
    separator = re.compile(index["config"]["separator"])
    builder = Builder()
    builder.b(0)
    builder.ref("location")
    for name, options in index["config"]["fields"].items():
        builder.field(
            name, options["boost"], lambda page, name=name: words_of(page.get(name) or "", separator)
        )
    builder.pipeline.add(stop_word_filter)
    for page in index["docs"]:
        builder.add(page, {"boost": page.get("boost", 1)})
    built = builder.build()

    def search(text: str) -> list[str]:
        words = words_of(SIGNS.sub(" ", text), separator)
        query = built.create_query()
        for word in words:
            query.term(word, wildcard=Query.WILDCARD_TRAILING, use_pipeline=False)
        hits = [(weight(hit, words) * hit["score"], hit["ref"]) for hit in built.query(query)]
        return [location for _, location in sorted(hits, key=lambda hit: -hit[0])]

    return search


def main() -> int:
    html = pathlib.Path(sys.argv[1])
    search = search_of(json.loads((html / "search/search_index.json").read_text()))
    headings = HEADING.findall((html / "docs/guide/troubleshooting.md").read_text())
    messages = [message for heading in headings for message in QUOTED.findall(heading)]
    missed = []
    for message in messages:
        first = next(iter(search(message)), "nothing")
        if not first.startswith(PAGE):
            missed.append(f"a search for {message!r} finds {first} first; expected {PAGE}")
    if not messages:
        missed.append(f"{PAGE}: no heading of level 3 quotes a message")
    print("\n".join(missed) or f"{len(messages)} messages are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
