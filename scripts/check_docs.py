# SPDX-License-Identifier: Apache-2.0
"""Checks links in Markdown, paths and ranges of JAX's versions in all files; runs the Python blocks of README.md and docs/.

The blocks of one file run in order, in one fresh interpreter. `<!-- not run: REASON -->` on the line
before a block leaves it out; a block marked `python-console` or anything else is never run.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^(?:<!-- not run: ([^\n]+) -->\n)?```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
# A file by its suffix, or whatever is in backquotes.
FOLDERS = (
    "src|python/callout|python/pure|python/src|include/callout|tests|docs|scripts|benchmarks|examples|software_gpu"
)
NAMED = re.compile(
    rf"(?<![\w/.~-])(?:(?:{FOLDERS})/[\w./-]*\.(?:md|rst|py|h|cc|cu|c|sh|txt|json)\b|(?<=`)(?:{FOLDERS})/[\w./-]*(?=`))"
)
TIME_LIMIT_S = 300
# What holds the versions of JAX that Callout is tested with, and what says them elsewhere.
VERSIONS = "python/callout/_jax_compat/versions.py"
RANGE = re.compile(r"\bjax(?:lib)?\b[^\w\n]{1,5}([\d.]+\d)\s+to\s+(?:(?://|#)\s*)?([\d.]+\d)", re.IGNORECASE)
CELL = re.compile(r"\b3\.\d+t?:(\d[\d.]*\d)")  # MINOR:JAX of scripts


def tracked_files(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.splitlines() if (ROOT / name).exists()]


def anchors(path: Path) -> set[str]:
    """Headings as the anchors that hosting sites give them."""
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
    """The oldest and the newest JAX, the latter without its patch."""
    text = (ROOT / VERSIONS).read_text()
    oldest, newest = (
        re.findall(rf"^{name} = \((.*)\)$", text, re.MULTILINE)[0] for name in ("OLDEST_TESTED", "NEWEST_TESTED")
    )
    return version(oldest.replace(", ", ".")), version(newest.replace(", ", "."))


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def stale_versions(path: Path) -> Iterator[str]:
    """Ranges of JAX's versions, lists of them in scripts, and the requirement, which are not what VERSIONS says."""
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


def run_blocks(path: Path) -> Iterator[str]:
    text = path.read_text()
    program = ""
    count = 0
    for block in BLOCK.finditer(text):
        if block[2] == "python" and not block[1]:
            # Blank lines keep the line numbers of tracebacks those of the document.
            start = text.count("\n", 0, block.start(3))
            program += "\n" * (start - program.count("\n")) + block[3]
            count += 1
    if not count:
        return
    name = path.relative_to(ROOT)
    print(f"{name}: running {count} blocks", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "document.py"
        script.write_text(program)
        code = f"exec(compile(open({str(script)!r}).read(), {str(name)!r}, 'exec'), {{'__name__': '__main__'}})"
        try:
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            yield f"{name}: did not end in {TIME_LIMIT_S} s"
            return
    if done.returncode:
        yield f"{name}: exit code {done.returncode}"


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
            problems += run_blocks(path)
    print("\n".join(problems) if problems else "docs: all passed")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
