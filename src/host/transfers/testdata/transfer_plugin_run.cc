// SPDX-License-Identifier: Apache-2.0
//
// Runs the programs of transfer_plugin.cc.
#include <algorithm>
#include <sstream>

#include "host/transfers/testdata/transfer_plugin.h"

namespace callout::testdata {
namespace {

using StreamState = PJRT_CopyToDeviceStream::State;

PJRT_Error* Error(PJRT_Error_Code code, std::string text) { return new PJRT_Error{code, std::move(text)}; }
PJRT_Error* CallbackError(PJRT_Error_Code code, const char* text, size_t size) { return Error(code, {text, size}); }

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
    for (const auto& asked : asked_) {
      StreamState* state = asked.first.get();
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->given_up || state->bytes.size() == state->total; });
      if (state->bytes.size() != state->total) return Error(PJRT_Error_Code_INTERNAL, "a stream was given up");
      *outputs_.at(asked.second) = state->bytes;
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

}  // namespace

PJRT_Error* ErrorOf(const PJRT_Event::State& state) {
  return state.code == PJRT_Error_Code_OK ? nullptr : Error(state.code, state.text);
}

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

PJRT_Error* SendLate() { return SendPiece(g_late, "late", 4, 4, true); }

}  // namespace callout::testdata
