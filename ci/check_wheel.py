# SPDX-License-Identifier: Apache-2.0
"""Checks the content of wheels and source distributions: nothing missing, nothing twice, no path of the build machine.

Usage: python check_wheel.py FILE...  Uses readelf for the dynamic sections.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVERYWHERE = [
    r"callout/py\.typed",
    r"callout/__init__\.py",
    r"callout-[\d.]+\.dist-info/licenses/LICENSE",
]
REQUIRED = [
    *EVERYWHERE,
    r"callout/lib/libcallout\.so",
    r"callout/_ext\.cpython-\d+t?-(x86_64|aarch64)-linux-gnu\.so",
    r"callout/_ext\.pyi",
    r"callout/include/callout/version\.h",
    r"callout/lib/cmake/callout/callout-config\.cmake",
    r"callout/lib/cmake/callout/callout-targets\.cmake",
]
# The repository's files that a source distribution contains.
SOURCES = (
    "CMakeLists.txt",
    "LICENSE",
    "README.md",
    "cmake",
    "include",
    "pyproject.toml",
    "python",
    "requirements",
    "src",
)
# Paths that pip, scikit-build-core or a user's own folders would leave behind.
FORBIDDEN = [str(ROOT), str(Path.home()), "/tmp/", f"{tempfile.gettempdir()}/", "site-packages/nanobind"]
ALLOWED_SYMBOL = re.compile(r"callout_|_Z(GV)?Z?NK?7callout|_ZT[HISVW]N7callout")


def paths_left(name: str, content: bytes) -> Iterator[str]:
    for path in FORBIDDEN:
        for found in re.findall(rb"[\x20-\x7e]*" + re.escape(path.encode()) + rb"[\x20-\x7e]*", content):
            yield f"{name} holds a path of the build machine: {found.decode()}"


def shared_libraries(folder: Path) -> Iterator[str]:
    libraries = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.so*"))
    if len(libraries) != 2:
        yield f"expected libcallout.so and _ext, got {libraries}"
    for name in libraries:
        dynamic = subprocess.run(["readelf", "-dW", folder / name], check=True, capture_output=True, text=True).stdout
        if "libstdc++" not in dynamic:
            yield f"{name} does not use the shared C++ library"
        if "_ext" in name and "[libcallout.so]" not in dynamic:
            yield f"{name} does not need libcallout.so"
        if "_ext" in name and "[$ORIGIN/lib]" not in dynamic:
            yield f"{name} has a run path other than $ORIGIN/lib"
        if name.endswith("libcallout.so"):
            yield from exports(folder / name)


def exports(library: Path) -> Iterator[str]:
    table = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True, capture_output=True, text=True).stdout
    for row in table.splitlines():
        fields = row.split()
        # Linkers for aarch64 also list sections, which are local.
        if len(fields) != 8 or fields[4] == "LOCAL":
            continue
        if fields[6].isdigit() and not ALLOWED_SYMBOL.match(fields[7]):
            yield f"libcallout.so exports {fields[7]}"


def missing(names: list[str], patterns: list[str]) -> Iterator[str]:
    for pattern in patterns:
        if not any(re.fullmatch(pattern, name) for name in names):
            yield f"nothing matches {pattern}"


def python_files(folder: str) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if name.endswith(".py") and (ROOT / name).exists()]


def check_pure(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        here = [name.removeprefix("python/").removeprefix("pure/") for name in python_files("python")]
        files = [name if name.startswith("callout/") else f"callout/{name}" for name in here]
        problems = list(missing(names, [*EVERYWHERE, *map(re.escape, files)]))
        problems += [f"{name} is no file of Python" for name in names if re.search(r"\.(so|pyi|h|cc|cmake)\b", name)]
        (told,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
        if "Root-Is-Purelib: true" not in told or re.findall("Tag: (.*)", told) != ["py3-none-any"]:
            problems.append(f"its tag is not py3-none-any alone: {told}")
        for name in names:
            problems += paths_left(name, archive.read(name))
    return [f"{wheel.name}: {problem}" for problem in problems]


def check_sdist(sdist: Path) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *SOURCES]
    wanted = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    problems = [f"{name} is missing" for name in wanted if name not in names and (ROOT / name).exists()]
    problems += [
        f"{name} does not belong here" for name in names if name.startswith((".git/", "build/", "dist/", ".venv"))
    ]
    return [f"{sdist.name}: {problem}" for problem in problems]


def check(wheel: Path) -> list[str]:
    if wheel.name.endswith(".tar.gz"):
        return check_sdist(wheel)
    if wheel.name.endswith("-py3-none-any.whl"):
        return check_pure(wheel)
    problems = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        names = archive.namelist()
        # Wheels lack the header of the host.
        public = [path for path in (ROOT / "include/callout").glob("*.h") if path.name != "c_api.h"]
        headers = [f"callout/{path.relative_to(ROOT)}" for path in public]
        problems += missing(names, [*REQUIRED, *map(re.escape, headers)])
        for name in names:
            problems += paths_left(name, archive.read(name))
        archive.extractall(scratch)
        problems += shared_libraries(Path(scratch))
    return [f"{wheel.name}: {problem}" for problem in problems]


def main() -> None:
    problems = [problem for name in sys.argv[1:] for problem in check(Path(name))]
    print("\n".join(problems or [f"{Path(name).name}: content is right" for name in sys.argv[1:]]))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
