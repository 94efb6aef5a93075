# SPDX-License-Identifier: Apache-2.0
"""Builds and loads closure_host.cc, a host of the same process."""

import ctypes
import subprocess
from pathlib import Path

import callout
import numpy as np

SOURCE = Path(__file__).with_suffix(".cc")
FLOATS = np.ctypeslib.ndpointer(np.float32, flags="C")


def address_of(capsule):
    """Returns the address of the `callout_closure` in a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, b"callout_closure")


def build(folder):
    path = Path(folder) / "libclosure_host.so"
    command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", f"-I{callout.include_dir()}"]
    subprocess.run([*command, str(SOURCE), "-o", str(path)], check=True)
    return path


class Host:
    def __init__(self, path):
        library = ctypes.CDLL(str(path))  # releases the GIL during calls
        self._take, self.call, self.drop = library.host_take, library.host_call, library.host_drop
        self.call_at_exit = library.host_call_at_exit
        self._take.restype, self._take.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        self.call.argtypes = (
            *(ctypes.c_void_p, FLOATS, ctypes.c_void_p),
            *(ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t),
        )
        self.drop.argtypes = self.call_at_exit.argtypes = (ctypes.c_void_p,)
        for function in (self.call, self.drop, self.call_at_exit):
            function.restype = ctypes.c_int32 if function is self.call else None

    def take(self, capsule):
        """Returns the closure, owned by the host from now on; None if it was taken before."""
        return self._take(address_of(capsule))

    def run(self, taken, values, has_result=True):
        """Returns (code, text, result) of one call on a thread of the host's."""
        given = np.asarray(values, np.float32)
        out = np.zeros_like(given)
        text = ctypes.create_string_buffer(1 << 16)
        code = self.call(taken, given, out.ctypes.data if has_result else None, given.size, text, len(text))
        return code, text.value.decode(), out.tolist()
