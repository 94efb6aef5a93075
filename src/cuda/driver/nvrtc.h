// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's run-time compiler (NVRTC), opened with dlopen. It compiles CUDA C++ to images without nvcc, a GPU or a
// driver. A machine without this library is a normal state that a Status describes.
//
// NVRTC's C interface is declared here, so that a build needs none of CUDA's headers: X(name without "nvrtc",
// parameters). nvrtc_functions_test.cc compares every row with nvrtc.h if that is installed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/dynamic_library.h"

// A library must have all of these functions.
#define CALLOUT_NVRTC_FUNCTIONS(X)                                                                  \
  X(Version, (int* major, int* minor))                                                              \
  X(GetNumSupportedArchs, (int* count))                                                             \
  X(GetSupportedArchs, (int* architectures))                                                        \
  X(CreateProgram, (nvrtcProgram * program, const char* source, const char* name, int header_count, \
                    const char* const* headers, const char* const* header_names))                   \
  X(DestroyProgram, (nvrtcProgram * program))                                                       \
  X(CompileProgram, (nvrtcProgram program, int option_count, const char* const* options))           \
  X(GetPTXSize, (nvrtcProgram program, size_t* bytes))                                              \
  X(GetPTX, (nvrtcProgram program, char* ptx))                                                      \
  X(GetCUBINSize, (nvrtcProgram program, size_t* bytes))                                            \
  X(GetCUBIN, (nvrtcProgram program, char* cubin))                                                  \
  X(GetProgramLogSize, (nvrtcProgram program, size_t* bytes))                                       \
  X(GetProgramLog, (nvrtcProgram program, char* log))                                               \
  X(AddNameExpression, (nvrtcProgram program, const char* expression))                              \
  X(GetLoweredName, (nvrtcProgram program, const char* expression, const char** symbol))

namespace callout::internal::cuda {

using nvrtcResult = int;
using nvrtcProgram = struct NvrtcProgram*;

enum : nvrtcResult {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_OUT_OF_MEMORY = 1,
  NVRTC_ERROR_INVALID_INPUT = 3,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6,
  NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
};

struct NvrtcFunctions {
#define CALLOUT_NVRTC_DECLARE(name, parameters) nvrtcResult(*name) parameters = nullptr;
  CALLOUT_NVRTC_FUNCTIONS(CALLOUT_NVRTC_DECLARE)
#undef CALLOUT_NVRTC_DECLARE
  const char* (*GetErrorString)(nvrtcResult result) = nullptr;
};

/// A file in memory, for `#include`.
struct NvrtcHeader {
  std::string name;
  std::string content;
};

/// The texts end at their first NUL.
struct NvrtcSource {
  std::string code;
  std::string name;  ///< The file's name in the compiler's messages. Quoted includes start in its folder.
  /// "--gpu-architecture=sm_90" gives machine code and PTX, "--gpu-architecture=compute_90" gives PTX alone.
  std::vector<std::string> options;
  std::vector<std::string> kernels;  ///< C++ names of kernels: "scale", "axpy<float>".
  std::vector<NvrtcHeader> headers;
};

struct NvrtcImage {
  Status status;                     ///< The error, if there is no image.
  std::string log;                   ///< The compiler's log, which may have text for good sources, too.
  std::string cubin;                 ///< Empty if the architecture is a virtual one.
  std::string ptx;                   ///< Ends with a NUL.
  std::vector<std::string> symbols;  ///< The symbols of `kernels` in the image.
};

/// One NVRTC library. Thread-safe. GIL not needed.
class Nvrtc : public NvrtcFunctions {
 public:
  /// Opens the library that the environment's CALLOUT_NVRTC names, or, if that is unset, the first of `candidates` that
  /// can be opened.
  CALLOUT_EXPORT static Result<const Nvrtc*> Find(const std::vector<std::string>& candidates);

  /// Opens a library by a path for dlopen, once in the process for each path. It is never closed.
  CALLOUT_EXPORT static Result<const Nvrtc*> Open(const std::string& path);

  /// Compiles a source, in between a hundredth of a second and many seconds.
  CALLOUT_EXPORT NvrtcImage Compile(const NvrtcSource& source) const;

  /// The file that the loader found.
  const std::string& path() const { return path_; }
  /// In CUDA's notation: 13000 is 13.0.
  int version() const { return version_; }
  /// The compute capabilities that this NVRTC compiles for: 90 is 9.0.
  const std::vector<int>& architectures() const { return architectures_; }

 private:
  explicit Nvrtc(DynamicLibrary library) : library_(std::move(library)), path_(library_.path()) {}
  static Result<const Nvrtc*> Load(const std::string& path);
  Status Resolve();
  Status Ask();
  Status Check(nvrtcResult result, const char* function, const std::string& name) const;
  Status Build(nvrtcProgram program, const NvrtcSource& source, NvrtcImage& image) const;

  DynamicLibrary library_;
  std::string path_;
  int version_ = 0;
  std::vector<int> architectures_;
};

}  // namespace callout::internal::cuda
