# SPDX-License-Identifier: Apache-2.0
"""Binds callout/c_api.h by ctypes, as a host in another language would.

The library is the installed package's, if the package was built with its host; otherwise the C++ build's.
"""

import ctypes
import os
import re
from pathlib import Path

import callout
import numpy as np

BUILD = Path(__file__).parents[3] / "build" / "dev"
FLOAT32 = 11
Pointer, Size = ctypes.c_void_p, ctypes.c_size_t


class CompileOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", Size),
        ("callbacks", ctypes.POINTER(Pointer)),
        ("num_callbacks", Size),
        ("num_replicas", ctypes.c_int32),
        ("num_partitions", ctypes.c_int32),
        ("device_assignment", Pointer),
        ("num_assigned", Size),
        ("xla_options", Pointer),
        ("num_xla_options", Size),
        ("cache_directory", ctypes.c_char_p),
        ("embedded_code", ctypes.c_int32),
    )


SIGNATURES = {
    "callback_from_closure": (ctypes.c_char_p, Pointer, Pointer),
    "plugin_load": (ctypes.c_char_p, Pointer),
    "client_create": (Pointer, Pointer, Pointer),
    "program_from_bytes": (ctypes.c_char_p, Size, Pointer),
    "compile": (Pointer, Pointer, Pointer, Pointer),
    "array_from_host": (Pointer, Size, ctypes.c_uint32, Pointer, Size, Pointer, Size, Pointer),
    "execute": (Pointer, Pointer, Size, Pointer, Pointer, Size),
    "array_to_host": (Pointer, Pointer, Size),
    "barrier_wait": (ctypes.c_double,),
}


def library_path():
    """Returns the path of the library; None if there is no host."""
    package = Path(callout.__file__).parent / "lib" / "libcallout.so"
    if hasattr(ctypes.CDLL(str(package)), "callout_c_api_version"):
        return package
    return BUILD / "libcallout.so" if (BUILD / "libcallout.so").exists() else None


def plugin_path():
    """Returns CALLOUT_PJRT_PLUGIN, or the plugin of the C++ build's tests; None if there is neither."""
    cache = BUILD / "CMakeCache.txt"
    found = re.search(r"^callout_pjrt_plugin:.*?=(.*)$", cache.read_text() if cache.exists() else "", re.MULTILINE)
    path = os.environ.get("CALLOUT_PJRT_PLUGIN") or (found[1] if found else "")
    return path if path and Path(path).exists() else None


class CApi:
    """The functions of the library. `close` destroys the handles, the newest first."""

    def __init__(self):
        self._library = ctypes.CDLL(str(library_path()))  # releases the GIL during calls
        self._handles = []
        for name, signature in SIGNATURES.items():
            function = getattr(self._library, f"callout_{name}")
            function.restype, function.argtypes = Pointer, signature
        for name, result in (("code", ctypes.c_int32), ("message", ctypes.c_char_p), ("destroy", None)):
            function = getattr(self._library, f"callout_status_{name}")
            function.restype, function.argtypes = result, (Pointer,)

    def call(self, name, *args):
        """Calls a function. Raises RuntimeError("CODE: MESSAGE") if the function fails."""
        status = getattr(self._library, f"callout_{name}")(*args)
        if status:
            text = (
                f"{self._library.callout_status_code(status)}: {self._library.callout_status_message(status).decode()}"
            )
            self._library.callout_status_destroy(status)
            raise RuntimeError(text)

    def make(self, kind, name, *args):
        """Returns a handle of the given kind, which the function wrote to its last parameter."""
        out = Pointer()
        self.call(name, *args, ctypes.byref(out))
        self._handles.append((kind, out))
        return out

    def compile(self, client, code, callbacks, *, embedded_code=0):
        program = self.make("program", "program_from_bytes", code, len(code))
        array = (Pointer * len(callbacks))(*callbacks)
        options = CompileOptions(ctypes.sizeof(CompileOptions), array, len(callbacks), embedded_code=embedded_code)
        return self.make("executable", "compile", client, program, ctypes.byref(options))

    def run(self, client, executable, values):
        """Runs a program from f32[n] to f32[n] on `values`, and returns its result."""
        given = np.asarray(values, np.float32)
        dims = (ctypes.c_int64 * 1)(given.size)
        shape_and_data = (0, FLOAT32, dims, 1, given.ctypes.data, given.nbytes)
        argument = self.make("array", "array_from_host", client, *shape_and_data)
        result = Pointer()
        self.call("execute", executable, ctypes.byref(argument), 1, None, ctypes.byref(result), 1)
        self._handles.append(("array", result))
        out = np.zeros_like(given)
        self.call("array_to_host", result, out.ctypes.data, out.nbytes)
        return out.tolist()

    def close(self):
        while self._handles:
            kind, handle = self._handles.pop()
            destroy = getattr(self._library, f"callout_{kind}_destroy")
            destroy.restype, destroy.argtypes = None, (Pointer,)
            destroy(handle)
