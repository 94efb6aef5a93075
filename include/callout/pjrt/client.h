// SPDX-License-Identifier: Apache-2.0
//
// A plugin at work: its devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/pjrt/plugin.h"
#include "callout/status.h"

namespace callout::internal {
class Runners;
}

struct PJRT_Client;
struct PJRT_Device;
struct PJRT_Memory;

namespace callout::pjrt {

/// Valid as long as its client.
struct Memory {
  PJRT_Memory* handle;  ///< The plugin's.
  int id;               ///< The plugin's number.
  std::string kind;     ///< "device", "pinned_host", ...
};

/// Valid as long as its client.
struct Device {
  PJRT_Device* handle;           ///< The plugin's.
  int id;                        ///< Among all devices of all processes.
  int ordinal;                   ///< Among those of its kind on this host; what callbacks see as device_ordinal.
  std::string kind;              ///< "cpu", or the model of the GPU.
  std::vector<Memory> memories;  ///< Those that it can use; empty if the plugin does not tell.
};

/// The machine that programs are compiled for.
struct Topology {
  std::string platform;              ///< "cpu", "cuda", ...
  std::string platform_version;      ///< In the plugin's words.
  std::vector<std::string> devices;  ///< All of them, in the plugin's words.
  Values attributes;                 ///< What the plugin says of it.
};

/// How a client is made.
struct ClientOptions {
  /// Create options of the plugin; the CPU plugin knows "cpu_device_count", an int64.
  Values values = {};
  /// XLA:CPU runs one program at a time on a device, so a callback that blocks would stop the device. Of programs with
  /// calls on one device so many may be under way at once, on threads of their own; more wait for one of them. 0: one
  /// at a time, with all else on the device. No other platform needs it.
  int concurrent_runs = 32;
};

/// Everything made with a client keeps it alive. Destroyed with the last of them, which waits for running programs; on
/// a thread of its own if a plugin's thread drops the last. Thread-safe.
class CALLOUT_EXPORT Client {
 public:
  /// Errors: InvalidArgument for concurrent_runs below 0 or above 4096; the plugin's own.
  static Result<std::shared_ptr<const Client>> Create(std::shared_ptr<const Plugin> plugin,
                                                      const ClientOptions& options = {});

  /// "cpu", "cuda", ...
  const std::string& platform() const { return platform_; }
  /// Those that this process may use.
  const std::vector<Device>& devices() const { return devices_; }

  /// Errors: Unimplemented if the plugin has none.
  Result<Topology> ReadTopology() const;

  /// Returns the plugin with which it was made. Borrowed: valid as long as the client.
  const Plugin& plugin() const { return *plugin_; }
  /// Returns the options with which it was made.
  const ClientOptions& options() const { return options_; }
  /// For this library's own classes.
  PJRT_Client* handle() const { return handle_; }
  /// Made when they are first asked for. Null where programs need none, or the plugin cannot have them.
  internal::Runners* runners() const;
  /// For this library's own classes: XLA:CPU orders programs over several devices by events that a launch which failed
  /// on one of them never sets, so what is launched later would not end.
  void MarkStuck() const { is_stuck_.store(true, std::memory_order_relaxed); }
  /// Returns True after MarkStuck.
  bool is_stuck() const { return is_stuck_.load(std::memory_order_relaxed); }

  /// Waits for running programs.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

 private:
  Client(std::shared_ptr<const Plugin> plugin, ClientOptions options, bool is_counted);

  static Result<std::unique_ptr<Client>> Make(std::shared_ptr<const Plugin> plugin, ClientOptions options,
                                              bool is_counted);
  static void End(const Client* client);
  Status Open();
  std::unique_ptr<internal::Runners> MakeRunners() const;
  Status ReadDevices();
  Result<Device> Describe(PJRT_Device* device) const;

  const std::shared_ptr<const Plugin> plugin_;
  const ClientOptions options_;
  const bool is_counted_;  // among the live objects
  PJRT_Client* handle_ = nullptr;
  std::string platform_;
  std::vector<Device> devices_;
  mutable std::atomic<bool> is_stuck_{false};
  mutable std::once_flag runners_made_;
  mutable std::unique_ptr<internal::Runners> runners_;
};

}  // namespace callout::pjrt
