// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's run-time compiler, opened with dlopen: CUDA C++ to images without nvcc, a GPU or a driver. That there is no
// such library is a normal state, which a Status describes.
#pragma once

#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/dynamic_library.h"
#include "cuda/driver/nvrtc_functions.h"

namespace callout::internal::cuda {

/// A file that `#include` finds without a disk.
struct NvrtcHeader {
  std::string name;
  std::string content;
};

/// Texts end at their first NUL.
struct NvrtcSource {
  std::string code;
  std::string name;  ///< Of the file, in what the compiler says. Quoted includes begin in its folder.
  /// "--gpu-architecture=sm_90" gives machine code and PTX, "--gpu-architecture=compute_90" PTX alone.
  std::vector<std::string> options;
  std::vector<std::string> kernels;  ///< C++ names of kernels: "scale", "axpy<float>".
  std::vector<NvrtcHeader> headers;
};

struct NvrtcImage {
  Status status;                     ///< Why there is no image.
  std::string log;                   ///< What the compiler said, of good sources too; may be empty.
  std::string cubin;                 ///< Empty if the architecture is a virtual one.
  std::string ptx;                   ///< Ends with a NUL.
  std::vector<std::string> symbols;  ///< Of `kernels` in the image.
};

/// One library. Thread-safe. GIL not needed.
class Nvrtc : public NvrtcFunctions {
 public:
  /// The environment's CALLOUT_NVRTC, and nothing else, if it is set; or the first of `candidates` that can be opened.
  CALLOUT_EXPORT static Result<const Nvrtc*> Find(const std::vector<std::string>& candidates);

  /// A library as dlopen takes it, opened once a process and path and never closed.
  CALLOUT_EXPORT static Result<const Nvrtc*> Open(const std::string& path);

  /// Takes a hundredth of a second to many seconds.
  CALLOUT_EXPORT NvrtcImage Compile(const NvrtcSource& source) const;

  /// The file, where the loader found it.
  const std::string& path() const { return path_; }
  /// As CUDA counts: 13000 is 13.0.
  int version() const { return version_; }
  /// Compute capabilities that it compiles for: 90 is 9.0.
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
