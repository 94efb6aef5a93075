// SPDX-License-Identifier: Apache-2.0
//
// Runs the program of ../cpp_host, which was exported from JAX, without Python and without C++: c_host PROGRAM
// [PLUGIN].
#include <callout/c_api.h>
#include <stdio.h>

// A call: the program waits for its result. Steps get smaller as the training goes on.
static int32_t learning_rate(void* context, const callout_call* call) {
  (void)context;
  const int32_t* step = call->args[0].data;
  float* rate = call->results[0].data;
  *rate = *step < 10 ? 0.8F : 0.4F;
  return 0;
}

// A tap: the program goes on, and this function gets the values in order on a delivery thread.
static int32_t show_loss(void* context, const callout_call* call) {
  const float* loss = call->args[0].data;
  printf("loss %.6f\n", (double)*loss);
  ++*(int*)context;
  return 0;
}

// On an error, jumps to the end, which destroys every object; all destroy functions take null.
#define TRY(call) \
  if ((status = (call)) != NULL) goto end

static callout_status* run(const char* path, const char* plugin_path, int* num_losses, float weights[4]) {
  const callout_closure rate = {sizeof(rate), &learning_rate, NULL, NULL};
  const callout_closure loss = {sizeof(loss), &show_loss, num_losses, NULL};
  callout_callback* callbacks[2] = {NULL, NULL};
  callout_plugin* plugin = NULL;
  callout_client* client = NULL;
  callout_program* program = NULL;
  callout_executable* train = NULL;
  callout_array* start = NULL;
  callout_array* trained = NULL;
  callout_status* status = NULL;
  TRY(callout_callback_from_closure("learning_rate", &rate, &callbacks[0]));
  TRY(callout_callback_from_closure("loss", &loss, &callbacks[1]));
  TRY(callout_plugin_load(plugin_path, &plugin));
  TRY(callout_client_create(plugin, NULL, &client));
  TRY(callout_program_from_file(path, &program));
  const callout_compile_options options = {.struct_size = sizeof(options), .callbacks = callbacks, .num_callbacks = 2};
  TRY(callout_compile(client, program, &options, &train));

  const int64_t dims[1] = {4};
  const uint32_t f32 = 11;  // XLA's number, as in callout/dtype.h
  TRY(callout_array_from_host(client, 0, f32, dims, 1, weights, 4 * sizeof(float), &start));
  TRY(callout_execute(train, &start, 1, NULL, &trained, 1));
  TRY(callout_barrier_wait(-1));
  TRY(callout_array_to_host(trained, weights, 4 * sizeof(float)));
end:
  callout_array_destroy(trained);
  callout_array_destroy(start);
  callout_executable_destroy(train);
  callout_program_destroy(program);
  callout_client_destroy(client);
  callout_plugin_destroy(plugin);
  for (int i = 0; i < 2; ++i) callout_callback_destroy(callbacks[i]);
  return status;
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s PROGRAM [PLUGIN]\n", argv[0]), 2;
  int num_losses = 0;
  float weights[4] = {0};
  callout_status* status = run(argv[1], argc > 2 ? argv[2] : NULL, &num_losses, weights);
  if (status != NULL) {
    fprintf(stderr, "%s\n", callout_status_message(status));
    callout_status_destroy(status);
    return 1;
  }
  printf("weights %.3f %.3f %.3f %.3f after %d steps\n", weights[0], weights[1], weights[2], weights[3], num_losses);
  return weights[3] > 3.95F && weights[3] < 4.05F ? 0 : 1;
}
