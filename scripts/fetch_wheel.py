# SPDX-License-Identifier: Apache-2.0
"""Unpacks the files that the build needs from a pinned wheel into a cache directory.

Usage: python fetch_wheel.py xla-ffi|xla-cpu-pjrt|jax-cuda13-pjrt|cuda-headers CACHE_DIR. CMake runs the script at
configure. The script does nothing if the files exist. pip's settings choose the package index.
"""

import dataclasses
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A pinned wheel. `files`: (pattern of names in the wheel, destination, which may use the pattern's groups)."""

    distribution: str
    requirement: str
    what: str
    tags: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    witness: str


WHEELS = {
    "xla-ffi": Wheel(
        "jaxlib",
        "xla-headers.txt",
        "(82 MiB) for its XLA FFI headers",
        ("--implementation", "cp", "--python-version", "3.12", "--abi", "cp312"),
        (
            (r"jaxlib/(include/xla/ffi/api/\w+\.h)", r"\1"),
            (r"jaxlib-[^/]*\.dist-info/(licenses/)?LICENSE(\.txt)?", "LICENSE"),
        ),
        "include/xla/ffi/api/c_api.h",
    ),
    "xla-cpu-pjrt": Wheel(
        "xla-cpu-pjrt",
        "pjrt.txt",
        "(61 MiB) for the PJRT header and the CPU plugin",
        (),
        (
            (r"xla_plugins/xla_cpu_pjrt/(include/pjrt_c_api\.h)", r"\1"),
            (r"xla_plugins/xla_cpu_pjrt/(xla_cpu_pjrt\.so)", r"\1"),
        ),
        "xla_cpu_pjrt.so",
    ),
    "jax-cuda13-pjrt": Wheel(
        "jax-cuda13-pjrt",
        "pjrt-cuda.txt",
        "(129 MiB) for the CUDA plugin",
        (),
        ((r"jax_plugins/xla_cuda13/(xla_cuda_plugin\.so)", r"\1"),),
        "xla_cuda_plugin.so",
    ),
    "cuda-headers": Wheel(
        "nvidia-cuda-runtime",
        "cuda-headers.txt",
        "(2.5 MiB) for CUDA's headers",
        (),
        (
            (r"nvidia/cu13/(include/cuda(?:Typedefs)?\.h)", r"\1"),
            (r"nvidia_cuda_runtime-[^/]*\.dist-info/licenses/(License.txt)", r"\1"),
        ),
        "include/cudaTypedefs.h",
    ),
}


def download(wheel: Wheel, to: Path) -> Path:
    requirement = REQUIREMENTS / wheel.requirement
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--platform", "manylinux_2_27_x86_64", "--platform", "manylinux2014_x86_64", *wheel.tags]
    command += ["--require-hashes", "--requirement", str(requirement), "--dest", str(to)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    found = list(to.glob("*.whl"))
    if done.returncode != 0 or len(found) != 1:
        sys.exit(
            f"callout: '{sys.executable} -m pip download' of {requirement.name} failed: is the "
            "package index reachable, and does this Python have pip?"
        )
    return found[0]


def unpack(wheel: Wheel, archive_path: Path, to: Path) -> None:
    with zipfile.ZipFile(archive_path) as archive:
        for name in archive.namelist():
            for pattern, place in wheel.files:
                if match := re.fullmatch(pattern, name):
                    target = to / match.expand(place)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))


def main() -> None:
    name = sys.argv[1]
    wheel = WHEELS[name]
    text = (REQUIREMENTS / wheel.requirement).read_text()
    version = re.search(rf"^{wheel.distribution}==(\S+)", text, re.MULTILINE)
    assert version is not None
    cache = Path(sys.argv[2]).resolve()
    final = cache / f"{name}-{version[1]}"
    if (final / wheel.witness).exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    print(f"callout: downloading {wheel.distribution} {version[1]} {wheel.what}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as scratch:
        unpacked = Path(scratch) / "unpacked"
        unpack(wheel, download(wheel, Path(scratch)), unpacked)
        try:
            unpacked.rename(final)
        except OSError:
            # Another configure was faster. Keep its copy.
            if not final.exists():
                raise


if __name__ == "__main__":
    main()
