// SPDX-License-Identifier: Apache-2.0
//
// Compiles CUDA C++ to images by NVRTC.
#include "module_bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/nvrtc.h"
#include "gil.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::cuda::Nvrtc;
using internal::cuda::NvrtcImage;
using internal::cuda::NvrtcSource;

nb::bytes Bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

nb::object Reason(const Status& status) { return status.ok() ? nb::none() : TextObject(status.message()); }

std::vector<std::string> BytesOf(const std::vector<FilePath>& paths) {
  std::vector<std::string> all;
  for (const FilePath& path : paths) all.push_back(path.bytes);
  return all;
}

// Returns (path, version, architectures, reason for having none).
nb::tuple FindNvrtc(const std::vector<FilePath>& candidates) {
  Result<const Nvrtc*> found = InternalError("");
  {
    const GilRelease release;  // loads a library of 100 MB
    found = Nvrtc::Find(BytesOf(candidates));
  }
  if (!found.ok()) return nb::make_tuple("", 0, nb::list(), Reason(found.status()));
  return nb::make_tuple(FilePath{(*found)->path()}, (*found)->version(), nb::cast((*found)->architectures()),
                        nb::none());
}

// Returns (reason for having no image, log, cubin, PTX, symbols).
nb::tuple Compile(const FilePath& path, std::string code, std::string name, const std::vector<FilePath>& options,
                  std::vector<std::string> kernels, const std::vector<std::pair<std::string, std::string>>& headers) {
  NvrtcSource source{std::move(code), std::move(name), BytesOf(options), std::move(kernels), {}};
  for (const auto& [header, content] : headers) source.headers.push_back({header, content});
  NvrtcImage image;
  {
    const GilRelease release;
    const Result<const Nvrtc*> nvrtc = Nvrtc::Open(path.bytes);
    if (nvrtc.ok()) {
      image = (*nvrtc)->Compile(source);
    } else {
      image.status = nvrtc.status();
    }
  }
  // Bytes, because a compiler's output need not be UTF-8.
  return nb::make_tuple(Reason(image.status), Bytes(image.log), Bytes(image.cubin), Bytes(image.ptx),
                        nb::cast(image.symbols));
}

}  // namespace

void BindNvrtc(nb::module_& m) {
  m.def("find_nvrtc", &FindNvrtc, nb::arg("candidates"),
        "(path, version, compute capabilities, why there is none, or None): of CALLOUT_NVRTC if it is set, or of the "
        "first candidate that is one.");
  m.def("compile_cuda", &Compile, nb::arg("nvrtc"), nb::arg("code"), nb::arg("name"), nb::arg("options"),
        nb::arg("kernels"), nb::arg("headers"),
        "(why there is no image, or None, log, cubin, PTX, symbols of `kernels`). The GIL is released.");
}

}  // namespace callout::python
