// SPDX-License-Identifier: Apache-2.0
#include "host/bare_pjrt.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace callout::bench {
namespace {

// Argument of PJRT's FFI extension, which no package ships a header for.
struct RegisterHandlerArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  void* handler;
  const char* platform;
  size_t platform_size;
  uint32_t traits;
};
struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(RegisterHandlerArgs* args);
};

template <typename Args>
Args Make(size_t size) {
  Args args = {};
  args.struct_size = size;
  return args;
}

#define CALLOUT_BENCH_ARGS(name) Make<PJRT_##name##_Args>(PJRT_##name##_Args_STRUCT_SIZE)

}  // namespace

BarePjrt BarePjrt::Load(const std::string& plugin, int64_t device_count) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto get_api =
      library == nullptr ? nullptr : reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    std::fprintf(stderr, "cannot load %s: %s\n", plugin.c_str(), dlerror());
    std::exit(1);
  }
  const BarePjrt pjrt(get_api(), nullptr);
  auto initialize = CALLOUT_BENCH_ARGS(Plugin_Initialize);
  pjrt.Check(pjrt.api().PJRT_Plugin_Initialize(&initialize), "initialize");
  constexpr char kCount[] = "cpu_device_count";
  auto option = Make<PJRT_NamedValue>(PJRT_NamedValue_STRUCT_SIZE);
  option.name = kCount;
  option.name_size = sizeof(kCount) - 1;
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = device_count;
  option.value_size = 1;
  auto create = CALLOUT_BENCH_ARGS(Client_Create);
  create.create_options = &option;
  create.num_options = 1;
  pjrt.Check(pjrt.api().PJRT_Client_Create(&create), "create a client");
  return {&pjrt.api(), create.client};
}

BarePjrt::BarePjrt(const PJRT_Api* api, PJRT_Client* client) : api_(api), client_(client) {
  if (client == nullptr) return;
  auto args = CALLOUT_BENCH_ARGS(Client_AddressableDevices);
  args.client = client;
  Check(api->PJRT_Client_AddressableDevices(&args), "list devices");
  devices_.assign(args.addressable_devices, args.addressable_devices + args.num_addressable_devices);
}

void BarePjrt::Check(PJRT_Error* error, const char* what) const {
  if (error == nullptr) return;
  auto message = CALLOUT_BENCH_ARGS(Error_Message);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  std::fprintf(stderr, "cannot %s: %.*s\n", what, static_cast<int>(message.message_size), message.message);
  std::exit(1);
}

PJRT_LoadedExecutable* BarePjrt::Compile(std::string code, int num_replicas) const {
  // CompileOptionsProto.executable_build_options {num_replicas, num_partitions: 1}
  const char options[] = {0x1a, 0x04, 0x20, static_cast<char>(num_replicas), 0x28, 0x01};
  constexpr char kFormat[] = "mlir";
  auto program = Make<PJRT_Program>(PJRT_Program_STRUCT_SIZE);
  program.code = code.data();
  program.code_size = code.size();
  program.format = kFormat;
  program.format_size = sizeof(kFormat) - 1;
  auto args = CALLOUT_BENCH_ARGS(Client_Compile);
  args.client = client_;
  args.program = &program;
  args.compile_options = options;
  args.compile_options_size = sizeof(options);
  Check(api_->PJRT_Client_Compile(&args), "compile");
  return args.executable;
}

PJRT_Buffer* BarePjrt::Ones(int64_t elements, size_t device) const {
  const std::vector<float> data(static_cast<size_t>(elements), 1.0F);
  auto args = CALLOUT_BENCH_ARGS(Client_BufferFromHostBuffer);
  args.client = client_;
  args.data = data.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = &elements;
  args.num_dims = elements == 1 ? 0 : 1;
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = devices_.at(device);
  Check(api_->PJRT_Client_BufferFromHostBuffer(&args), "make an input");
  Await(args.done_with_host_buffer);
  return args.buffer;
}

float BarePjrt::ReadFirst(PJRT_Buffer* buffer, int64_t elements) const {
  std::vector<float> data(static_cast<size_t>(elements));
  auto args = CALLOUT_BENCH_ARGS(Buffer_ToHostBuffer);
  args.src = buffer;
  args.dst = data.data();
  args.dst_size = data.size() * sizeof(float);
  Check(api_->PJRT_Buffer_ToHostBuffer(&args), "read an output");
  Await(args.event);
  return data[0];
}

void BarePjrt::Await(PJRT_Event* event) const {
  auto await = CALLOUT_BENCH_ARGS(Event_Await);
  await.event = event;
  Check(api_->PJRT_Event_Await(&await), "wait");
  auto destroy = CALLOUT_BENCH_ARGS(Event_Destroy);
  destroy.event = event;
  api_->PJRT_Event_Destroy(&destroy);
}

void BarePjrt::Destroy(PJRT_Buffer* buffer) const {
  auto args = CALLOUT_BENCH_ARGS(Buffer_Destroy);
  args.buffer = buffer;
  api_->PJRT_Buffer_Destroy(&args);
}

void BarePjrt::RegisterHandler(const std::string& name, XLA_FFI_Handler* handler) const {
  PJRT_Extension_Base* extension = api_->extension_start;
  while (extension != nullptr && extension->type != PJRT_Extension_Type_FFI) extension = extension->next;
  if (extension == nullptr) {
    std::fprintf(stderr, "the plugin has no FFI extension\n");
    std::exit(1);
  }
  constexpr char kPlatform[] = "cpu";
  RegisterHandlerArgs args = {};
  args.struct_size = offsetof(RegisterHandlerArgs, traits) + sizeof(args.traits);
  args.name = name.data();
  args.name_size = name.size();
  args.handler = reinterpret_cast<void*>(handler);
  args.platform = kPlatform;
  args.platform_size = sizeof(kPlatform) - 1;
  Check(reinterpret_cast<FfiExtension*>(extension)->register_handler(&args), "register a handler");
}

BareProgram::BareProgram(const BarePjrt& pjrt, const std::string& code, int64_t elements, int num_devices)
    : pjrt_(pjrt),
      elements_(elements),
      executable_(pjrt.Compile(code, num_devices)),
      outputs_(static_cast<size_t>(num_devices)),
      done_(outputs_.size()) {
  for (size_t i = 0; i < outputs_.size(); ++i) inputs_.push_back(pjrt.Ones(elements, i));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    input_lists_.push_back(&inputs_[i]);
    output_lists_.push_back(&outputs_[i]);
  }
}

void BareProgram::Execute() {
  auto options = Make<PJRT_ExecuteOptions>(PJRT_ExecuteOptions_STRUCT_SIZE);
  auto args = CALLOUT_BENCH_ARGS(LoadedExecutable_Execute);
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = input_lists_.data();
  args.num_devices = input_lists_.size();
  args.num_args = 1;
  args.output_lists = output_lists_.data();
  args.device_complete_events = done_.data();
  pjrt_.Check(pjrt_.api().PJRT_LoadedExecutable_Execute(&args), "execute");
  for (PJRT_Event* event : done_) pjrt_.Await(event);
}

void BareProgram::DestroyOutputs() {
  for (PJRT_Buffer* output : outputs_) pjrt_.Destroy(output);
}

void BareProgram::Run() {
  Execute();
  DestroyOutputs();
}

float BareProgram::RunAndRead() {
  Execute();
  const float first = pjrt_.ReadFirst(outputs_[0], elements_);
  DestroyOutputs();
  return first;
}

}  // namespace callout::bench
