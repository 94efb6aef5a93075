# SPDX-License-Identifier: Apache-2.0
"""Checks the content of wheels: nothing missing, nothing twice, no path of the build machine.

Usage: python check_wheel.py WHEEL...  Uses readelf for the dynamic sections.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = [
    r"callout/lib/libcallout\.so",
    r"callout/_ext\.cpython-\d+-x86_64-linux-gnu\.so",
    r"callout/_ext\.pyi",
    r"callout/py\.typed",
    r"callout/__init__\.py",
    r"callout/include/callout/version\.h",
    r"callout/lib/cmake/callout/callout-config\.cmake",
    r"callout/lib/cmake/callout/callout-targets\.cmake",
    r"callout-[\d.]+\.dist-info/licenses/LICENSE",
]
# Paths that pip, scikit-build-core or a user's own folders would leave behind.
FORBIDDEN = [str(ROOT), str(Path.home()), "/tmp/", tempfile.gettempdir(), "site-packages/nanobind"]
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
        if len(fields) == 8 and fields[6].isdigit() and not ALLOWED_SYMBOL.match(fields[7]):
            yield f"libcallout.so exports {fields[7]}"


def check(wheel: Path) -> list[str]:
    problems = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as scratch:
        names = archive.namelist()
        # Not those of the host, which wheels do not have.
        public = [path for path in (ROOT / "include/callout").glob("*.h") if path.name != "c_api.h"]
        headers = [f"callout/{path.relative_to(ROOT)}" for path in public]
        for pattern in [*REQUIRED, *map(re.escape, headers)]:
            if not any(re.fullmatch(pattern, name) for name in names):
                problems += [f"nothing matches {pattern}"]
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
