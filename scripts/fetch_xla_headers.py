# SPDX-License-Identifier: Apache-2.0
"""Unpacks the XLA FFI headers of the pinned jaxlib wheel into a cache directory.

Usage: python fetch_xla_headers.py CACHE_DIR. CMake runs it at configure; it does nothing when the
headers are there already. pip's own settings say which index the wheel comes from.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = Path(__file__).resolve().parent.parent / "requirements" / "xla-headers.txt"
WHEEL_TAGS = [
    *("--implementation", "cp"),
    *("--python-version", "3.12"),
    *("--abi", "cp312"),
    *("--platform", "manylinux_2_27_x86_64"),
    "--only-binary=:all:",
]
HEADER_PREFIX = "jaxlib/include/"
HEADER = re.compile(r"jaxlib/include/xla/ffi/api/\w+\.h")
LICENCE = re.compile(r"jaxlib-[^/]*\.dist-info/(licenses/)?LICENSE(\.txt)?")


def download(to: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--require-hashes", "--requirement", str(REQUIREMENT), *WHEEL_TAGS]
    command += ["--dest", str(to)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    wheels = list(to.glob("jaxlib-*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        sys.exit(
            f"callout: '{sys.executable} -m pip download' of {REQUIREMENT.name} failed: is the "
            "package index reachable, and does this Python have pip?"
        )
    return wheels[0]


def unpack(wheel: Path, to: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if HEADER.fullmatch(name):
                target = to / "include" / name[len(HEADER_PREFIX) :]
            elif LICENCE.fullmatch(name):
                target = to / "LICENSE"
            else:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))


def main() -> None:
    version = re.search(r"^jaxlib==(\S+)", REQUIREMENT.read_text(), re.MULTILINE)
    assert version is not None
    cache = Path(sys.argv[1]).resolve()
    final = cache / f"xla-ffi-{version[1]}"
    if (final / "include/xla/ffi/api/c_api.h").exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    print(f"callout: downloading jaxlib {version[1]} (82 MiB) for its XLA FFI headers", flush=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as scratch:
        unpacked = Path(scratch) / "unpacked"
        unpack(download(Path(scratch)), unpacked)
        try:
            unpacked.rename(final)
        except OSError:
            # Another configure was faster; its copy is as good as ours.
            if not final.exists():
                raise


if __name__ == "__main__":
    main()
