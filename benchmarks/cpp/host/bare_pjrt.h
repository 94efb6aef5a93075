// SPDX-License-Identifier: Apache-2.0
//
// A program that uses the PJRT C API directly: the peer that the host is compared with. Ends the process on errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt_c_api.h"
#include "xla/ffi/api/c_api.h"

namespace callout::bench {

class BarePjrt {
 public:
  /// Loads the plugin and creates a client with `device_count` devices.
  static BarePjrt Load(const std::string& plugin, int64_t device_count);
  /// Borrowed: `client` outlives this object.
  BarePjrt(const PJRT_Api* api, PJRT_Client* client);

  const PJRT_Api& api() const { return *api_; }
  void Check(PJRT_Error* error, const char* what) const;

  PJRT_LoadedExecutable* Compile(std::string code, int num_replicas) const;
  /// Creates an array of `elements` times 1 on the i-th device; a scalar if `elements` is 1.
  PJRT_Buffer* Ones(int64_t elements, size_t device) const;
  /// Returns the first element of `buffer`. Blocks until the buffer is ready.
  float ReadFirst(PJRT_Buffer* buffer, int64_t elements) const;
  /// Blocks until the event is ready, then destroys it.
  void Await(PJRT_Event* event) const;
  void Destroy(PJRT_Buffer* buffer) const;
  void RegisterHandler(const std::string& name, XLA_FFI_Handler* handler) const;

 private:
  const PJRT_Api* api_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
};

/// A compiled program of one input and one output, with an input for each device. Leaked: used until the process ends.
class BareProgram {
 public:
  BareProgram(const BarePjrt& pjrt, const std::string& code, int64_t elements, int num_devices);
  /// Executes the program, waits for the output and destroys it.
  void Run();
  /// Executes the program and returns the output's first element.
  float RunAndRead();

 private:
  void Execute();
  void DestroyOutputs();

  const BarePjrt pjrt_;
  const int64_t elements_;
  PJRT_LoadedExecutable* const executable_;
  std::vector<PJRT_Buffer*> inputs_, outputs_;
  std::vector<PJRT_Buffer* const*> input_lists_;
  std::vector<PJRT_Buffer**> output_lists_;
  std::vector<PJRT_Event*> done_;
};

}  // namespace callout::bench
