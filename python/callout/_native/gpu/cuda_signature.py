# SPDX-License-Identifier: Apache-2.0
"""Reads the declarations of kernels in CUDA C++ source, without a compiler.

This module also maps types of CUDA C++ to dtypes, and converts a launch's constants to bytes of their parameter's type.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Kind(enum.Enum):
    """The role of a parameter in JAX."""

    IN = "in"  # an argument's address
    OUT = "out"  # the address of a result, or of an argument that is updated in place
    VALUE = "value"  # a constant


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. `dtype` is None for types that JAX does not have, which are not checked."""

    kind: Kind
    dtype: np.dtype[Any] | None
    name: str

    def __str__(self) -> str:
        what = "bytes" if self.dtype is None and self.kind is Kind.VALUE else self.dtype or "any"
        return " ".join(filter(None, ["" if self.kind is Kind.VALUE else self.kind.value, str(what), self.name]))


_FLOATS = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "__half": np.float16,
    "nv_bfloat16": jnp.bfloat16,
    "__nv_bfloat16": jnp.bfloat16,
    "__nv_fp8_e4m3": jnp.float8_e4m3fn,
    "__nv_fp8_e5m2": jnp.float8_e5m2,
    "cuComplex": np.complex64,
    "cuFloatComplex": np.complex64,
    "cuDoubleComplex": np.complex128,
    "complex<float>": np.complex64,
    "complex<double>": np.complex128,
}
_INTEGERS = {f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_INTEGERS |= {"size_t": "uint64", "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64", "bool": "bool"}
_TYPES = {name: np.dtype(kind) for name, kind in (_FLOATS | _INTEGERS).items()}
INTEGER_WORDS = frozenset(("unsigned", "signed", "char", "short", "int", "long"))
_IGNORED = re.compile(
    r"\b(const|volatile|struct|class|typename|__restrict__|__restrict|__grid_constant__)\b|\[\[.*?\]\]"
)
_NAMESPACES = re.compile(r"(?:\bcuda\s*::\s*|\bthrust\s*::\s*)?(?:\bstd\s*)?::\s*|\bthrust\s*::\s*")


def bare(text: str) -> str:
    """Returns a type or a name without qualifiers."""
    return re.sub(r"\s+", " ", _IGNORED.sub(" ", text)).strip()


def dtype_of(type_name: str, known: Mapping[str, str] | None = None) -> np.dtype[Any] | None:
    """Returns the dtype of a C++ type; None if it has none. `known` maps names of types to their definitions."""
    name = bare(type_name)
    for _ in range(8):  # resolve names that refer to names
        if known is None or name not in known:
            break
        name = bare(known[name])
    name = _NAMESPACES.sub("", name).replace(" ", "") if "::" in name else name
    words = name.split()
    if words and INTEGER_WORDS.issuperset(words):
        return _integer(words)
    return _TYPES.get(name)


def _integer(words: Sequence[str]) -> np.dtype[Any]:
    """Returns the dtype of integer types such as "unsigned long long"."""
    sizes = {"char": 8, "short": 16, "long": 64}  # on Linux
    bits = next((size for word, size in sizes.items() if word in words), 32)
    return np.dtype(f"{'u' if 'unsigned' in words else ''}int{bits}")


def parse(text: str) -> Parameter:
    """Parses the user's text for a parameter: "in float32 x", "out float32", "in", "int32 n", "bytes options".

    Raises:
        ValueError: the text has another form.
    """
    words = text.split() if isinstance(text, str) else []
    kind = Kind(words.pop(0)) if words and words[0] in ("in", "out") else Kind.VALUE
    if kind is not Kind.VALUE and not words:
        return Parameter(kind, None, "")
    for end in range(len(words), max(len(words) - 2, 0), -1):
        type_name = " ".join(words[:end])
        dtype = None if type_name in ("any", "bytes") else _named_dtype(type_name)
        if dtype is not None or type_name == ("bytes" if kind is Kind.VALUE else "any"):
            return Parameter(kind, dtype, " ".join(words[end:]))
    raise ValueError(
        f"{text!r} is no parameter; expected 'in DTYPE', 'out DTYPE' or 'DTYPE NAME', such as 'in float32', 'int32 n'; "
        "'in any' and 'bytes NAME' are not checked"
    )


def _named_dtype(name: str) -> np.dtype[Any] | None:
    """Returns a dtype by its name in C++, or else in NumPy or JAX."""
    if (dtype := dtype_of(name)) is not None:
        return dtype
    try:
        return np.dtype(getattr(jnp, name, name))
    except TypeError:
        return None


def constant_bytes(error: Callable[[str], Exception], declared: Parameter, value: Any) -> bytes:
    """Converts `value` to the parameter's type. `error` makes the exception if the value does not fit."""
    if isinstance(value, jax.core.Tracer):
        raise error(
            f"constant {declared.name!r} is known when the program runs only; pass it as an array, by a pointer"
        )
    if declared.dtype is None:
        if isinstance(value, bytes):
            return value
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tobytes()
        raise error(
            f"constant {declared.name!r} is of a type that JAX has no name for: pass bytes or a NumPy value, got {value!r}"
        )
    try:
        return _exact(np.asarray(value), declared.dtype).tobytes()
    except (ValueError, TypeError, OverflowError) as reason:
        raise error(f"constant {declared.name!r} must be {declared.dtype}, got {value!r}") from reason


# The kinds that a value of each kind may be converted to: numbers may lose digits, but not their fraction, sign or
# imaginary part.
_WIDER = {"b": "biufc", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}


def _exact(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    kind = "f" if dtype.kind == "V" else dtype.kind  # bfloat16 and float8
    if array.ndim != 0 or kind not in _WIDER.get("f" if array.dtype.kind == "V" else array.dtype.kind, ""):
        raise ValueError
    converted = array.astype(dtype)
    if kind in "iu" and converted != array:
        raise ValueError
    return converted


def signatures(source: str, defines: Mapping[str, str] | None = None) -> dict[str, Signature | None]:
    """Returns the kernels that a source declares, by name. None stands for an ambiguous name of two kernels."""
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
    """The declaration of a kernel. `template`: the names of the template's parameters, if it is a template."""

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
    """Returns the bare name: "axpy" for "space::axpy<float>"."""
    return kernel.split("<")[0].split("::")[-1].strip()


def _plain(source: str) -> str:
    """Removes comments and strings, and joins continued lines."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, " ", source, flags=re.DOTALL).replace("\\\n", " ")


def _aliases(text: str) -> dict[str, str]:
    """Returns the definitions of type names that have exactly one definition."""
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
            # A kernel's parameters are followed by its body, in contrast to the parentheses of __launch_bounds__(...).
            if re.compile(r"\s*[{;]").match(text, end):
                yield word[1], text[at + 1 : end - 1], _template(text[: found.start()])
                break
            at = end


def _closing(text: str, at: int) -> int:
    """Returns the index behind the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    return len(text)


def _template(before: str) -> tuple[str, ...] | None:
    """Returns the names of the template's parameters, if `before` ends with a template's head."""
    head = before[max(before.rfind(end) for end in ";}{") + 1 :]
    found = re.search(r"\btemplate\s*<(.*)>", head, re.DOTALL)
    if found is None:
        return None
    return tuple(re.sub(r"=.*", "", item, flags=re.DOTALL).split()[-1].lstrip(".") for item in _split(found[1]))


def _split(text: str) -> Iterator[str]:
    """Splits a text at commas outside of brackets."""
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
    """Replaces a type name by its definition, which may be const."""
    return f"{type_name} {known.get(type_name.strip(), '')}"
