// SPDX-License-Identifier: Apache-2.0
#include "host/executables/executable_file.h"

#include <cstdlib>
#include <fstream>
#include <map>

#include "core/base/thread_annotations.h"
#include "core/encoding/checksums.h"
#include "core/encoding/wire.h"

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

namespace {

constexpr std::string_view kAnyMark = "callout executable ";
// Version 1 could hold bytes that the plugin had made of a loaded executable, which load and cannot run.
constexpr std::string_view kMark = "callout executable 2\n";
constexpr size_t kDigest = 64;  // hexadecimal digits
constexpr int kMadeBy = 1;
constexpr int kWantsRunners = 2;
constexpr int kDevice = 3;
constexpr int kBytes = 4;

// The beginning and the end of a file, where a library has the tables that change with its code, and its size. All of
// it would take longer to read than a program takes to compile.
std::string Outline(const std::string& path) {
  constexpr std::streamoff kPart = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (!file || size < 0) return "";
  const auto part = static_cast<size_t>(size < kPart ? size : kPart);
  std::string outline(2 * part, '\0');
  file.seekg(0);
  file.read(outline.data(), static_cast<std::streamsize>(part));
  file.seekg(size - static_cast<std::streamoff>(part));
  file.read(outline.data() + part, static_cast<std::streamsize>(part));
  return std::to_string(size) + " bytes " + Sha256Hex(outline);
}

std::string OutlineOnce(const std::string& path) {
  static Mutex mutex;
  static auto* const outlines = new std::map<std::string, std::string>;  // plugins stay until the process ends
  MutexLock lock(mutex);
  auto [it, is_new] = outlines->try_emplace(path);
  if (is_new) it->second = Outline(path);
  return it->second;
}

// Plugins compile for the processor that they run on.
const std::string& Instructions() {
  static const std::string* const digest = [] {
    std::ifstream file("/proc/cpuinfo");
    std::string all;
    for (std::string line; std::getline(file, line);) {
      const bool tells = line.starts_with("flags") || line.starts_with("Features") || line.starts_with("model name");
      if (tells && all.find(line) == std::string::npos) all += line + "\n";
    }
    return new std::string(Sha256Hex(all));
  }();
  return *digest;
}

Status NoFile(const std::string& why) { return InvalidArgument("callout: this is no executable of Callout's: " + why); }

}  // namespace

std::string ExecutableFile::Write() const {
  WireWriter fields;
  fields.AddMessage(kMadeBy, made_by);
  fields.AddNumber(kWantsRunners, wants_runners ? 1 : 0);
  fields.AddNumber(kDevice, static_cast<uint64_t>(static_cast<int64_t>(device)));
  fields.AddMessage(kBytes, bytes);
  return std::string(kMark) + Sha256Hex(fields.bytes()) + fields.bytes();
}

Result<ExecutableFile> ExecutableFile::Read(std::string_view text) {
  if (!text.starts_with(kMark)) {
    return NoFile(text.starts_with(kAnyMark) ? "another version wrote it; compile the program again"
                                             : "it does not begin as one");
  }
  text.remove_prefix(kMark.size());
  if (text.size() < kDigest) return NoFile("it ends too early");
  const std::string_view digest = text.substr(0, kDigest);
  text.remove_prefix(kDigest);
  if (Sha256Hex(text) != digest) return NoFile("it is damaged, or cut off");
  ExecutableFile file;
  WireReader reader(text);
  while (const auto field = reader.Next()) {
    if (field->number == kMadeBy && field->is_bytes) file.made_by = field->bytes;
    if (field->number == kWantsRunners) file.wants_runners = field->value != 0;
    if (field->number == kDevice) file.device = static_cast<int32_t>(field->value);
    if (field->number == kBytes && field->is_bytes) file.bytes = field->bytes;
  }
  if (!reader.ok()) return NoFile("its fields are none");
  return file;
}

std::string MadeBy(const pjrt::Client& client) {
  const pjrt::Plugin& plugin = client.plugin();
  const Result<pjrt::Topology> topology = client.ReadTopology();
  const char* flags = std::getenv("XLA_FLAGS");
  return client.platform() + "; " + (topology.ok() ? topology->platform_version : "") + "; PJRT " +
         std::to_string(plugin.major_version()) + "." + std::to_string(plugin.minor_version()) + "; plugin of " +
         OutlineOnce(plugin.path()) + "; processor " + Instructions() + "; flags " + (flags == nullptr ? "" : flags);
}

}  // namespace callout::internal
