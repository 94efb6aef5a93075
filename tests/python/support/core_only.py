# SPDX-License-Identifier: Apache-2.0
"""Names the tests that need the C++ core, in suites that the pure-Python wheel also runs, with the reasons."""

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
        "test_missing_results_are_rejected",
        "test_of_a_buffer_function",
        "test_of_a_function_that_is_called",
        "test_of_another_tree",
        "test_of_one_result",
        "test_with_too_many_operands",
        "test_without_operands",
    ),
    "JAX's callbacks cannot keep a failure for later": ("test_results_beside_those_of_its_attributes_are_refused",),
    "native functions take the C++ core": (
        "test_a_library_finds_the_core_through_the_table",
        "test_a_library_that_cannot_be_registered_is_a_registration_error",
        "test_bad_registrations_are_named",
        "test_capsule",
        "test_missing_symbol_is_named",
        "test_native_errors_are_named",
        "test_native_functions_run_without_the_gil",
        "test_native_tap",
        "test_pointers_function",
        "test_typed_view_function",
    ),
    "a core in Python asks for leaves in Python": ("test_no_python_code_runs_while_jax_flattens_a_list",),
    "a core in Python copies what options(zero_copy=True) would show in place": (
        "test_a_kept_zero_copy_argument_is_an_error",
        "test_options_zero_copy_args_and_name",
    ),
    "a core in Python cannot translate what JAX's C++ raises from a jitted function's second call on": (
        "test_a_loop_ends_that_depends_on_the_missing_result",
        "test_a_wrong_result_is_a_result_error_each_time",
        "test_every_call_raises_the_error_of_the_first",
        "test_exceptions_that_cannot_be_combined_are_always_the_cause",
        "test_functions_that_were_jitted_before_the_import",
        "test_incompatible_layouts_are_chained_only",
        "test_jitted_functions_inside_of_eager_transformations",
        "test_jitted_functions_of_one_function_share_it",
        "test_methods_keywords_static_and_donated_arguments",
        "test_without_reraise_the_stated_behaviour",
        "test_without_the_patch_jax_errors_are_raised",
    ),
    "a core in Python leaves every text to NumPy": (
        "test_a_stream_may_print_and_ask_for_statistics_itself",
        "test_counters_distinguish_native_and_numpy_texts",
    ),
    "its programs do not go by JAX's fast path": (
        "test_barriers_wait_for_a_program_over_several_devices",
        "test_later_results_equal_those_of_the_first_call",
        "test_python_has_no_part_in_the_dispatch",
        "test_state_for_a_barrier_is_small_and_freed_afterwards",
        "test_the_program_s_text_is_the_same",
    ),
    "profiles record what the C++ core does": (
        "test_a_slow_python_function_is_found",
        "test_an_eager_call_gets_no_advice_to_be_asynchronous",
        "test_copies_are_found",
        "test_large_records_are_found",
        "test_many_records_in_python_are_found",
        "test_profiles_start_and_end_while_callbacks_run",
    ),
    "a core in Python has no option of taps that leaves records out": (
        "test_bytes_are_the_operands",
        "test_eager_every_counts_over_calls",
        "test_every_and_min_interval_are_decided_in_the_program",
        "test_every_selects_checks_and_steps_still_count",
        "test_it_is_a_dict_of_tables",
        "test_predicates_and_steps_may_be_variables",
        "test_prometheus_reads_every_number",
        "test_the_manuals_tracker_logs_into_its_own_run",
        "test_the_table_is_aligned_and_has_every_callback",
    ),
    "a core in Python reads formats by string.Formatter, and writes numbers as Python does": (
        "test_a_malformed_format_is_refused_with_its_place",
        "test_a_number_without_specification_is_numpys",
    ),
    "Print of a core in Python has neither update= nor colours": (
        "test_colours_where_they_are_wanted",
        "test_only_the_last_record_of_a_batch_is_drawn",
        "test_the_line_ends_with_the_process",
        "test_update_fits_into_the_width",
        "test_update_writes_one_line_over",
    ),
    "a core in Python has neither places of NaN nor progress bars": (
        "test_inspections_need_no_token",
        "test_loops_with_bars_write_to_mutable_arrays",
    ),
    "a core in Python joins no sinks": (
        "test_an_array_of_too_many_elements_is_rejected_when_traced",
        "test_unknown_fields_are_an_error_when_traced",
    ),
    "files of a core in Python do not say what was torn, nor the steps before": (
        "test_appending_continues_after_the_last_step",
    ),
    "a core in Python has no taps in their caller": (
        "test_an_inline_tap_runs_after_queued_ones",
        "test_inline_taps_raise_in_the_caller",
        "test_inline_taps_run_in_the_callers_stack",
    ),
    "a core in Python has neither every= nor a clock of chunks": (
        "test_every_and_sample_leave_out_steps",
        "test_slow_steps_arrive_one_by_one",
    ),
    "a core in Python logs no records": ("test_messages_of_the_module",),
    "the sinks of a core in Python are Function, Null, Print, JsonLines and Csv": (
        "test_all_sinks_get_records_from_jit_and_loops",
        "test_file_sinks_take_nothing",
        "test_fsync",
        "test_one_process_opens_the_file_of_arrays_or_events",
        "test_paths_of_arrays_and_events_need_not_be_utf8",
        "test_sinks_take_nothing",
        "test_the_path_may_have_the_process",
        "test_the_sinks_of_a_folder_are_closed_by_its_path",
    ),
    "there are no C++ headers without a C++ core": ("test_headers_and_cmake_package_are_there",),
    "its programs are custom calls of the C++ core": (
        "test_effects_barrier_raises_a_failure_at_most_once",
        "test_only_users_of_the_results_get_the_error",
        "test_order_is_kept",
        "test_over_several_devices",
        "test_programs_after_a_failed_one_run",
        "test_programs_on_other_devices_are_not_affected_by_the_failure",
    ),
}
_REASONS = {name: reason for reason, names in _LEFT_OUT.items() for name in names}


@functools.cache
def has_core() -> bool:
    from callout import _ext

    return bool(_ext.ffi_targets())


def reason_against(name: str) -> str | None:
    """Returns the reason why the test of this name does not run; None if it runs."""
    return None if has_core() else _REASONS.get(name)
