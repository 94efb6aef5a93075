// SPDX-License-Identifier: Apache-2.0
//
// The objects of the plugin in transfer_plugin.cc, and its functions that transfer_plugin_run.cc defines.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host/pjrt/pjrt_abi.h"

namespace callout::testdata {

inline std::atomic<int64_t> g_live{0};

struct Live {
  Live() { g_live.fetch_add(1); }
  ~Live() { g_live.fetch_sub(1); }
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
};

using Bytes = std::vector<char>;

}  // namespace callout::testdata

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string text;
  callout::testdata::Live live = {};
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
  callout::testdata::Live live = {};
};

struct PJRT_Buffer {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  std::shared_ptr<callout::testdata::Bytes> bytes;
  callout::testdata::Live live = {};
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
  callout::testdata::Live live = {};
};
struct PJRT_LoadedExecutable {
  PJRT_Client* client;
  std::string code;
  size_t devices = 1;
  size_t outputs = 0;
  callout::testdata::Live live = {};
};
struct PJRT_Executable {
  size_t outputs;
  callout::testdata::Live live = {};
};

// A stream for which the program waits. The callback may fill it or give it up at any time.
struct PJRT_CopyToDeviceStream {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    size_t total = 0;
    callout::testdata::Bytes bytes;
    bool given_up = false;
  };
  std::shared_ptr<State> state;
  callout::testdata::Live live = {};
};

namespace callout::testdata {

/// Returns null for a state without an error.
PJRT_Error* ErrorOf(const PJRT_Event::State& state);
PJRT_Error* Execute(PJRT_LoadedExecutable_Execute_Args* args);
PJRT_Error* AddChunk(PJRT_CopyToDeviceStream_AddChunk_Args* args);
PJRT_Error* DestroyStream(PJRT_CopyToDeviceStream_Destroy_Args* args);
/// Sends what a program's `late` lines announced.
PJRT_Error* SendLate();

}  // namespace callout::testdata
