// SPDX-License-Identifier: Apache-2.0
//
// The bindings by which `callout.doctor` reports about CUDA.
#include "module_bindings.h"

#include <nanobind/stl/pair.h>

#include <vector>

#include "cuda/driver/device.h"
#include "cuda/handlers/recorded_calls.h"
#include "cuda/kernels/image_kernel.h"
#include "cuda_results.h"
#include "errors.h"
#include "gil.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::cuda::DeviceInfo;
using internal::cuda::Driver;

Result<std::vector<DeviceInfo>> AllDevices(const Driver& driver) {
  CALLOUT_RETURN_IF_ERROR(driver.Initialize());
  CALLOUT_ASSIGN_OR_RETURN(const int count, DeviceCount(driver));
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CALLOUT_ASSIGN_OR_RETURN(DeviceInfo device, DescribeDevice(driver, ordinal));
    devices.push_back(std::move(device));
  }
  return devices;
}

// Returns (path, version, devices, reason for having none), each as far as it is known.
nb::tuple CudaDriver() {
  const std::string path = Driver::DefaultPath();
  Result<const Driver*> driver = InternalError("");
  Result<std::vector<DeviceInfo>> found = std::vector<DeviceInfo>();
  {
    const GilRelease release;  // starting a driver takes long
    driver = Driver::Open(path);
    if (driver.ok()) found = AllDevices(**driver);
  }
  const auto reason = [](const Status& status) { return TextObject(status.message()); };
  if (!driver.ok()) return nb::make_tuple(FilePath{path}, 0, nb::list(), reason(driver.status()));
  if (!found.ok()) return nb::make_tuple(FilePath{path}, (*driver)->version(), nb::list(), reason(found.status()));
  nb::list devices;
  for (const DeviceInfo& device : *found) {
    devices.append(nb::make_tuple(device.ordinal, device.name, device.major, device.minor, device.pci_id));
  }
  return nb::make_tuple(FilePath{path}, (*driver)->version(), devices, nb::none());
}

nb::object StoreResults(const nb::list& values, const nb::tuple& results, const nb::tuple& arguments,
                        bool canonicalize) {
  const std::string misfit = StoreOnDevice(values.ptr(), results.ptr(), arguments.ptr(),
                                           canonicalize ? Canonicalize::k64To32 : Canonicalize::kNo);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return misfit.empty() ? nb::none() : TextObject(misfit);
}

}  // namespace

void BindCuda(nb::module_& m) {
  m.def(
      "expect_image", [](const nb::bytes& image) { internal::ExpectImage(std::string(image.c_str(), image.size())); },
      nb::arg("image"), "This process made the image: it is run also where programs may bring no code along.");
  m.def(
      "image_counts", [] { return nb::make_tuple(internal::ImageLaunches(), internal::ImagesLoaded()); },
      "(launches that were queued or recorded, images that were loaded), since the start.");
  m.def("recorded_call_counts", &internal::RecordedCallCounts,
        "(calls that were recorded for graph=True, launches of recordings), since the start.");
  m.def("store_on_device", &StoreResults, nb::arg("values"), nb::arg("results"), nb::arg("arguments"),
        nb::arg("canonicalize"),
        "Copies a list of arrays into a tuple of Buffers on a CUDA device. Returns why one does not fit, or None.");
  m.def("cuda_driver", &CudaDriver,
        "(path, version, [(ordinal, name, major, minor, PCI id)], why there are no devices, or None).");
}

}  // namespace callout::python
