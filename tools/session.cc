// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <algorithm>
#include <cstdio>

namespace callout::tools {

int Refuse(const Status& status) {
  std::fprintf(stderr, "%s\n", status.c_message());
  return kUnusable;
}

static Status RegisterHandler(const pjrt::Client& client, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return InvalidArgument("callout: --handler: expected NAME=lib.so:SYMBOL, got '" + text + "'");
  }
  CALLOUT_ASSIGN_OR_RETURN(auto* const execute, pjrt::FfiHandler::Find(text.substr(equals + 1)));
  return client.plugin().RegisterHandler(
      {.name = text.substr(0, equals), .platform = client.platform(), .execute = execute});
}

Result<std::shared_ptr<const pjrt::Client>> OpenClient(const std::string& plugin_path, int device_count,
                                                       const std::vector<std::string>& handlers) {
  CALLOUT_ASSIGN_OR_RETURN(auto plugin, pjrt::Plugin::Load(plugin_path));
  pjrt::ClientOptions options;
  options.values["cpu_device_count"] = static_cast<int64_t>(device_count);
  auto client = pjrt::Client::Create(plugin, options);
  if (!client.ok() && client.status().code() == StatusCode::kInvalidArgument) client = pjrt::Client::Create(plugin);
  if (!client.ok()) return std::move(client).status();
  if (client.value()->devices().size() < static_cast<size_t>(device_count)) {
    return InvalidArgument("callout: the program needs " + std::to_string(device_count) + " devices, the plugin '" +
                           plugin->path() + "' has " + std::to_string(client.value()->devices().size()));
  }
  for (const std::string& handler : handlers) CALLOUT_RETURN_IF_ERROR(RegisterHandler(*client.value(), handler));
  return client;
}

Result<int> DevicesOf(const pjrt::Program& program, int wanted) {
  if (wanted < 0) return InvalidArgument("callout: --device-count must be positive, got " + std::to_string(wanted));
  if (wanted > 0 && program.num_devices > 0 && wanted != program.num_devices) {
    return InvalidArgument("callout: the program was exported for " + std::to_string(program.num_devices) +
                           " devices, got --device-count " + std::to_string(wanted));
  }
  if (std::max(wanted, program.num_devices) > kMaxDevices) {
    return InvalidArgument("callout: the program was exported for " + std::to_string(program.num_devices) +
                           " devices; at most " + std::to_string(kMaxDevices) + " can be");
  }
  return std::max({wanted, program.num_devices, 1});
}

}  // namespace callout::tools
