# SPDX-License-Identifier: Apache-2.0
"""Writes stub libraries, so that binaries linked with them run with an older glibc and libstdc++ than this machine's.

Usage: python write_libraries.py GLIBC GLIBCXX CXXABI FOLDER  (such as 2.28 3.4.25 1.3.11 build/wheels/older)

The folder is for `-L`. Its shared libraries have the names of the system's, and their symbols up to the given versions,
but no code: the linker takes the newest remaining version of each symbol. Symbols that the older libraries lack come
from archives behind them, which are linked statically: older_glibc.cc beside this file, and the compiler's libstdc++.a.
A symbol that neither has stays undefined, which fails the link. The compiler is CXX of the environment, or c++.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

# Before glibc 2.34, libc.so.6 has neither threads nor dlopen. The dynamic linker only has old versions.
BESIDE_LIBC = ("libdl.so.2", "libpthread.so.0")
LINKERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
CXX = os.environ.get("CXX", "c++")
# The section of a symbol and its type in assembler, by its kind.
PLACES = {"OBJECT": (".data", "object"), "TLS": ('.section .tdata, "awT", @progbits', "tls_object")}
# A line of readelf: number, value, size, kind, binding, visibility, section, name@version.
SYMBOL = re.compile(
    r"\s*\d+: \w+\s+\S+ (?P<kind>\w+)\s+\w+\s+\w+\s+(?P<section>\w+) (?P<name>[^@\s]+)@+(?P<version>\S+)"
)


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def kept(library: Path, limits: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Returns the symbols of the older library: the newest version of each, and its kind."""
    found: dict[str, tuple[str, str]] = {}
    for line in run("readelf", "--dyn-syms", "-W", library).splitlines():
        symbol = SYMBOL.match(line)
        if not symbol or symbol["section"] == "UND":
            continue
        family, _, version = symbol["version"].partition("_")
        if not re.fullmatch(r"[\d.]+", version) or number(version) > number(limits.get(family, "0")):
            continue
        if symbol["name"] not in found or number(found[symbol["name"]][0]) < number(version):
            found[symbol["name"]] = (symbol["version"], symbol["kind"])
    return found


def write_stub(soname: str, symbols: dict[str, tuple[str, str]], folder: Path) -> Path:
    source, script, stub = (folder / f"{soname}{suffix}" for suffix in (".s", ".map", ""))
    lines = [".section .note.GNU-stack"]
    for index, (name, (version, kind)) in enumerate(sorted(symbols.items())):
        section, called = PLACES.get(kind, (".text", "function"))
        lines += [
            section,
            f".globl s{index}",
            f".type s{index}, @{called}",
            f"s{index}: .byte 0",
            f".size s{index}, 1",
            f'.symver s{index}, "{name}@@{version}", remove',
        ]
    source.write_text("\n".join(lines) + "\n")
    versions = sorted({version for version, _ in symbols.values()})
    script.write_text("".join(f"{version} {{}};\n" for version in versions))
    command = [CXX, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}"]
    run(*command, "-o", stub, source)
    return stub


def write_group(name: str, files: list[str | Path], folder: Path) -> None:
    (folder / name).write_text(f"/* GNU ld script */\nGROUP ( {' '.join(map(str, files))} )\n")


def main() -> None:
    glibc, glibcxx, cxxabi, out = sys.argv[1:]
    folder = Path(out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    limits = {"GLIBC": glibc, "GLIBCXX": glibcxx, "CXXABI": cxxabi}

    def of_compiler(name: str) -> Path:
        return Path(run(CXX, f"-print-file-name={name}").strip()).resolve()

    def stub(soname: str) -> Path:
        return write_stub(soname, kept(of_compiler(soname), limits), folder)

    shims, archive = folder / "older_glibc.o", folder / "libolder_glibc.a"
    run(CXX, "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-c",
        Path(__file__).with_name("older_glibc.cc"), "-o", shims)  # fmt: skip
    archive.unlink(missing_ok=True)
    run(run(CXX, "-print-prog-name=ar").strip(), "rcs", archive, shims)
    linker = LINKERS[run(CXX, "-dumpmachine").partition("-")[0]]
    beside = map(of_compiler, (*BESIDE_LIBC, linker))
    write_group("libc.so", [stub("libc.so.6"), *beside, archive, of_compiler("libc_nonshared.a")], folder)
    write_group("libm.so", [stub("libm.so.6")], folder)
    write_group("libstdc++.so", [stub("libstdc++.so.6"), of_compiler("libstdc++.a")], folder)


if __name__ == "__main__":
    main()
