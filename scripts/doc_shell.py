# SPDX-License-Identifier: Apache-2.0
"""Checks the shell blocks of a page: bash parses them, and their make targets and options of `callout` exist."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from doc_blocks import Block, blocks

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ROOT / "tools/callout-main.cc"
FUNCTION = re.compile(r"^\w[\w:*& ]* (\w+)\((.*?)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r'"!?(--[\w-]+(?:,--[\w-]+)*)"')
SEPARATORS = {"|", "||", "&&", ";"}


def shell_problems(path: Path, name: str) -> Iterator[str]:
    """Yields the errors of the shell blocks of the page at `path`, which messages call `name`."""
    for block in blocks(path):
        if block.language not in {"sh", "console"}:
            continue
        lines = commands(block)
        read = subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, check=False, capture_output=True)
        if read.returncode:
            yield f"{name}:{block.line}: {read.stderr.strip()}"
            continue
        for words in map(shell_words, lines):
            if problem := wrong_words(words):
                yield f"{name}:{block.line}: {' '.join(words)}: {problem}"


def commands(block: Block) -> list[str]:
    lines = block.code.splitlines()
    return [line[2:] for line in lines if line.startswith("$ ")] if block.language == "console" else lines


def shell_words(line: str) -> list[str]:
    """Returns the words of the first command of a line."""
    words = shlex.split(line, comments=True)
    end = next((i for i, word in enumerate(words) if word in SEPARATORS), len(words))
    return words[:end]


def wrong_words(words: list[str]) -> str:
    if words[:1] == ["make"]:
        known = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        unknown = [word for word in words[1:] if "=" not in word and word not in known]
        return f"the Makefile has no target {unknown[0]}" if unknown else ""
    if words[:1] != ["callout"]:
        return ""
    known_options = command_options().get(words[1]) if len(words) > 1 else None
    if known_options is None:
        return f"expected one of {', '.join(sorted(command_options()))}"
    given = [word.partition("=")[0] for word in words[2:] if word.startswith("--")]
    unknown = [option for option in given if option not in known_options]
    return f"callout {words[1]} has no option {unknown[0]}" if unknown else ""


@cache
def command_options() -> dict[str, set[str]]:
    """Returns the options of each subcommand, which its source declares, itself or by functions that it calls."""
    functions = {match[1]: match[3] for match in FUNCTION.finditer(COMMAND.read_text())}

    def options(body: str) -> set[str]:
        own = {option for names in OPTION.findall(body) for option in names.split(",")}
        called = [text for function, text in functions.items() if re.search(rf"\b{function}\(\*", body)]
        return own.union(*map(options, called))

    found = {}
    for body in functions.values():
        if subcommand := re.search(r'add_subcommand\(\s*"(\w+)"', body):
            found[subcommand[1]] = options(body)
    return found
