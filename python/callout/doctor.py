# SPDX-License-Identifier: Apache-2.0
"""`python -m callout.doctor` prints versions, backends and whether calls and taps work. It exits with 1 if one fails."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from importlib import metadata

from ._base.public_modules import publish

__all__ = ["main"]
publish(__name__)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _wheel() -> str:
    """Returns the tag of the installed wheel: py3-none-any is the one without C++."""
    wheel = metadata.distribution("callout").read_text("WHEEL") or ""
    tags = [line.removeprefix("Tag: ") for line in wheel.splitlines() if line.startswith("Tag: ")]
    pure = ", by JAX's own callbacks: docs/fallback.md" if "py3-none-any" in tags else ""
    return (", ".join(tags) or "none") + pure


def _cuda_driver() -> str:
    from . import _ext

    path, version, devices, reason = _ext.cuda_driver()
    if not version:
        return str(reason)
    driver = f"driver {version // 1000}.{version % 1000 // 10} ({path})"
    if reason is not None:
        return f"{driver}, no devices: {reason}"
    names = [f"{ordinal}: {name}, sm_{major}{minor}, {pci}" for ordinal, name, major, minor, pci in devices]
    return f"{driver}, {'; '.join(names)}; experimental"


def _nvrtc() -> str:
    from ._native.compiler import CompileError
    from ._native.gpu.nvrtc import find_nvrtc

    try:
        found = find_nvrtc()
    except CompileError as error:
        return str(error).removeprefix("callout.cuda: ").replace("\n ", "")
    headers = ", ".join(found.include_dirs()) or "no headers of CUDA"
    return f"{str(found).removeprefix('NVRTC ')} ({found.path}), {headers}"


def _plugins() -> str:
    names = [entry.name for entry in metadata.entry_points(group="jax_plugins")]
    return ", ".join(names) or "none"


def _backends() -> str:
    import jax

    return ", ".join(f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices())


def _check_call() -> str:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import callout

    f = jax.jit(lambda x: callout.pure_callback(lambda v: v + np.float32(1), jax.ShapeDtypeStruct((), jnp.float32), x))
    if float(f(np.float32(1))) != 2:
        raise AssertionError("a compiled program got a wrong result back")
    return "a compiled program called Python and got its result"


def _check_tap() -> str:
    import jax

    import callout

    got: list[float] = []
    jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, c: callout.tap(got.append, c) + 1, x))(0.0)
    callout.barrier_wait(timeout=30)
    if got != list(range(10)):
        raise AssertionError(f"expected 0 to 9, got {got}")
    return "10 values left a compiled loop, in order"


def _check_error() -> str:
    import jax
    import jax.numpy as jnp

    import callout

    def fail(_: object) -> None:
        raise KeyError("doctor")

    try:
        with callout.reraise():
            call = jax.jit(lambda x: callout.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), x))
            call(1.0).block_until_ready()  # on a GPU, waiting raises the exception
    except KeyError:
        return "a callback's exception came back as itself"
    raise AssertionError("the callback's exception did not come back")


def _run(check: Callable[[], str]) -> tuple[str, bool]:
    try:
        return check(), True
    except Exception as error:  # noqa: BLE001 - the report shows every error
        return f"FAILED: {type(error).__name__}: {error}", False


def main() -> int:
    """Prints the report, and returns the exit code."""
    from . import _ext, _jax_compat
    from ._base import patches
    from ._base.config import config
    from ._base.native_platforms import PLATFORMS, REFUSED

    _jax_compat.lowering_rules()
    backends, healthy = _run(_backends)
    rows = [
        ("callout", _version("callout")),
        ("jax", f"{_version('jax')} (tested: {_jax_compat.TESTED})"),
        ("jaxlib", _version("jaxlib")),
        ("numpy, ml_dtypes", f"{_version('numpy')}, {_version('ml_dtypes')}"),
        ("Python", f"{platform.python_version()} on {platform.platform()}"),
        ("wheel", _wheel()),
        ("core", str(_ext.__file__)),
        ("backends", backends),
        ("PJRT plugins", _plugins()),
        ("CUDA", _cuda_driver()),
        ("NVRTC", _nvrtc()),
        ("FFI targets", ", ".join(f"{name} ({where})" for name, where, _ in _ext.ffi_targets() if where in PLATFORMS)),
        *((f"refused for {name}", f"{text}; its programs go by JAX's callbacks") for name, text in REFUSED.items()),
        ("private JAX names", "all found" if not _jax_compat.MISSING else "missing: " + ", ".join(_jax_compat.MISSING)),
        ("settings", repr(config)),
    ]
    healthy &= not _jax_compat.MISSING and not REFUSED
    for name, check in (("pure_callback", _check_call), ("tap", _check_tap), ("errors", _check_error)):
        text, good = _run(check)
        rows.append((name, f"ok: {text}" if good else text))
        healthy &= good
    rows.append(("patches of JAX", f"{', '.join(patches.installed()) or 'none'} (docs/patches.md)"))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")  # noqa: T201
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
