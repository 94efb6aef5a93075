// SPDX-License-Identifier: Apache-2.0
#include "host/executables/executable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/base/cat.h"
#include "core/base/file_io.h"
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
// Version 1 could hold bytes that the plugin had made of a loaded executable: they load but do not run.
constexpr std::string_view kMark = "callout executable 2\n";
constexpr size_t kDigest = 64;  // hexadecimal digits
constexpr int kMadeBy = 1;
constexpr int kWantsRunners = 2;
constexpr int kDevice = 3;
constexpr int kBytes = 4;

// Returns the file's size and a hash of its beginning and end, where a library has the tables that change with its
// code. Reading the whole file would take longer than compiling a program.
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
  return Cat(size, " bytes ", Sha256Hex(outline));
}

std::string OutlineOnce(const std::string& path) {
  static Mutex mutex;
  static auto* const outlines = new std::map<std::string, std::string>;  // plugins stay until the process ends
  MutexLock lock(mutex);
  auto [it, is_new] = outlines->try_emplace(path);
  if (is_new) it->second = Outline(path);
  return it->second;
}

// Returns a hash of the processor's features, because plugins compile for the processor that they run on.
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
  return Cat(client.platform(), "; ", topology.ok() ? topology->platform_version : "", "; PJRT ",
             plugin.major_version(), ".", plugin.minor_version(), "; plugin of ", OutlineOnce(plugin.path()),
             "; processor ", Instructions(), "; flags ", flags == nullptr ? "" : flags);
}

namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

Status Failed(const std::string& what, const std::string& path) {
  return InternalError("callout: cannot " + what + " '" + path + "': " + std::strerror(errno));
}

}  // namespace

Result<ExecutableCache> ExecutableCache::Open(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);  // an error is ignored: mkdir reports one
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return Failed("make the cache", folder);
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) return Failed("open the cache", folder);
  if (!S_ISDIR(status.st_mode)) return InternalError("callout: the cache '" + folder + "' is no folder");
  if (status.st_uid != geteuid()) {
    return Status(StatusCode::kPermissionDenied,
                  "callout: the cache '" + folder + "' belongs to another user, who could choose what runs here");
  }
  if ((status.st_mode & kWritableByOthers) != 0) {
    return Status(StatusCode::kPermissionDenied, "callout: others may write to the cache '" + folder +
                                                     "', and so choose what runs here; chmod go-w it");
  }
  return ExecutableCache(folder);
}

std::optional<std::string> ExecutableCache::Read(const std::string& key) const {
  // O_NONBLOCK, so that opening a pipe does not wait for its writer.
  const Descriptor file(open(PathOf(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) return std::nullopt;
  const bool is_ours = S_ISREG(status.st_mode) && status.st_uid == geteuid();
  if (!is_ours || (status.st_mode & kWritableByOthers) != 0) return std::nullopt;
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = read(file.number(), bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    at += static_cast<size_t>(got);
  }
  return bytes;
}

Status ExecutableCache::Write(const std::string& key, std::string_view bytes) const {
  static std::atomic<int> number{0};  // of the files that this process writes
  const std::string unfinished = Cat(folder_, "/", key, ".", getpid(), ".", number.fetch_add(1), ".unfinished");
  bool is_written = false;
  {
    (void)unlink(unfinished.c_str());  // left by a crashed process with the same id
    const Descriptor file(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file.number() < 0) return Failed("write to the cache", unfinished);
    is_written = WriteAll(file.number(), bytes) == bytes.size();
  }
  if (is_written && std::rename(unfinished.c_str(), PathOf(key).c_str()) == 0) return OkStatus();
  Status failed = Failed("write to the cache", unfinished);
  (void)unlink(unfinished.c_str());
  return failed;
}

void ExecutableCache::Remove(const std::string& key) const { (void)unlink(PathOf(key).c_str()); }

}  // namespace callout::internal
