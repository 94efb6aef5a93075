// SPDX-License-Identifier: Apache-2.0
//
// The plugins, clients and devices of callout/c_api.h.
#include "callout/pjrt/client.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/base/cat.h"
#include "host/c_api/edge.h"

using namespace callout;  // for the C functions below, which are outside of the namespace
using callout::internal::GuardC;

namespace {

Result<pjrt::Value> ReadValue(const std::string& function, const callout_option& option) {
  const std::string where = function + ": option '" + option.name + "' ";
  if (option.reserved != 0) return Unimplemented(where + "has a `reserved` that is not 0");
  switch (option.kind) {
    case CALLOUT_OPTION_STRING:
      if (option.text == nullptr) return InvalidArgument(where + "has no text");
      return pjrt::Value(std::string(option.text));
    case CALLOUT_OPTION_INTEGER:
      return pjrt::Value(option.integer);
    case CALLOUT_OPTION_INTEGERS:
      if (option.integers == nullptr && option.num_integers > 0) return InvalidArgument(where + "has no integers");
      return pjrt::Value(std::vector<int64_t>(option.integers, option.integers + option.num_integers));
    case CALLOUT_OPTION_FLOAT:
      return pjrt::Value(static_cast<float>(option.real));
    case CALLOUT_OPTION_BOOL:
      return pjrt::Value(option.integer != 0);
    default:
      return InvalidArgument(internal::Cat(where, "is of the unknown kind ", option.kind));
  }
}

Result<pjrt::ClientOptions> ReadClientOptions(const callout_client_options* given) {
  CALLOUT_ASSIGN_OR_RETURN(
      const callout_client_options known,
      internal::ReadOptions("callout_client_create", given, offsetof(callout_client_options, concurrent_runs)));
  pjrt::ClientOptions options;
  if (known.reserved != 0) return Unimplemented("callout_client_create: `reserved` is not 0");
  if (known.concurrent_runs < -1) {
    return InvalidArgument(
        internal::Cat("callout_client_create: concurrent_runs must be at least -1, got ", known.concurrent_runs));
  }
  if (known.concurrent_runs != 0) options.concurrent_runs = std::max(known.concurrent_runs, 0);
  CALLOUT_ASSIGN_OR_RETURN(options.values,
                           internal::ReadValues("callout_client_create", known.values, known.num_values));
  return options;
}

}  // namespace

Result<pjrt::Values> internal::ReadValues(const char* function, const callout_option* options, size_t count) {
  pjrt::Values values;
  for (size_t i = 0; i < count; ++i) {
    if (options == nullptr || options[i].name == nullptr) {
      return InvalidArgument(internal::Cat(function, ": option ", i, " has no name"));
    }
    CALLOUT_ASSIGN_OR_RETURN(values[options[i].name], ReadValue(function, options[i]));
  }
  return values;
}

Result<const pjrt::Device*> internal::FindDevice(const char* function, const pjrt::Client& client, size_t index) {
  if (index < client.devices().size()) return &client.devices()[index];
  return Status(StatusCode::kOutOfRange,
                internal::Cat(function, ": there is no device ", index, "; the client has ", client.devices().size()));
}

callout_status* callout_plugin_load(const char* path, callout_plugin** out) noexcept {
  return GuardC(__func__, {{out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(auto plugin, pjrt::Plugin::Load(path == nullptr ? "" : path));
    *out = internal::NewHandle<callout_plugin>(std::move(plugin));
    return OkStatus();
  });
}

const char* callout_plugin_path(const callout_plugin* plugin) noexcept {
  return plugin == nullptr ? "" : plugin->plugin->path().c_str();
}

void callout_plugin_version(const callout_plugin* plugin, int32_t* major, int32_t* minor) noexcept {
  if (major != nullptr) *major = plugin == nullptr ? 0 : plugin->plugin->major_version();
  if (minor != nullptr) *minor = plugin == nullptr ? 0 : plugin->plugin->minor_version();
}

void callout_plugin_destroy(callout_plugin* plugin) noexcept { delete plugin; }

callout_status* callout_plugin_register_handler(const callout_plugin* plugin,
                                                const callout_ffi_handler* handler) noexcept {
  return GuardC(__func__, {{plugin, "plugin"}, {handler, "handler"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const callout_ffi_handler known,
                             internal::ReadOptions("callout_plugin_register_handler", handler));
    return plugin->plugin->RegisterHandler({.name = known.name == nullptr ? "" : known.name,
                                            .platform = known.platform == nullptr ? "cpu" : known.platform,
                                            .execute = known.execute,
                                            .instantiate = known.instantiate,
                                            .prepare = known.prepare,
                                            .initialize = known.initialize,
                                            .traits = known.traits});
  });
}

callout_status* callout_find_ffi_function(const char* library_and_symbol, callout_ffi_function* out) noexcept {
  return GuardC(__func__, {{library_and_symbol, "library_and_symbol"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(*out, pjrt::FfiHandler::Find(library_and_symbol));
    return OkStatus();
  });
}

callout_status* callout_client_create(const callout_plugin* plugin, const callout_client_options* options,
                                      callout_client** out) noexcept {
  return GuardC(__func__, {{plugin, "plugin"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::ClientOptions read, ReadClientOptions(options));
    CALLOUT_ASSIGN_OR_RETURN(auto client, pjrt::Client::Create(plugin->plugin, read));
    *out = internal::NewHandle<callout_client>(std::move(client));
    return OkStatus();
  });
}

const char* callout_client_platform(const callout_client* client) noexcept {
  return client == nullptr ? "" : client->client->platform().c_str();
}

size_t callout_client_num_devices(const callout_client* client) noexcept {
  return client == nullptr ? 0 : client->client->devices().size();
}

callout_status* callout_client_device(const callout_client* client, size_t index, callout_device* out) noexcept {
  return GuardC(__func__, {{client, "client"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Device* device,
                             internal::FindDevice("callout_client_device", *client->client, index));
    const size_t size = out->struct_size;
    if (size < sizeof(callout_device)) {
      return InvalidArgument(internal::Cat("callout_client_device: out->struct_size is ", size, "; expected ",
                                           sizeof(callout_device), ", the sizeof of the struct"));
    }
    out->id = device->id;
    out->ordinal = device->ordinal;
    out->kind = device->kind.c_str();
    return OkStatus();
  });
}

size_t callout_client_num_memories(const callout_client* client, size_t device) noexcept {
  return device < callout_client_num_devices(client) ? client->client->devices()[device].memories.size() : 0;
}

const char* callout_client_memory_kind(const callout_client* client, size_t device, size_t index) noexcept {
  if (index >= callout_client_num_memories(client, device)) return nullptr;
  return client->client->devices()[device].memories[index].kind.c_str();
}

void callout_client_destroy(callout_client* client) noexcept { delete client; }
