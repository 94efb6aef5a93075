// SPDX-License-Identifier: Apache-2.0
//
// A client: a plugin at work, and its devices.
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

/// A memory of a device. Valid as long as its client.
struct Memory {
  PJRT_Memory* handle;  ///< The plugin's handle.
  int id;               ///< The plugin's number.
  std::string kind;     ///< "device", "pinned_host", ...
};

/// A device of a client. Valid as long as the client.
struct Device {
  PJRT_Device* handle;  ///< The plugin's handle.
  int id;               ///< The device's number among all devices of all processes.
  int ordinal;          ///< The number among devices of its kind on this host; callbacks get it as device_ordinal.
  std::string kind;     ///< "cpu", or the model of the GPU.
  std::vector<Memory> memories;  ///< Memories that the device can use; empty if the plugin does not list them.
};

/// The machine that programs are compiled for.
struct Topology {
  std::string platform;              ///< "cpu", "cuda", ...
  std::string platform_version;      ///< The plugin's text.
  std::vector<std::string> devices;  ///< The plugin's description of each device.
  Values attributes;                 ///< The plugin's attributes of the machine.
};

/// Options of a client.
struct ClientOptions {
  /// Create options of the plugin; the CPU plugin knows "cpu_device_count", an int64.
  Values values = {};
  /// XLA:CPU runs one program at a time on a device, so a callback that blocks would stop the device. This member is
  /// the number of programs with calls that may run at once on one device, on threads of their own; further programs
  /// wait. 0: one program at a time, like all others on the device. No other platform needs the option.
  int concurrent_runs = 32;
};

/// A plugin at work. Everything made with a client keeps it alive. The last owner destroys the client and waits for
/// running programs; if a thread of a plugin is the last owner, another thread does so. Thread-safe.
class CALLOUT_EXPORT Client {
 public:
  /// Creates a client. Errors: InvalidArgument for concurrent_runs below 0 or above 4096; the plugin's own.
  static Result<std::shared_ptr<const Client>> Create(std::shared_ptr<const Plugin> plugin,
                                                      const ClientOptions& options = {});

  /// Returns "cpu", "cuda", ...
  const std::string& platform() const { return platform_; }
  /// Returns the devices that this process may use.
  const std::vector<Device>& devices() const { return devices_; }

  /// Returns the description of the machine. Errors: Unimplemented if the plugin has none.
  Result<Topology> ReadTopology() const;

  /// Returns the plugin with which the client was made. Borrowed: valid as long as the client.
  const Plugin& plugin() const { return *plugin_; }
  /// Returns the options with which the client was made.
  const ClientOptions& options() const { return options_; }
  /// Returns the plugin's handle, for this library's own classes.
  PJRT_Client* handle() const { return handle_; }
  /// Returns the runners, which the first call makes. Null where programs need none, or the plugin cannot have them.
  internal::Runners* runners() const;
  /// Marks the client as stuck, for this library's own classes. XLA:CPU orders programs over several devices by events.
  /// A launch that failed on one of the devices never sets its event, so later launches would never end.
  void MarkStuck() const { is_stuck_.store(true, std::memory_order_relaxed); }
  /// Returns true after MarkStuck.
  bool is_stuck() const { return is_stuck_.load(std::memory_order_relaxed); }

  /// Blocks until running programs are done.
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
  const bool is_counted_;  // counts as a live object
  PJRT_Client* handle_ = nullptr;
  std::string platform_;
  std::vector<Device> devices_;
  mutable std::atomic<bool> is_stuck_{false};
  mutable std::once_flag runners_made_;
  mutable std::unique_ptr<internal::Runners> runners_;
};

}  // namespace callout::pjrt
