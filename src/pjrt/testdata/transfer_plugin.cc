// SPDX-License-Identifier: Apache-2.0
//
// A PJRT plugin with send and receive ops, of the platform "fake" with two devices. It treats the functions that an
// execution is given as the C API says. Its programs are lines, which each device runs on a thread of its own:
//
//   devices 2 | outputs 1
//   send CHANNEL ARGUMENT PIECE   the argument's bytes in pieces of at most PIECE bytes
//   recv CHANNEL OUTPUT BYTES     asks for a value, and waits for it: f32s
//   ask CHANNEL OUTPUT BYTES      asks for it; `wait` waits for all that was asked for
//   late CHANNEL                  sends when the execution is over, see callout_fake_send_late
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "pjrt/pjrt_abi.h"
#include "testing/ffi_bootstrap.h"

namespace {

std::atomic<int64_t> g_live{0};

struct Live {
  Live() { g_live.fetch_add(1); }
  ~Live() { g_live.fetch_sub(1); }
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
};

using Bytes = std::vector<char>;

}  // namespace

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string text;
  Live live = {};
};

struct PJRT_Event {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool happened = false;
    PJRT_Error_Code code = PJRT_Error_Code_OK;
    std::string text;
    std::vector<std::function<void()>> listeners;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
  Live live = {};
};

struct PJRT_Buffer {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::shared_ptr<Bytes> bytes;
  Live live = {};
};

struct PJRT_DeviceDescription {
  int id;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
};
struct PJRT_Client {
  std::array<PJRT_Device, 2> devices = {{{{10}}, {{11}}}};
  std::array<PJRT_Device*, 2> pointers = {&devices[0], &devices[1]};
  std::vector<std::thread> threads;
  Live live = {};
};
struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  std::string code;
  size_t devices = 1;
  size_t outputs = 0;
  Live live = {};
};
struct PJRT_Executable {
  size_t outputs;
  Live live = {};
};

// What the program waits for. The callback may fill it or give it up at any time.
struct PJRT_CopyToDeviceStream {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    size_t total = 0;
    Bytes bytes;
    bool given_up = false;
  };
  std::shared_ptr<State> state;
  Live live = {};
};

namespace {

using StreamState = PJRT_CopyToDeviceStream::State;

PJRT_Error* Error(PJRT_Error_Code code, std::string text) { return new PJRT_Error{code, std::move(text)}; }
PJRT_Error* CallbackError(PJRT_Error_Code code, const char* text, size_t size) { return Error(code, {text, size}); }

PJRT_Error* ErrorOf(const PJRT_Event::State& state) {
  return state.code == PJRT_Error_Code_OK ? nullptr : Error(state.code, state.text);
}

void Happen(PJRT_Event::State& state, PJRT_Error* error) {
  std::vector<std::function<void()>> listeners;
  {
    const std::lock_guard lock(state.mutex);
    state.happened = true;
    if (error != nullptr) {
      state.code = error->code;
      state.text = error->text;
    }
    listeners.swap(state.listeners);
  }
  delete error;
  state.changed.notify_all();
  for (const auto& listener : listeners) listener();
}

PJRT_Error* SendPiece(const PJRT_SendCallbackInfo& info, const char* data, size_t size, size_t total, bool done) {
  PJRT_Chunk chunk = {};
  auto* copy = new Bytes(data, data + size);
  g_live.fetch_add(1);
  chunk.data = copy->data();
  chunk.size = size;
  chunk.deleter_arg = copy;
  chunk.deleter = [](void*, void* arg) {
    delete static_cast<Bytes*>(arg);
    g_live.fetch_sub(1);
  };
  PJRT_CallbackError make_error = &CallbackError;
  return info.send_callback(&chunk, &make_error, total, done, info.user_arg);
}

PJRT_SendCallbackInfo g_late = {};

// One device's run of a program.
class Run {
 public:
  Run(const PJRT_LoadedExecutable& executable, const PJRT_LoadedExecutable_Execute_Args& args, size_t device)
      : code_(executable.code) {
    const PJRT_ExecuteOptions& options = *args.options;
    if (options.num_send_ops > 0)
      sends_.assign(options.send_callbacks[device], options.send_callbacks[device] + options.num_send_ops);
    if (options.num_recv_ops > 0)
      recvs_.assign(options.recv_callbacks[device], options.recv_callbacks[device] + options.num_recv_ops);
    for (size_t i = 0; i < args.num_args; ++i) arguments_.push_back(args.argument_lists[device][i]->bytes);
    for (size_t i = 0; i < executable.outputs; ++i) {
      outputs_.push_back(std::make_shared<Bytes>());
      args.output_lists[device][i] = new PJRT_Buffer{PJRT_Buffer_Type_F32, {}, outputs_.back()};
    }
  }

  PJRT_Error* Execute() {
    std::istringstream lines(code_);
    std::string word;
    PJRT_Error* error = nullptr;
    while (error == nullptr && lines >> word) {
      size_t channel = 0, index = 0, size = 0;
      if (word == "wait") {
        error = Wait();
        continue;
      }
      lines >> channel;
      if (word == "send" || word == "recv" || word == "ask") lines >> index >> size;
      if (word == "send") error = Send(static_cast<int64_t>(channel), index, size);
      if (word == "recv" || word == "ask") Ask(static_cast<int64_t>(channel), index, size);
      if (word == "recv") error = Wait();
      if (word == "late") g_late = Find(sends_, static_cast<int64_t>(channel));
    }
    return error;
  }

 private:
  template <typename Info>
  static Info Find(const std::vector<Info>& infos, int64_t channel) {
    for (const Info& info : infos) {
      if (info.channel_id == channel) return info;
    }
    return {};
  }

  PJRT_Error* Send(int64_t channel, size_t argument, size_t piece) {
    const PJRT_SendCallbackInfo info = Find(sends_, channel);
    if (info.send_callback == nullptr) return Error(PJRT_Error_Code_NOT_FOUND, "no function for a send");
    const Bytes& bytes = *arguments_.at(argument);
    for (size_t at = 0;; at += piece) {
      const size_t size = std::min(piece, bytes.size() - at);
      const bool done = at + size == bytes.size();
      if (PJRT_Error* error = SendPiece(info, bytes.data() + at, size, bytes.size(), done)) return error;
      if (done) return nullptr;
    }
  }

  void Ask(int64_t channel, size_t output, size_t bytes) {
    const PJRT_RecvCallbackInfo info = Find(recvs_, channel);
    auto state = std::make_shared<StreamState>();
    state->total = bytes;
    asked_.emplace_back(state, output);
    if (info.recv_callback != nullptr) info.recv_callback(new PJRT_CopyToDeviceStream{state}, info.user_arg);
  }

  PJRT_Error* Wait() {
    for (const auto& [state, output] : asked_) {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->given_up || state->bytes.size() == state->total; });
      if (state->bytes.size() != state->total) return Error(PJRT_Error_Code_INTERNAL, "a stream was given up");
      *outputs_.at(output) = state->bytes;
    }
    asked_.clear();
    return nullptr;
  }

  const std::string code_;
  std::vector<PJRT_SendCallbackInfo> sends_;
  std::vector<PJRT_RecvCallbackInfo> recvs_;
  std::vector<std::shared_ptr<Bytes>> arguments_;
  std::vector<std::shared_ptr<Bytes>> outputs_;
  std::vector<std::pair<std::shared_ptr<StreamState>, size_t>> asked_;
};

PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args) {
  for (size_t device = 0; device < args->num_devices; ++device) {
    auto run = std::make_shared<Run>(*args->executable, *args, device);
    auto* event = new PJRT_Event;
    args->device_complete_events[device] = event;
    args->executable->client->threads.emplace_back([run, state = event->state] { Happen(*state, run->Execute()); });
  }
  return nullptr;
}

PJRT_Error* AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args* args) {
  StreamState& state = *args->stream->state;
  const PJRT_Chunk& chunk = *args->chunk;
  args->transfer_complete = new PJRT_Event;
  PJRT_Error* error = nullptr;
  {
    const std::lock_guard lock(state.mutex);
    const auto* data = static_cast<const char*>(chunk.data);
    if (state.bytes.size() + chunk.size > state.total) {
      error = Error(PJRT_Error_Code_INVALID_ARGUMENT, "the chunk overflows the stream");
    } else {
      state.bytes.insert(state.bytes.end(), data, data + chunk.size);
    }
  }
  chunk.deleter(chunk.data, chunk.deleter_arg);
  state.changed.notify_all();
  Happen(*args->transfer_complete->state, error);
  return nullptr;
}

PJRT_Error* DestroyStream(PJRT_CopyToDeviceStream_Destroy_Args* args) {
  const std::shared_ptr<StreamState> state = args->stream->state;
  delete args->stream;
  {
    const std::lock_guard lock(state->mutex);
    state->given_up = true;
  }
  state->changed.notify_all();
  return nullptr;
}

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

/// Errors, events, buffers, chunks, streams and clients that are not destroyed.
FAKE_EXPORT int64_t callout_fake_live_objects() { return g_live.load(); }

/// Sends what a program said that it would send late. Returns the error's code.
FAKE_EXPORT int callout_fake_send_late() {
  const std::unique_ptr<PJRT_Error> error(SendPiece(g_late, "late", 4, 4, true));
  return error == nullptr ? 0 : error->code;
}
