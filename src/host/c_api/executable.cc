// SPDX-License-Identifier: Apache-2.0
//
// The programs of callout/c_api.h, and their compilation.
#include "callout/pjrt/executable.h"

#include <cstddef>

#include "core/base/cat.h"
#include "host/c_api/edge.h"

using namespace callout;  // for the C functions below, which are outside of the namespace
using callout::internal::GuardC;

namespace {

Result<pjrt::CompileOptions> ReadCompileOptions(const char* function, const callout_compile_options* given) {
  CALLOUT_ASSIGN_OR_RETURN(const callout_compile_options known,
                           internal::ReadOptions(function, given, offsetof(callout_compile_options, xla_options)));
  pjrt::CompileOptions options;
  CALLOUT_ASSIGN_OR_RETURN(options.loaded_host_callbacks,
                           internal::ReadCallbacks(function, known.callbacks, known.num_callbacks));
  if (known.num_replicas != 0) options.num_replicas = known.num_replicas;
  if (known.num_partitions != 0) options.num_partitions = known.num_partitions;
  if (known.device_assignment != nullptr) {
    options.device_assignment.assign(known.device_assignment, known.device_assignment + known.num_assigned);
  } else if (known.num_assigned != 0) {
    return InvalidArgument(std::string(function) + ": device_assignment is null");
  }
  CALLOUT_ASSIGN_OR_RETURN(options.xla_options,
                           internal::ReadValues(function, known.xla_options, known.num_xla_options));
  if (known.cache_directory != nullptr) options.cache_directory = known.cache_directory;
  switch (known.embedded_code) {
    case CALLOUT_EMBEDDED_CODE_BY_ENVIRONMENT:
      break;
    case CALLOUT_EMBEDDED_CODE_ALLOWED:
      options.embedded_code = true;
      break;
    case CALLOUT_EMBEDDED_CODE_REFUSED:
      options.embedded_code = false;
      break;
    default:
      return InvalidArgument(
          internal::Cat(function, ": embedded_code must be an enum callout_embedded_code, got ", known.embedded_code));
  }
  return options;
}

}  // namespace

callout_status* callout_program_from_file(const char* path, callout_program** out) noexcept {
  return GuardC(__func__, {{path, "path"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Program program, pjrt::Program::FromFile(path));
    *out = internal::NewHandle<callout_program>(std::move(program));
    return OkStatus();
  });
}

callout_status* callout_program_from_bytes(const void* data, size_t size, callout_program** out) noexcept {
  return GuardC(__func__, {{data, "data"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Program program,
                             pjrt::Program::FromBytes(std::string(static_cast<const char*>(data), size)));
    *out = internal::NewHandle<callout_program>(std::move(program));
    return OkStatus();
  });
}

void callout_program_destroy(callout_program* program) noexcept { delete program; }

callout_status* callout_compile(const callout_client* client, const callout_program* program,
                                const callout_compile_options* options, callout_executable** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{client, "client"}, {program, "program"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::CompileOptions read, ReadCompileOptions(function, options));
    const pjrt::Compiler compiler(client->client);
    CALLOUT_ASSIGN_OR_RETURN(pjrt::LoadedExecutable executable, compiler.Compile(program->program, read));
    *out = internal::NewHandle<callout_executable>(client->client, std::move(executable));
    return OkStatus();
  });
}

callout_status* callout_executable_load(const callout_client* client, const void* data, size_t size,
                                        const callout_compile_options* options, callout_executable** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{client, "client"}, {data, "data"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::CompileOptions read, ReadCompileOptions(function, options));
    const pjrt::Compiler compiler(client->client);
    CALLOUT_ASSIGN_OR_RETURN(pjrt::LoadedExecutable executable,
                             compiler.Load({static_cast<const char*>(data), size}, read));
    *out = internal::NewHandle<callout_executable>(client->client, std::move(executable));
    return OkStatus();
  });
}

callout_status* callout_executable_serialize(const callout_executable* executable, callout_bytes** out) noexcept {
  return GuardC(__func__, {{executable, "executable"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(std::string bytes, executable->executable.Serialize());
    *out = internal::NewHandle<callout_bytes>(std::move(bytes));
    return OkStatus();
  });
}

int32_t callout_executable_is_from_cache(const callout_executable* executable) noexcept {
  return executable != nullptr && executable->executable.is_from_cache() ? 1 : 0;
}

const void* callout_bytes_data(const callout_bytes* bytes) noexcept {
  return bytes == nullptr ? nullptr : bytes->bytes.data();
}

size_t callout_bytes_size(const callout_bytes* bytes) noexcept { return bytes == nullptr ? 0 : bytes->bytes.size(); }

void callout_bytes_destroy(callout_bytes* bytes) noexcept { delete bytes; }

size_t callout_executable_num_devices(const callout_executable* executable) noexcept {
  return executable == nullptr ? 0 : executable->executable.num_devices();
}

size_t callout_executable_num_outputs(const callout_executable* executable) noexcept {
  return executable == nullptr ? 0 : executable->executable.num_outputs();
}

size_t callout_executable_num_names(const callout_executable* executable) noexcept {
  return executable == nullptr ? 0 : executable->executable.callback_names().size();
}

const char* callout_executable_name(const callout_executable* executable, size_t index) noexcept {
  if (index >= callout_executable_num_names(executable)) return nullptr;
  return executable->executable.callback_names()[index].c_str();
}

void callout_executable_destroy(callout_executable* executable) noexcept { delete executable; }
