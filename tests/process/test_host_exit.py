# SPDX-License-Identifier: Apache-2.0
"""Tests a host that calls a Python function after the interpreter was finalized."""

from pathlib import Path

import closure_host

FOLDER = Path(__file__).parents[1] / "python" / "support"


def test_a_closure_outlives_the_interpreter(run, tmp_path):
    library = closure_host.build(tmp_path)
    done = run(f"""
        sys.path.insert(0, {str(FOLDER)!r})
        import closure_host
        host = closure_host.Host({str(library)!r})
        callback = callout.host.LoadedHostCallback("late", lambda x: x)
        capsule = callback.capsule()
        host.call_at_exit(closure_host.address_of(capsule))
    """)
    assert (done.code, done.out, done.err) == (0, "14 the Python interpreter is going away\nended\n", "")
