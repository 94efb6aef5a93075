# SPDX-License-Identifier: Apache-2.0
"""Checks that docstrings of `callout` begin with a sentence: those of all functions and classes, and of public modules.

A function's begins with a verb in the third person ("Returns the rank."), or is a statement whose verb is not that of a
relative clause ("Every device calls."). Verbs are those below: a docstring with another one adds it.
"""

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/callout"
# What a function's summary may begin with.
VERBS = """
Adds Allows Appends Asks Begins Binds Calls Chains Checks Chooses Closes Collects Compiles Computes Counts Describes
Does Draws Drops Emits Ends Evaluates Exports Fails Finds Forgets Gives Has Holds Installs Joins Keeps Launches Leaves
Lets Lists Logs Loops Lowers Makes Names Notes Opens Prints Puts Raises Reads Records Refuses Registers Releases
Remembers Replaces Restores Returns Runs Says Sends Sets Splits Spreads Stands Starts Sums Takes Taps Tells Turns Waits
Warns Writes Yields
"""
# What makes a statement of any other words.
FINITE = """
is are was were has have had does do did can cannot could may must might need needs will would should asks become becomes
calls carries changes come comes computes draws failed found get gets goes keep keeps launch learns leaves makes means ran
receive refused registered returned returns run runs said says sends shows stands takes tells wait waited waits work works
writes
"""
RELATIVE = "that which what who whoever where if when how whose"
WORD = re.compile(r"[A-Za-z]+")


def summaries(path: Path) -> Iterator[tuple[ast.AST, str, int, str]]:
    """Every docstring's first sentence, with what it is of."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            sentence = re.split(r"\.(?:\s|$)", text.partition("\n\n")[0], maxsplit=1)[0]
            yield node, getattr(node, "name", path.name), node.body[0].lineno, sentence


def is_public(path: Path) -> bool:
    """True for a module without an underscore before a name of its path."""
    names = path.relative_to(PACKAGE).with_suffix("").parts
    return not any(name.startswith("_") and name != "__init__" for name in names)


def has_verb(node: ast.AST, sentence: str) -> bool:
    words = [word.lower() for word in WORD.findall(re.sub(r"`[^`]*`", "", sentence))]
    verbs, finite, relative = VERBS.lower().split(), FINITE.split(), RELATIVE.split()
    if not isinstance(node, ast.FunctionDef):
        return any(word in verbs or word in finite for word in words)
    if words[:1] and words[0] in verbs:
        return True
    main_clause = itertools.takewhile(lambda word: word not in relative, words)
    return any(word in finite for word in main_clause)


def problems() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node, name, line, sentence in summaries(path):
            wanted = not isinstance(node, ast.Module) or is_public(path)
            if wanted and not has_verb(node, sentence):
                yield f"{path.relative_to(ROOT)}:{line}: {name}: the summary has no verb: {' '.join(sentence.split())}"


def main() -> None:
    found = list(problems())
    print("\n".join(found) if found else "summaries: all passed")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
