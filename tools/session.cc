// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "core/base/cat.h"

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

// Converts `text` to the type of option value that a plugin takes.
static pjrt::Value ParseValue(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* const end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, whole); error == std::errc() && rest == end) {
    return whole;
  }
  float number = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, number); error == std::errc() && rest == end) {
    return number;
  }
  return text;
}

static Result<pjrt::Values> ParseOptions(const std::vector<std::string>& texts) {
  pjrt::Values values;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgument("callout: --plugin-option: expected NAME=VALUE, got '" + text + "'");
    }
    if (!values.emplace(text.substr(0, equals), ParseValue(text.substr(equals + 1))).second) {
      return InvalidArgument("callout: --plugin-option: '" + text.substr(0, equals) + "' is given twice");
    }
  }
  return values;
}

// Adds the options to the error, because the plugin's own text does not name the bad one.
static Status ExplainOptions(Status error, const PluginChoice& choice) {
  if (choice.options.empty()) return error;
  std::string given;
  for (const std::string& option : choice.options) given += " '" + option + "'";
  return error.WithMessage("callout: the plugin refuses --plugin-option" + given + ": " + std::string(error.message()));
}

Result<std::shared_ptr<const pjrt::Client>> OpenClient(const PluginChoice& choice, int device_count) {
  pjrt::ClientOptions options;
  CALLOUT_ASSIGN_OR_RETURN(options.values, ParseOptions(choice.options));
  CALLOUT_ASSIGN_OR_RETURN(auto plugin, pjrt::Plugin::Load(choice.path));
  pjrt::ClientOptions with_devices = options;
  with_devices.values.emplace("cpu_device_count", static_cast<int64_t>(device_count));
  auto client = pjrt::Client::Create(plugin, with_devices);
  if (!client.ok() && client.status().code() == StatusCode::kInvalidArgument) {
    client = pjrt::Client::Create(plugin, options);
  }
  if (!client.ok()) return ExplainOptions(std::move(client).status(), choice);
  if (client.value()->devices().size() < static_cast<size_t>(device_count)) {
    return InvalidArgument(internal::Cat("callout: the program needs ", device_count, " devices, the plugin '",
                                         plugin->path(), "' has ", client.value()->devices().size()));
  }
  for (const std::string& handler : choice.handlers) CALLOUT_RETURN_IF_ERROR(RegisterHandler(*client.value(), handler));
  return client;
}

Result<int> DevicesOf(const pjrt::Program& program, int wanted) {
  if (wanted < 0) return InvalidArgument(internal::Cat("callout: --device-count must be positive, got ", wanted));
  if (wanted > 0 && program.num_devices > 0 && wanted != program.num_devices) {
    return InvalidArgument(internal::Cat("callout: the program was exported for ", program.num_devices,
                                         " devices, got --device-count ", wanted));
  }
  if (std::max(wanted, program.num_devices) > kMaxDevices) {
    return InvalidArgument(internal::Cat("callout: the program was exported for ", program.num_devices,
                                         " devices; at most ", kMaxDevices, " can be"));
  }
  return std::max({wanted, program.num_devices, 1});
}

}  // namespace callout::tools
