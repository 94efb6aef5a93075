// SPDX-License-Identifier: Apache-2.0
//
// What a program does that uses the PJRT C API directly: the peer of the host. Ends the process on errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt_c_api.h"
#include "xla/ffi/api/c_api.h"

namespace callout::bench {

class BarePjrt {
 public:
  /// Loads the plugin and makes a client of its own, with `device_count` devices.
  static BarePjrt Load(const std::string& plugin, int64_t device_count);
  /// Borrowed: `client` outlives this object.
  BarePjrt(const PJRT_Api* api, PJRT_Client* client);

  const PJRT_Api& api() const { return *api_; }
  void Check(PJRT_Error* error, const char* what) const;

  PJRT_LoadedExecutable* Compile(std::string code, int num_replicas) const;
  /// An array of `elements` times 1, on the i-th device; a scalar if it has one element.
  PJRT_Buffer* Ones(int64_t elements, size_t device) const;
  /// The first element.
  float ReadFirst(PJRT_Buffer* buffer, int64_t elements) const;
  /// Blocks until it happened, and destroys it.
  void Await(PJRT_Event* event) const;
  void Destroy(PJRT_Buffer* buffer) const;
  void RegisterHandler(const std::string& name, XLA_FFI_Handler* handler) const;

 private:
  const PJRT_Api* api_;
  PJRT_Client* client_;
  std::vector<PJRT_Device*> devices_;
};

/// A compiled program of one input and one output, and an input for each device. Leaked: it is used until the end.
class BareProgram {
 public:
  BareProgram(const BarePjrt& pjrt, const std::string& code, int64_t elements, int num_devices);
  /// Executes, waits, and destroys the output.
  void Run();
  /// As Run; returns the output's first element.
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
