// SPDX-License-Identifier: Apache-2.0
//
// libnvJitLink: links one PTX. The "cubin" is the PTX itself, which the software GPU runs.
#include <cstddef>
#include <cstring>
#include <string>

#include "libraries/log.h"

namespace {

enum Status : int { kSuccess = 0, kInvalidInput = 4, kNvvmError = 6 };

struct Linker {
  std::string ptx;
  std::string errors;
  int inputs = 0;
};

int Fail(Linker* linker, const std::string& why) {
  linker->errors += "the software GPU's nvJitLink: " + why + "\n";
  return kInvalidInput;
}

int Create(void** handle, unsigned int, const char**) {
  *handle = new Linker;
  return kSuccess;
}
int Destroy(void** handle) {
  delete static_cast<Linker*>(*handle);
  *handle = nullptr;
  return kSuccess;
}
int AddData(void* handle, int, const void* data, size_t bytes, const char* name) {
  auto* linker = static_cast<Linker*>(handle);
  const std::string what = name != nullptr ? name : "an input";
  const std::string text(static_cast<const char*>(data), bytes);
  if (text.find(".version") == std::string::npos) return Fail(linker, what + " is not PTX");
  if (++linker->inputs > 1) return Fail(linker, what + " is a second input, and it links one only");
  linker->ptx = text.c_str();  // cuts off at a terminating zero
  return kSuccess;
}
int AddFile(void* handle, int, const char* name) {
  return Fail(static_cast<Linker*>(handle), std::string(name) + " is a file, and it links PTX only");
}
int Complete(void* handle) {
  auto* linker = static_cast<Linker*>(handle);
  return linker->inputs == 1 ? static_cast<int>(kSuccess) : Fail(linker, "there must be exactly one PTX");
}
// Returns the size with the terminating zero.
int GetSize(const std::string& text, size_t* bytes) {
  *bytes = text.size() + 1;
  return kSuccess;
}
int GetText(const std::string& text, void* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}
int LinkedSize(void* handle, size_t* bytes) { return GetSize(static_cast<Linker*>(handle)->ptx, bytes); }
int Linked(void* handle, void* to) { return GetText(static_cast<Linker*>(handle)->ptx, to); }
int ErrorsSize(void* handle, size_t* bytes) { return GetSize(static_cast<Linker*>(handle)->errors, bytes); }
int Errors(void* handle, void* to) { return GetText(static_cast<Linker*>(handle)->errors, to); }
int NotesSize(void*, size_t* bytes) { return GetSize({}, bytes); }
int Notes(void*, void* to) { return GetText({}, to); }
// Returns the last version before features that only NVIDIA's library can link: compilers that may choose then pass
// PTX.
int Version(unsigned int* major, unsigned int* minor) {
  *major = 12;
  *minor = 2;
  return kSuccess;
}

}  // namespace

// nvJitLink's header adds the toolkit's version to each name. Libraries that load the linker by name use names with or
// without it.
#define CALLOUT_LINKER_NAMES(Name, function, parameters, arguments)              \
  CALLOUT_LINKER_NAME(nvJitLink##Name, function, parameters, arguments)          \
  CALLOUT_LINKER_NAME(__nvJitLink##Name##_12_0, function, parameters, arguments) \
  CALLOUT_LINKER_NAME(__nvJitLink##Name##_12_9, function, parameters, arguments) \
  CALLOUT_LINKER_NAME(__nvJitLink##Name##_13_0, function, parameters, arguments) \
  CALLOUT_LINKER_NAME(__nvJitLink##Name##_13_5, function, parameters, arguments)
#define CALLOUT_LINKER_NAME(name, function, parameters, arguments) \
  CALLOUT_LIBRARY_EXPORT int name parameters { return function arguments; }

CALLOUT_LINKER_NAMES(Create, Create, (void** handle, unsigned int count, const char** options),
                     (handle, count, options))
CALLOUT_LINKER_NAMES(Destroy, Destroy, (void** handle), (handle))
CALLOUT_LINKER_NAMES(AddData, AddData, (void* handle, int kind, const void* data, size_t bytes, const char* name),
                     (handle, kind, data, bytes, name))
CALLOUT_LINKER_NAMES(AddFile, AddFile, (void* handle, int kind, const char* name), (handle, kind, name))
CALLOUT_LINKER_NAMES(Complete, Complete, (void* handle), (handle))
CALLOUT_LINKER_NAMES(GetLinkedCubinSize, LinkedSize, (void* handle, size_t* bytes), (handle, bytes))
CALLOUT_LINKER_NAMES(GetLinkedCubin, Linked, (void* handle, void* to), (handle, to))
CALLOUT_LINKER_NAMES(GetLinkedPtxSize, LinkedSize, (void* handle, size_t* bytes), (handle, bytes))
CALLOUT_LINKER_NAMES(GetLinkedPtx, Linked, (void* handle, void* to), (handle, to))
CALLOUT_LINKER_NAMES(GetErrorLogSize, ErrorsSize, (void* handle, size_t* bytes), (handle, bytes))
CALLOUT_LINKER_NAMES(GetErrorLog, Errors, (void* handle, void* to), (handle, to))
CALLOUT_LINKER_NAMES(GetInfoLogSize, NotesSize, (void* handle, size_t* bytes), (handle, bytes))
CALLOUT_LINKER_NAMES(GetInfoLog, Notes, (void* handle, void* to), (handle, to))
CALLOUT_LINKER_NAMES(Version, Version, (unsigned int* major, unsigned int* minor), (major, minor))
