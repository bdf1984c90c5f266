"""Writes the page of the Python API from the docstrings, without importing the package."""

import ast
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/attnjit"
MODULES = (
    "attnjit",
    "attnjit.nn",
    "attnjit.torch",
    "attnjit.hf",
    "attnjit.reference",
    "attnjit.context_parallel",
)
SECTION = re.compile(r"^(Args|Returns|Raises):\n((?:(?: {4}.*)?(?:\n|$))+)", re.MULTILINE)
ITEM = re.compile(r"^(\*{0,2}\w+(?:, \w+)*): ", re.MULTILINE)
TITLES = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises"}


def file_of(module: str) -> pathlib.Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def definition(path: pathlib.Path, name: str) -> tuple[ast.stmt, str]:
    """The function or class `name` of a file, or of the one that it imports it from, and that file's source."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node, source
        if isinstance(node, ast.ImportFrom) and any(
            name == (alias.asname or alias.name) for alias in node.names
        ):
            base = path.parents[node.level - 1].joinpath(*node.module.split("."))
            return definition(base / "__init__.py" if base.is_dir() else base.with_suffix(".py"), name)
    raise ValueError(f"{path}: it neither defines nor imports {name}, which its package's __all__ names")


def prose(text: str) -> str:
    """Markdown of a docstring's text: signs of Markdown stand for themselves, pages of docs/ become links."""
    parts = re.split(r"(``[^`]*``|`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\*_\[\]|])", r"\\\1", parts[i]).replace("<", "&lt;")
        parts[i] = re.sub(r"docs/[\w/-]+\.md", lambda match: f"[{match[0]}](../{match[0]})", parts[i])
    return "".join(parts)


def paragraphs(text: str) -> str:
    """Blocks of text that are indented are code."""
    blocks = (block for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip())
    return "\n\n".join(
        f"```python\n{textwrap.dedent(block)}\n```" if block.startswith("    ") else prose(block)
        for block in blocks
    )


def docstring(text: str) -> str:
    """Markdown of a docstring with sections Args, Returns and Raises."""

    def section(match: re.Match) -> str:
        body = textwrap.dedent(match[2]).strip()
        starts = [item.start() for item in ITEM.finditer(body)]
        if match[1] == "Returns" or not starts:
            listed = prose(body)
        else:
            items = [body[a:b].strip() for a, b in zip(starts, [*starts[1:], None])]
            listed = "\n".join(
                f"- `{item.partition(': ')[0]}`: " + prose(" ".join(item.partition(": ")[2].split()))
                for item in items
            )
        return f"\0**{TITLES[match[1]]}**\n\n{listed}\0"

    parts = SECTION.sub(section, text + "\n").split("\0")
    return "\n\n".join(part if i % 2 else paragraphs(part) for i, part in enumerate(parts) if part.strip())


def header(node: ast.stmt, source: str) -> str:
    """The lines of a definition before its body; of a class also its fields."""
    lines = source.splitlines()
    shown = lines[node.lineno - 1 : node.body[0].lineno - 1]
    if isinstance(node, ast.ClassDef):
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and not field.target.id.startswith("_"):
                shown += lines[field.lineno - 1 : field.end_lineno]
    return textwrap.dedent("\n".join(shown)).removesuffix(":")


def entry(node: ast.stmt, source: str, name: str, level: int) -> str:
    text = ast.get_docstring(node)
    if not text:
        raise ValueError(f"{name}: a public name without a docstring; write one")
    parts = [f"{'#' * level} `{name}`", f"```python\n{header(node, source)}\n```", docstring(text)]
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            named = isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
            if named and ast.get_docstring(method):
                parts.append(entry(method, source, f"{node.name}.{method.name}", level + 1))
    return "\n\n".join(parts)


def write_page(target: pathlib.Path) -> None:
    """Writes the page for all that __all__ of MODULES names."""
    parts = ["# The Python API"]
    for module in MODULES:
        path = file_of(module)
        tree = ast.parse(path.read_text())
        names = next(
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        )
        parts += [f"## {module}", docstring(ast.get_docstring(tree))]
        parts += [
            entry(*definition(path, name), f"{module}.{name}", 3) for name in sorted(names, key=str.lower)
        ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n\n".join(parts) + "\n")
