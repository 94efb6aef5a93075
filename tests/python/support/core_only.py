# SPDX-License-Identifier: Apache-2.0
"""Tests that take the C++ core, of suites that the pure-Python wheel runs too: why, and which."""

import functools

_LEFT_OUT = {
    "exported programs call the C++ core": (
        "test_a_bar_that_a_loader_would_refuse_is_not_exported",
        "test_exported_program_carries_its_bar",
        "test_exported_programs_call_for_lanes_that_are_there",
        "test_exported_programs_carry_their_checks",
        "test_exported_programs_carry_their_places",
        "test_exports_without_a_name",
        "test_programs_with_native_names_can_be_exported",
    ),
    "only programs of the C++ core have the names of functions that were traced": (
        "test_a_buffer_function_has_its_operands",
        "test_a_buffer_function_has_its_results",
        "test_a_function_of_taps_returns_one_value",
        "test_of_a_buffer_function",
        "test_of_a_function_that_is_called",
        "test_of_another_tree",
        "test_of_one_result",
        "test_results_that_nobody_returns_are_refused",
        "test_with_too_many_operands",
        "test_without_operands",
    ),
    "JAX's callbacks cannot keep a failure for later": ("test_results_beside_those_of_its_attributes_are_refused",),
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
    "a core in Python asks for leaves in Python": (
        "test_no_python_code_runs_while_jax_looks_for_the_leaves_of_a_list",
    ),
    "a core in Python copies what options(zero_copy=True) would show in place": (
        "test_a_kept_zero_copy_argument_is_an_error",
        "test_options_zero_copy_args_and_name",
    ),
    "a core in Python cannot translate what JAX's C++ raises from a jitted function's second call on": (
        "test_a_loop_ends_that_depends_on_the_missing_result",
        "test_a_result_that_does_not_fit_is_a_result_error_each_time",
        "test_every_call_raises_what_the_first_raises",
        "test_exceptions_that_go_with_no_other_class_are_the_cause_each_time",
        "test_functions_that_were_jitted_before_the_import",
        "test_incompatible_layouts_are_chained_only",
        "test_jitted_functions_inside_of_eager_transformations",
        "test_jitted_functions_of_one_function_share_it",
        "test_methods_keywords_static_and_donated_arguments",
        "test_switched_off_it_is_what_jax_raises",
        "test_without_reraise_the_stated_behaviour",
    ),
    "a core in Python leaves every text to NumPy": (
        "test_a_stream_may_print_and_ask_for_statistics_itself",
        "test_statistics_say_who_made_the_text",
    ),
    "its programs do not go by JAX's fast path": (
        "test_barriers_wait_for_a_program_over_several_devices",
        "test_python_has_no_part_in_the_dispatch",
        "test_results_are_what_they_are_at_the_first_call",
        "test_the_program_s_text_is_the_same",
        "test_what_is_kept_for_a_barrier_is_small_and_goes_with_it",
    ),
    "profiles record what the C++ core does": (
        "test_a_slow_python_function_is_found",
        "test_an_eager_call_is_not_told_to_be_asynchronous",
        "test_copies_are_found",
        "test_large_records_are_found",
        "test_many_records_in_python_are_found",
        "test_profiles_start_and_end_while_callbacks_run",
    ),
    "the sinks of a core in Python are Function, Null, Print, JsonLines and Csv": (
        "test_file_sinks_take_nothing",
        "test_fsync",
        "test_paths_of_arrays_and_events_need_not_be_utf8",
        "test_one_process_of_several_opens_the_file_of_arrays_or_events",
        "test_records_of_all_sinks_go_through_jit_and_loops",
        "test_the_path_may_have_the_process",
        "test_sinks_take_nothing",
        "test_the_sinks_of_a_folder_are_closed_by_its_path",
    ),
    "there are no C++ headers without a C++ core": ("test_headers_and_cmake_package_are_there",),
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
