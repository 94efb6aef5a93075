// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "core/base/cat.h"
#include "core/base/thread_annotations.h"

namespace callout::internal::cuda {
namespace {

struct OpenLibraries {
  Mutex mutex;
  std::map<std::string, std::unique_ptr<const Nvrtc>> by_path CALLOUT_GUARDED_BY(mutex);
};

// Leaked: another thread may be compiling when the process ends.
OpenLibraries& Libraries() {
  static auto* const libraries = new OpenLibraries;
  return *libraries;
}

StatusCode CodeOfNvrtc(nvrtcResult result) {
  switch (result) {
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return StatusCode::kResourceExhausted;
    case NVRTC_ERROR_INVALID_INPUT:
    case NVRTC_ERROR_INVALID_OPTION:
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return StatusCode::kInvalidArgument;
    default:
      return StatusCode::kInternal;
  }
}

std::vector<const char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

}  // namespace

Result<const Nvrtc*> Nvrtc::Find(const std::vector<std::string>& candidates) {
  if (const char* path = std::getenv("CALLOUT_NVRTC"); path != nullptr && *path != '\0') return Open(path);
  std::string tried;
  for (const std::string& path : candidates) {
    Result<const Nvrtc*> found = Open(path);
    if (found.ok()) return found;
    tried.append("\n  ").append(found.status().message());
  }
  return NotFound("there is no NVRTC:" + tried);
}

Result<const Nvrtc*> Nvrtc::Open(const std::string& path) {
  OpenLibraries& libraries = Libraries();
  const MutexLock lock(libraries.mutex);
  if (const auto found = libraries.by_path.find(path); found != libraries.by_path.end()) return found->second.get();
  CALLOUT_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, Load(path));
  libraries.by_path.emplace(path, nvrtc);
  return nvrtc;
}

Result<const Nvrtc*> Nvrtc::Load(const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(DynamicLibrary library, DynamicLibrary::Open(path));
  std::unique_ptr<Nvrtc> nvrtc(new Nvrtc(std::move(library)));
  CALLOUT_RETURN_IF_ERROR(nvrtc->Resolve());
  CALLOUT_RETURN_IF_ERROR(nvrtc->Ask());
  return nvrtc.release();
}

Status Nvrtc::Resolve() {
  std::string missing;
  const auto find = [&](const char* name) {
    void* const function = library_.Find(name);
    if (function == nullptr) missing.append(missing.empty() ? "" : ", ").append(name);
    return function;
  };
#define CALLOUT_NVRTC_FIND(name, parameters) name = reinterpret_cast<decltype(name)>(find("nvrtc" #name));
  CALLOUT_NVRTC_FUNCTIONS(CALLOUT_NVRTC_FIND)
#undef CALLOUT_NVRTC_FIND
  GetErrorString = reinterpret_cast<decltype(GetErrorString)>(find("nvrtcGetErrorString"));
  if (missing.empty()) return OkStatus();
  return FailedPrecondition("'" + path_ + "' is no NVRTC, or too old: it lacks " + missing);
}

Status Nvrtc::Ask() {
  Dl_info file;
  if (dladdr(reinterpret_cast<void*>(Version), &file) != 0 && file.dli_fname != nullptr) path_ = file.dli_fname;
  int major = 0;
  int minor = 0;
  int count = 0;
  CALLOUT_RETURN_IF_ERROR(Check(Version(&major, &minor), "nvrtcVersion", path_));
  version_ = major * 1000 + minor * 10;
  CALLOUT_RETURN_IF_ERROR(Check(GetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs", path_));
  architectures_.resize(static_cast<size_t>(count));
  return Check(GetSupportedArchs(architectures_.data()), "nvrtcGetSupportedArchs", path_);
}

Status Nvrtc::Check(nvrtcResult result, const char* function, const std::string& name) const {
  if (result == NVRTC_SUCCESS) return OkStatus();
  return {CodeOfNvrtc(result), Cat(function, " of '", name, "' failed: ", GetErrorString(result), " (", result, ")")};
}

NvrtcImage Nvrtc::Compile(const NvrtcSource& source) const {
  std::vector<const char*> names;
  std::vector<const char*> contents;
  for (const NvrtcHeader& header : source.headers) {
    names.push_back(header.name.c_str());
    contents.push_back(header.content.c_str());
  }
  NvrtcImage image;
  nvrtcProgram program = nullptr;
  image.status = Check(CreateProgram(&program, source.code.c_str(), source.name.c_str(), static_cast<int>(names.size()),
                                     contents.data(), names.data()),
                       "nvrtcCreateProgram", source.name);
  if (!image.status.ok()) return image;
  image.status = Build(program, source, image);
  DestroyProgram(&program);
  return image;
}

Status Nvrtc::Build(nvrtcProgram program, const NvrtcSource& source, NvrtcImage& image) const {
  for (const std::string& kernel : source.kernels) {
    CALLOUT_RETURN_IF_ERROR(Check(AddNameExpression(program, kernel.c_str()), "nvrtcAddNameExpression", kernel));
  }
  const std::vector<const char*> options = Pointers(source.options);
  const nvrtcResult compiled = CompileProgram(program, static_cast<int>(options.size()), options.data());
  // Reads a text, or bytes, from NVRTC: first the size, then the content.
  const auto take = [&](auto get_size, auto get, const char* function, std::string& into) -> Status {
    size_t bytes = 0;
    CALLOUT_RETURN_IF_ERROR(Check(get_size(program, &bytes), function, source.name));
    into.resize(bytes);
    return bytes == 0 ? OkStatus() : Check(get(program, into.data()), function, source.name);
  };
  CALLOUT_RETURN_IF_ERROR(take(GetProgramLogSize, GetProgramLog, "nvrtcGetProgramLog", image.log));
  while (image.log.ends_with('\0')) image.log.pop_back();
  CALLOUT_RETURN_IF_ERROR(Check(compiled, "nvrtcCompileProgram", source.name));
  CALLOUT_RETURN_IF_ERROR(take(GetCUBINSize, GetCUBIN, "nvrtcGetCUBIN", image.cubin));
  CALLOUT_RETURN_IF_ERROR(take(GetPTXSize, GetPTX, "nvrtcGetPTX", image.ptx));
  for (const std::string& kernel : source.kernels) {
    const char* symbol = nullptr;
    CALLOUT_RETURN_IF_ERROR(Check(GetLoweredName(program, kernel.c_str(), &symbol), "nvrtcGetLoweredName", kernel));
    image.symbols.emplace_back(symbol);
  }
  return OkStatus();
}

}  // namespace callout::internal::cuda
