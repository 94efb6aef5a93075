// SPDX-License-Identifier: Apache-2.0
//
// A C11 program over callout/c_api.h, linked to libcallout. Compiling and linking it is most of the check: the header
// is C, the library exports every function, and the layouts are those that bindings of other languages have written
// down.
#include <stddef.h>
#include <stdio.h>

#include "callout/c_api.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define OFFSET(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

SIZE(callout_closure, 32);
SIZE(callout_option, 56);
OFFSET(callout_option, kind, 8);
OFFSET(callout_option, integer, 16);
OFFSET(callout_option, real, 24);
OFFSET(callout_option, text, 32);
OFFSET(callout_option, integers, 40);
OFFSET(callout_option, num_integers, 48);
SIZE(callout_client_options, 32);
OFFSET(callout_client_options, values, 8);
OFFSET(callout_client_options, concurrent_runs, 24);
OFFSET(callout_client_options, num_values, 16);
SIZE(callout_device, 24);
OFFSET(callout_device, id, 8);
OFFSET(callout_device, ordinal, 12);
OFFSET(callout_device, kind, 16);
SIZE(callout_compile_options, 80);
OFFSET(callout_compile_options, callbacks, 8);
OFFSET(callout_compile_options, num_callbacks, 16);
OFFSET(callout_compile_options, num_replicas, 24);
OFFSET(callout_compile_options, num_partitions, 28);
OFFSET(callout_compile_options, device_assignment, 32);
OFFSET(callout_compile_options, num_assigned, 40);
OFFSET(callout_compile_options, xla_options, 48);
OFFSET(callout_compile_options, num_xla_options, 56);
OFFSET(callout_compile_options, cache_directory, 64);
OFFSET(callout_compile_options, embedded_code, 72);
SIZE(callout_execute_options, 56);
OFFSET(callout_execute_options, run_id, 8);
OFFSET(callout_execute_options, donated_inputs, 16);
OFFSET(callout_execute_options, num_donated, 24);
OFFSET(callout_execute_options, timeout_seconds, 32);
OFFSET(callout_execute_options, context, 40);
OFFSET(callout_execute_options, context_destroy, 48);
_Static_assert(CALLOUT_SINK_NULL == 0 && CALLOUT_SINK_PRINT == 1 && CALLOUT_SINK_JSON_LINES == 2 &&
                   CALLOUT_SINK_CSV == 3 && CALLOUT_SINK_TENSORBOARD == 4 && CALLOUT_SINK_ARROW == 5 &&
                   CALLOUT_SINK_NPY == 6 && CALLOUT_SINK_ZARR == 7,
               "sinks");
_Static_assert(CALLOUT_OPTION_STRING == 1 && CALLOUT_OPTION_INTEGER == 2 && CALLOUT_OPTION_INTEGERS == 3 &&
                   CALLOUT_OPTION_FLOAT == 4 && CALLOUT_OPTION_BOOL == 5,
               "options");

typedef void (*any_function)(void);
#define FUNCTION(name) (any_function) & name

static const any_function kAll[] = {
    FUNCTION(callout_c_api_version),
    FUNCTION(callout_status_code),
    FUNCTION(callout_status_message),
    FUNCTION(callout_status_destroy),
    FUNCTION(callout_callback_from_closure),
    FUNCTION(callout_callback_from_library),
    FUNCTION(callout_callback_from_sink),
    FUNCTION(callout_callback_from_serialized),
    FUNCTION(callout_callback_name),
    FUNCTION(callout_callback_destroy),
    FUNCTION(callout_barrier_wait),
    FUNCTION(callout_attach),
    FUNCTION(callout_binding_scope_begin),
    FUNCTION(callout_binding_scope_num_names),
    FUNCTION(callout_binding_scope_name),
    FUNCTION(callout_binding_scope_end),
    FUNCTION(callout_plugin_load),
    FUNCTION(callout_plugin_path),
    FUNCTION(callout_plugin_version),
    FUNCTION(callout_plugin_destroy),
    FUNCTION(callout_plugin_register_handler),
    FUNCTION(callout_find_ffi_function),
    FUNCTION(callout_client_create),
    FUNCTION(callout_client_platform),
    FUNCTION(callout_client_num_devices),
    FUNCTION(callout_client_device),
    FUNCTION(callout_client_destroy),
    FUNCTION(callout_program_from_file),
    FUNCTION(callout_program_from_bytes),
    FUNCTION(callout_program_destroy),
    FUNCTION(callout_compile),
    FUNCTION(callout_executable_num_devices),
    FUNCTION(callout_executable_num_outputs),
    FUNCTION(callout_executable_num_names),
    FUNCTION(callout_executable_name),
    FUNCTION(callout_executable_destroy),
    FUNCTION(callout_executable_is_from_cache),
    FUNCTION(callout_executable_load),
    FUNCTION(callout_executable_serialize),
    FUNCTION(callout_bytes_data),
    FUNCTION(callout_bytes_size),
    FUNCTION(callout_bytes_destroy),
    FUNCTION(callout_array_from_host),
    FUNCTION(callout_array_from_host_shared),
    FUNCTION(callout_array_from_dlpack),
    FUNCTION(callout_array_to_dlpack),
    FUNCTION(callout_array_copy),
    FUNCTION(callout_array_copy_in),
    FUNCTION(callout_array_from_host_in),
    FUNCTION(callout_array_memory_kind),
    FUNCTION(callout_client_memory_kind),
    FUNCTION(callout_client_num_memories),
    FUNCTION(callout_array_dtype),
    FUNCTION(callout_array_dims),
    FUNCTION(callout_array_size_bytes),
    FUNCTION(callout_array_to_host),
    FUNCTION(callout_array_destroy),
    FUNCTION(callout_execute),
    FUNCTION(callout_execution_start),
    FUNCTION(callout_execution_wait),
    FUNCTION(callout_execution_take),
    FUNCTION(callout_execution_destroy),
    FUNCTION(callout_get_api),
};

static int32_t nothing(void* context, const callout_call* call) {
  (void)context;
  (void)call;
  return 0;
}

int main(void) {
  for (size_t i = 0; i < sizeof(kAll) / sizeof(kAll[0]); ++i) {
    if (kAll[i] == NULL) return 1;
  }
  callout_closure closure = {sizeof(closure), &nothing, NULL, NULL};
  callout_closure taken = callout_closure_take(&closure);
  callout_callback* callback = NULL;
  callout_status* status = callout_callback_from_closure("nothing", &closure, &callback);
  if (callout_status_code(status) != 3) return 2;  // the closure was taken before
  callout_status_destroy(status);
  status = callout_callback_from_closure("nothing", &taken, &callback);
  if (status != NULL) {
    fprintf(stderr, "%s\n", callout_status_message(status));
    return 3;
  }
  callout_callback_destroy(callback);
  return callout_c_api_version() == CALLOUT_C_API_VERSION ? 0 : 4;
}
