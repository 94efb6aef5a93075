# SPDX-License-Identifier: Apache-2.0
"""Tests that take the C++ core, of suites that the pure-Python wheel runs too: why, and which."""

import functools

_LEFT_OUT = {
    "exported programs call the C++ core": (
        "test_a_bar_that_a_loader_would_refuse_is_not_exported",
        "test_exported_programs_carry_their_checks",
        "test_exports_without_a_name",
        "test_programs_with_native_names_can_be_exported",
    ),
    "native functions take the C++ core": (
        "test_a_library_finds_the_core_through_the_table",
        "test_bad_registrations_are_named",
        "test_capsule",
        "test_missing_symbol_is_named",
        "test_native_errors_are_named",
        "test_native_functions_run_without_the_gil",
        "test_native_tap",
        "test_pointers_function",
        "test_typed_view_function",
    ),
    "a core in Python copies what options(zero_copy=True) would show in place": (
        "test_a_kept_zero_copy_argument_is_an_error",
        "test_options_zero_copy_args_and_name",
    ),
    "a core in Python cannot translate what JAX's C++ raises from a jitted function's second call on": (
        "test_incompatible_layouts_are_chained_only",
        "test_without_reraise_the_stated_behaviour",
    ),
    "a core in Python leaves every text to NumPy": (
        "test_a_stream_may_print_and_ask_for_statistics_itself",
        "test_statistics_say_who_made_the_text",
    ),
    "its programs are custom calls of the C++ core": (
        "test_a_program_on_another_device_does_not_meet_the_failure",
        "test_effects_barrier_raises_a_failure_at_most_once",
        "test_order_is_kept",
        "test_over_several_devices",
        "test_programs_after_a_failed_one_run",
        "test_the_error_goes_to_whoever_uses_the_results_and_to_nobody_else",
    ),
}
_REASONS = {name: reason for reason, names in _LEFT_OUT.items() for name in names}


@functools.cache
def has_core() -> bool:
    from callout import _ext

    return bool(_ext.ffi_targets())


def reason_against(name: str) -> str | None:
    """Why the test of this name does not run here; None if it does."""
    return None if has_core() else _REASONS.get(name)
