// SPDX-License-Identifier: Apache-2.0
#include "host/executables/serialized_executable.h"

namespace callout::internal {

Result<std::string> SerializeExecutable(const PjrtApi& api, PJRT_LoadedExecutable* executable) {
  PjrtArgs<PJRT_LoadedExecutable_GetExecutable_Args> inner;
  inner.loaded_executable = executable;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_LoadedExecutable_GetExecutable, inner));
  PjrtArgs<PJRT_Executable_Serialize_Args> args;
  args.executable = inner.executable;
  Status status = CALLOUT_PJRT(api, PJRT_Executable_Serialize, args);
  std::string bytes;
  if (status.ok()) {
    bytes.assign(args.serialized_bytes, args.serialized_bytes_size);
    args.serialized_executable_deleter(args.serialized_executable);
  }
  PjrtArgs<PJRT_Executable_Destroy_Args> destroy;
  destroy.executable = inner.executable;
  api.Destroy(&PJRT_Api::PJRT_Executable_Destroy, destroy);
  if (!status.ok()) return status;
  return bytes;
}

Result<PJRT_LoadedExecutable*> LoadSerialized(const pjrt::Client& client, std::string_view bytes,
                                              const std::string& options) {
  PjrtArgs<PJRT_Executable_DeserializeAndLoad_Args> args;
  args.client = client.handle();
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  if (!options.empty()) {
    args.overridden_serialized_compile_options = options.data();
    args.overridden_serialized_compile_options_size = options.size();
  }
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client.plugin().api(), PJRT_Executable_DeserializeAndLoad, args));
  return args.loaded_executable;
}

}  // namespace callout::internal
