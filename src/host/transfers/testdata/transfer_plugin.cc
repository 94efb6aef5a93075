// SPDX-License-Identifier: Apache-2.0
//
// A PJRT plugin with send and receive ops, for the platform "fake" with two devices. It uses the functions that an
// execution is given as the C API requires. Its programs are lines, which each device runs on a thread of its own:
//
//   devices 2 | outputs 1
//   send CHANNEL ARGUMENT PIECE   the argument's bytes in pieces of at most PIECE bytes
//   recv CHANNEL OUTPUT BYTES     asks for a value, and waits for it: f32s
//   ask CHANNEL OUTPUT BYTES      asks for it; `wait` waits for all that was asked for
//   late CHANNEL                  sends when the execution is over, see callout_fake_send_late
#include <cstring>
#include <sstream>

#include "host/transfers/testdata/transfer_plugin.h"
#include "testing/ffi_bootstrap.h"

namespace {

using callout::testdata::AddChunk;
using callout::testdata::Bytes;
using callout::testdata::DestroyStream;
using callout::testdata::ErrorOf;
using callout::testdata::Execute;

PJRT_Error* OnReady(PJRT_Event_OnReady_Args* args) {
  PJRT_Event::State& state = *args->event->state;
  auto listener = [&state, callback = args->callback, arg = args->user_arg] { callback(ErrorOf(state), arg); };
  {
    const std::lock_guard lock(state.mutex);
    if (!state.happened) {
      state.listeners.push_back([held = args->event->state, listener] { listener(); });
      return nullptr;
    }
  }
  const std::shared_ptr<PJRT_Event::State> held = args->event->state;  // the listener may destroy the event
  listener();
  return nullptr;
}

PJRT_Error* Await(PJRT_Event_Await_Args* args) {
  const std::shared_ptr<PJRT_Event::State> state = args->event->state;
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->happened; });
  return ErrorOf(*state);
}

PJRT_Error* Compile(PJRT_Client_Compile_Args* args) {
  auto executable = std::make_unique<PJRT_LoadedExecutable>();
  executable->client = args->client;
  std::istringstream lines(std::string(args->program->code, args->program->code_size));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "devices") words >> executable->devices;
    if (word == "outputs") words >> executable->outputs;
    if (word != "devices" && word != "outputs") executable->code += line + "\n";
  }
  args->executable = executable.release();
  return nullptr;
}

PJRT_Error* FromHost(PJRT_Client_BufferFromHostBuffer_Args* args) {
  size_t size = 4;
  for (size_t i = 0; i < args->num_dims; ++i) size *= static_cast<size_t>(args->dims[i]);
  const auto* data = static_cast<const char*>(args->data);
  args->buffer = new PJRT_Buffer{
      args->type, {args->dims, args->dims + args->num_dims}, std::make_shared<Bytes>(data, data + size)};
  args->done_with_host_buffer = nullptr;
  return nullptr;
}

PJRT_Error* ToHost(PJRT_Buffer_ToHostBuffer_Args* args) {
  const Bytes& bytes = *args->src->bytes;
  if (args->dst != nullptr) std::memcpy(args->dst, bytes.data(), bytes.size());
  args->dst_size = bytes.size();
  return nullptr;
}

PJRT_Error* RegisterHandler(callout::internal::PjrtFfiRegisterHandlerArgs* args) {
  callout::internal::AskForMetadata(args->handler);
  return nullptr;
}

template <typename Args>
PJRT_Error* Nothing(Args*) {
  return nullptr;
}

void FillErrorsAndEvents(PJRT_Api& table) {
  table.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  table.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = args->error->text.data();
    args->message_size = args->error->text.size();
  };
  table.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = args->error->code;
    return nullptr;
  };
  table.PJRT_Event_Destroy = [](PJRT_Event_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
  table.PJRT_Event_Await = &Await;
  table.PJRT_Event_OnReady = &OnReady;
  table.PJRT_CopyToDeviceStream_AddChunk = &AddChunk;
  table.PJRT_CopyToDeviceStream_Destroy = &DestroyStream;
  table.PJRT_CopyToDeviceStream_TotalBytes = [](PJRT_CopyToDeviceStream_TotalBytes_Args* args) -> PJRT_Error* {
    args->total_bytes = static_cast<int64_t>(args->stream->state->total);
    return nullptr;
  };
}

void FillClient(PJRT_Api& table) {
  table.PJRT_Plugin_Initialize = &Nothing<PJRT_Plugin_Initialize_Args>;
  table.PJRT_Plugin_Attributes = &Nothing<PJRT_Plugin_Attributes_Args>;
  table.PJRT_Client_Create = [](PJRT_Client_Create_Args* args) -> PJRT_Error* {
    args->client = new PJRT_Client;
    return nullptr;
  };
  table.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args* args) -> PJRT_Error* {
    for (std::thread& thread : args->client->threads) thread.join();
    delete args->client;
    return nullptr;
  };
  table.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    args->platform_name = "fake";
    args->platform_name_size = 4;
    return nullptr;
  };
  table.PJRT_Client_AddressableDevices = [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->client->pointers.data();
    args->num_addressable_devices = args->client->pointers.size();
    return nullptr;
  };
  table.PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = &args->device->description;
    return nullptr;
  };
  table.PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    args->local_hardware_id = args->device->description.id - 10;
    return nullptr;
  };
  table.PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = args->device_description->id;
    return nullptr;
  };
  table.PJRT_DeviceDescription_Kind = [](PJRT_DeviceDescription_Kind_Args* args) -> PJRT_Error* {
    args->device_kind = "fake";
    args->device_kind_size = 4;
    return nullptr;
  };
}

void FillExecutable(PJRT_Api& table) {
  table.PJRT_Client_Compile = &Compile;
  table.PJRT_LoadedExecutable_Execute = &Execute;
  table.PJRT_LoadedExecutable_Destroy = [](PJRT_LoadedExecutable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  table.PJRT_LoadedExecutable_AddressableDevices =
      [](PJRT_LoadedExecutable_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->executable->client->pointers.data();
    args->num_addressable_devices = args->executable->devices;
    return nullptr;
  };
  table.PJRT_LoadedExecutable_GetExecutable = [](PJRT_LoadedExecutable_GetExecutable_Args* args) -> PJRT_Error* {
    args->executable = new PJRT_Executable{args->loaded_executable->outputs};
    return nullptr;
  };
  table.PJRT_Executable_NumOutputs = [](PJRT_Executable_NumOutputs_Args* args) -> PJRT_Error* {
    args->num_outputs = args->executable->outputs;
    return nullptr;
  };
  table.PJRT_Executable_Destroy = [](PJRT_Executable_Destroy_Args* args) -> PJRT_Error* {
    delete args->executable;
    return nullptr;
  };
  table.PJRT_Client_BufferFromHostBuffer = &FromHost;
  table.PJRT_Buffer_ToHostBuffer = &ToHost;
  table.PJRT_Buffer_Destroy = [](PJRT_Buffer_Destroy_Args* args) -> PJRT_Error* {
    delete args->buffer;
    return nullptr;
  };
  table.PJRT_Buffer_ElementType = [](PJRT_Buffer_ElementType_Args* args) -> PJRT_Error* {
    args->type = args->buffer->type;
    return nullptr;
  };
  table.PJRT_Buffer_ReadyEvent = [](PJRT_Buffer_ReadyEvent_Args* args) -> PJRT_Error* {
    args->event = nullptr;
    return nullptr;
  };
}

}  // namespace

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT const PJRT_Api* GetPjrtApi() {
  static callout::internal::PjrtFfiExtension ffi = {
      {sizeof(callout::internal::PjrtFfiExtension), PJRT_Extension_Type_FFI, nullptr},
      nullptr,
      nullptr,
      &RegisterHandler};
  static const PJRT_Api table = [] {
    PJRT_Api made = {};
    made.struct_size = sizeof(made);
    made.extension_start = &ffi.base;
    made.pjrt_api_version.minor_version = PJRT_API_MINOR;
    FillErrorsAndEvents(made);
    FillClient(made);
    FillExecutable(made);
    return made;
  }();
  return &table;
}

/// Returns the number of live errors, events, buffers, chunks, streams and clients.
FAKE_EXPORT int64_t callout_fake_live_objects() { return callout::testdata::g_live.load(); }

/// Sends what a program's `late` lines announced. Returns the error's code.
FAKE_EXPORT int callout_fake_send_late() {
  const std::unique_ptr<PJRT_Error> error(callout::testdata::SendLate());
  return error == nullptr ? 0 : error->code;
}
