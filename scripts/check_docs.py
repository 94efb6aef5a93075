# SPDX-License-Identifier: Apache-2.0
"""Checks links in Markdown, paths and ranges of JAX's versions in all files, and every code block of README.md and docs/.

Python blocks run (doc_python.py), C and C++ blocks are compiled (doc_cpp.py), shell commands must exist (doc_shell.py),
and CMake and Rust blocks are checked against their projects (doc_projects.py). Only `text` blocks are unchecked.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from doc_blocks import BLOCK, blocks
from doc_cpp import cpp_problems
from doc_projects import project_problems
from doc_python import is_python, python_problems
from doc_shell import shell_problems

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]*`")
# The folders whose paths are checked: paths with a file's suffix, and all paths in backquotes.
FOLDERS = (
    "src|python/callout|python/pure|python/src|include/callout|tests|docs|scripts|ci|benchmarks|examples|software_gpu"
)
NAMED = re.compile(
    rf"(?<![\w/.~-])(?:(?:{FOLDERS})/[\w./-]*\.(?:md|rst|py|h|cc|cu|c|sh|txt|json)\b|(?<=`)(?:{FOLDERS})/[\w./-]*(?=`))"
)
CHECKS = {
    "python": python_problems,
    **dict.fromkeys(("c", "cpp"), cpp_problems),
    **dict.fromkeys(("sh", "console"), shell_problems),
    **dict.fromkeys(("cmake", "rust"), project_problems),
}
# The file with the tested versions of JAX, and patterns of ranges of versions in other files.
VERSIONS = "python/callout/_jax_compat/versions.py"
RANGE = re.compile(r"\bjax(?:lib)?\b[^\w\n]{1,5}([\d.]+\d)\s+to\s+(?:(?://|#)\s*)?([\d.]+\d)", re.IGNORECASE)
CELL = re.compile(r"\b3\.\d+t?:(\d[\d.]*\d)")  # MINOR:JAX in scripts


def tracked_files(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.splitlines() if (ROOT / name).exists()]


def anchors(path: Path) -> set[str]:
    """Returns the anchors that hosting sites give to the page's headings."""
    text = BLOCK.sub("", path.read_text())
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> Iterator[str]:
    for match in LINK.finditer(CODE.sub("code", BLOCK.sub("", path.read_text()))):
        link = match[1] or match[2]
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            yield f"{path.relative_to(ROOT)}: {link} does not exist"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{path.relative_to(ROOT)}: {link} has no such heading"


def stale_paths(path: Path) -> Iterator[str]:
    text = path.read_text()
    for match in NAMED.finditer(text):
        if not (ROOT / match[0]).exists():
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: {match[0]} does not exist"


def tested_versions() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the oldest and the newest tested JAX, the latter without its patch version."""
    text = (ROOT / VERSIONS).read_text()
    oldest, newest = (
        re.findall(rf"^{name} = \((.*)\)$", text, re.MULTILINE)[0] for name in ("OLDEST_TESTED", "NEWEST_TESTED")
    )
    return version(oldest.replace(", ", ".")), version(newest.replace(", ", "."))


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def stale_versions(path: Path) -> Iterator[str]:
    """Yields ranges of JAX's versions, lists of them in scripts, and the requirement, if they differ from VERSIONS."""
    oldest, newest = tested_versions()
    text = path.read_text()
    told = [(match.start(), version(match[1]), version(match[2])) for match in RANGE.finditer(text)]
    if path.name == "pyproject.toml":
        told += [(match.start(), version(match[1]), newest) for match in re.finditer(r'"jax>=([\d.]+)"', text)]
    if path.name == "Makefile" or path.suffix == ".sh":
        for line in re.finditer(r"^.*$", text, re.MULTILINE):
            cells = sorted(map(version, CELL.findall(line[0])))
            if len(cells) > 1:
                told.append((line.start(), cells[0], cells[-1]))
    for at, first, last in told:
        if first not in (oldest, oldest[:2]) or last[:2] != newest:
            line = text.count("\n", 0, at) + 1
            wanted = " to ".join(".".join(map(str, each)) for each in (oldest, newest))
            yield f"{path.relative_to(ROOT)}:{line}: another range of JAX's versions than {wanted}, which {VERSIONS} says"


def broken_examples(path: Path) -> Iterator[str]:
    name = str(path.relative_to(ROOT))
    found = list(blocks(path))
    for block in found:
        if block.language not in {*CHECKS, "text"}:
            yield f"{name}:{block.line}: nothing checks blocks of '{block.language}'"
        if block.language == "text" and is_python(block.code):
            yield f"{name}:{block.line}: this text is Python, and nothing checks it"
    languages = {block.language for block in found}
    for check in {check: None for language, check in CHECKS.items() if language in languages}:
        yield from check(path, name)


def main() -> None:
    problems = []
    sources = tracked_files("*.md", "*.rst", "*.py", "*.h", "*.cc")
    for path in sources:
        problems += stale_paths(path)
    for path in [*sources, *tracked_files("*.sh", "pyproject.toml", "Makefile")]:
        if path.name != "CHANGELOG.md":
            problems += stale_versions(path)
    for path in tracked_files("*.md"):
        problems += broken_links(path)
        if path.parent in {ROOT, ROOT / "docs"}:
            problems += broken_examples(path)
    print("\n".join(problems) if problems else "docs: all passed")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
