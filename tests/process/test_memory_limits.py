# SPDX-License-Identifier: Apache-2.0
"""Tests copies that the machine has no memory for: they raise errors, and later callbacks work."""

PROLOGUE = """
    import resource

    SPEC = jax.ShapeDtypeStruct((60_000_000,), jnp.float32)
    large = jnp.zeros(SPEC.shape, SPEC.dtype)
    small = jnp.zeros(20_000)
    last = lambda v: v.reshape(-1)[-1]
    call = lambda x: callout.pure_callback(callout.options(last, name="call"), F32, x)
    tap = lambda x: callout.tap(received.append, x)
    received = []
    call_jit = jax.jit(call)
    tap_jit = jax.jit(lambda x: last(callout.tap(lambda v: received.append(v), x)))

    def limited(use):
        # Room for small things only.
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + 100_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        try:
            with callout.reraise():
                jax.block_until_ready(use())
            return "no error"
        except MemoryError as error:
            return "MemoryError: " + str(error).splitlines()[0]
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    for use in (call, call_jit, tap, tap_jit):  # threads, programs
        jax.block_until_ready(use(small))
    call_large, tap_large = call_jit.lower(large).compile(), tap_jit.lower(large).compile()
    callout.barrier_wait()
    received.clear()
"""


def test_a_copy_without_memory_fails_and_later_calls_work(run):
    done = run(
        PROLOGUE
        + """
    print("eager call", limited(lambda: call(large)))
    print("eager tap", limited(lambda: tap(large)))
    print("call", limited(lambda: call_large(large)))
    print("tap", limited(lambda: tap_large(large)))
    big_result = lambda x: callout.pure_callback(lambda v: np.empty(1 << 40, np.float32), F32, x)
    print("result", limited(lambda: big_result(1.0)))
    print("eager result", limited(lambda: callout.pure_callback(lambda v: v, SPEC, 1.0)))
    for use in (call, call_jit, tap, tap_jit):
        jax.block_until_ready(use(small))
    callout.barrier_wait()
    print("then", len(received))
    stats = callout.stats()["callbacks"]
    print("dropped", sorted(row["drops"] for row in stats.values()))
    """
    )
    assert done.code == 0, done.err
    lines = dict(
        line.split(" MemoryError: ") if " MemoryError: " in line else (line, "") for line in done.out.splitlines()
    )
    copied = "MemoryError: callout: out of memory: cannot allocate 240000000 bytes for a copy of an array"
    assert copied.removeprefix("MemoryError: ") in lines["eager call"]
    assert copied.removeprefix("MemoryError: ") in lines["call"]
    tapped = "out of memory: cannot allocate 240000000 bytes for a tap's value"
    assert lines["eager tap"] == tapped
    assert tapped in lines["tap"]
    assert "Unable to allocate" in lines["result"]
    assert "Unable to allocate" in lines["eager result"]
    assert "then 2" in done.out.splitlines()
