# SPDX-License-Identifier: Apache-2.0
"""The kernels that a source of CUDA C++ declares, and their parameters, read without a compiler."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from .parameters import INTEGER_WORDS, Kind, Parameter, bare, dtype_of


def signatures(source: str, defines: Mapping[str, str] | None = None) -> dict[str, Signature | None]:
    """Returns the kernels that a source declares, by name. None: two of that name, and which is meant is not known."""
    text = _plain(source)
    known = {**_aliases(text), **(defines or {})}
    found: dict[str, Signature | None] = {}
    for name, parameters, template in _declarations(re.sub(r"^[ \t]*#.*", "", text, flags=re.MULTILINE)):
        declared = Signature(tuple(_split(parameters)), template, known)
        if name not in found or found[name] == declared:
            found[name] = declared
        else:
            found[name] = None
    return found


@dataclasses.dataclass(frozen=True)
class Signature:
    """Is what a declaration says. `template`: its parameters' names, if it is a template."""

    parameters: tuple[str, ...]
    template: tuple[str, ...] | None
    known: Mapping[str, str] = dataclasses.field(compare=False)

    def instance(self, kernel: str) -> tuple[Parameter, ...]:
        """Returns the parameters of `kernel`, such as "axpy" or "axpy<float>"."""
        begin = kernel.find("<")
        arguments = list(_split(kernel[begin + 1 : kernel.rindex(">")])) if begin >= 0 and ">" in kernel else []
        known = {**self.known, **dict(zip(self.template or (), arguments, strict=False))}
        return tuple(_declared(text, known) for text in self.parameters if text != "void")


def base_name(kernel: str) -> str:
    """Returns the bare name, of "space::axpy<float>": "axpy"."""
    return kernel.split("<")[0].split("::")[-1].strip()


def _plain(source: str) -> str:
    """Leaves out comments, strings and continued lines."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, " ", source, flags=re.DOTALL).replace("\\\n", " ")


def _aliases(text: str) -> dict[str, str]:
    """Returns what names of types stand for, if they stand for one thing only."""
    pairs = re.findall(r"\busing\s+(\w+)\s*=\s*([^;]+);", text)
    pairs += [(name, type_name) for type_name, name in re.findall(r"\btypedef\s+([^;{}]+?)\s+(\w+)\s*;", text)]
    pairs += re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([A-Za-z_][\w:<> \t]*?)[ \t]*$", text, re.MULTILINE)
    meanings: dict[str, set[str]] = {}
    for name, type_name in pairs:
        meanings.setdefault(name, set()).add(type_name)
    return {name: single.pop() for name, single in meanings.items() if len(single) == 1}


def _declarations(text: str) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """Yields (name, parameters, template parameters) of each kernel."""
    for found in re.finditer(r"\b__global__\b", text):
        at = found.end()
        while word := re.compile(r"\s*(\w+)\s*").match(text, at):
            at = word.end()
            if text[at : at + 1] != "(":
                continue
            end = _closing(text, at)
            # What follows the kernel's parameters is its body; after __launch_bounds__(...) there is more to come.
            if re.compile(r"\s*[{;]").match(text, end):
                yield word[1], text[at + 1 : end - 1], _template(text[: found.start()])
                break
            at = end


def _closing(text: str, at: int) -> int:
    """Returns the place behind the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    return len(text)


def _template(before: str) -> tuple[str, ...] | None:
    """Returns the names of the template's parameters, of the declaration that `before` ends in."""
    head = before[max(before.rfind(end) for end in ";}{") + 1 :]
    found = re.search(r"\btemplate\s*<(.*)>", head, re.DOTALL)
    if found is None:
        return None
    return tuple(re.sub(r"=.*", "", item, flags=re.DOTALL).split()[-1].lstrip(".") for item in _split(found[1]))


def _split(text: str) -> Iterator[str]:
    """Splits a text at commas that are in no brackets."""
    depth, begin = 0, 0
    for i, letter in enumerate(text + ","):
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            if item := text[begin:i].strip():
                yield item
            begin = i + 1


def _declared(text: str, known: Mapping[str, str]) -> Parameter:
    text = re.sub(r"=.*", "", text, flags=re.DOTALL)
    is_array = "[" in re.sub(r"\[\[.*?\]\]", "", text)
    if is_array:
        text = re.sub(r"(\w*)\s*\[.*", r"* \1", text, flags=re.DOTALL)
    parts = text.split("*")
    if len(parts) == 1:
        words = bare(text).rsplit(" ", 1)
        named = len(words) == 2 and words[1] not in INTEGER_WORDS and not words[1].endswith(">")
        type_name, name = words if named else (" ".join(words), "")
        return Parameter(Kind.VALUE, dtype_of(type_name, known), name)
    kind = Kind.IN if re.search(r"\bconst\b", _expanded(parts[0], known)) else Kind.OUT
    dtype = dtype_of(parts[0], known) if len(parts) == 2 else None
    return Parameter(kind, dtype, bare(parts[-1]))


def _expanded(type_name: str, known: Mapping[str, str]) -> str:
    """Adds what a name stands for, which may be const."""
    return f"{type_name} {known.get(type_name.strip(), '')}"
