// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/kernel.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/base/cat.h"
#include "core/base/thread_annotations.h"

namespace callout::internal::cuda {

Status EncodeTensorMap(const Device& device, const TensorMapShape& shape, CUdeviceptr address, std::string_view name,
                       CUtensorMap& map) {
  const CUresult result = device.driver().TensorMapEncodeTiled(
      &map, shape.type, shape.rank, reinterpret_cast<void*>(address), shape.dims.data(), shape.strides.data(),
      shape.box.data(), shape.element_strides.data(), shape.interleave, shape.swizzle, shape.promotion, shape.fill);
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  return device.Check(result, "cuTensorMapEncodeTiled", "'" + std::string(name) + "'");
}

namespace {

constexpr size_t kLogBytes = 8192;

std::string Quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

// Returns the log of the driver's compiler for an image. The image is loaded again for this, because a driver may
// compile the first library later, when a log buffer given to it would be gone.
std::string WordsOfTheCompiler(const Driver& driver, const void* image) {
  std::string log(kLogBytes, '\0');
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(uintptr_t{kLogBytes})};
  CUlibrary library = nullptr;
  if (driver.LibraryLoadData(&library, image, options, values, 2, nullptr, nullptr, 0) == CUDA_SUCCESS) {
    static_cast<void>(driver.LibraryUnload(library));
  }
  log.resize(std::min(log.find('\0'), log.size()));
  log.resize(log.find_last_not_of(" \n") + 1);
  return log;
}

Status LaunchExtended(const Device& device, CUfunction function, const LaunchShape& shape, CUstream stream,
                      void** parameters, std::string_view name) {
  CUlaunchAttribute attributes[4] = {};
  CUlaunchConfig config = {.gridDimX = shape.grid[0],
                           .gridDimY = shape.grid[1],
                           .gridDimZ = shape.grid[2],
                           .blockDimX = shape.block[0],
                           .blockDimY = shape.block[1],
                           .blockDimZ = shape.block[2],
                           .sharedMemBytes = shape.shared_bytes,
                           .hStream = stream,
                           .attrs = attributes,
                           .numAttrs = 0};
  const auto next = [&](int id) -> auto& {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = id;
    return attribute.value;
  };
  if (shape.cooperative) next(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  if (shape.cluster[0] != 0) {
    next(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = {shape.cluster[0], shape.cluster[1], shape.cluster[2]};
  }
  if (shape.dependent) {
    next(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).programmaticStreamSerializationAllowed = 1;
  }
  if (shape.priority) next(CU_LAUNCH_ATTRIBUTE_PRIORITY).priority = *shape.priority;
  const CUresult result = device.driver().LaunchKernelEx(&config, function, parameters, nullptr);
  return result == CUDA_SUCCESS ? OkStatus() : device.Check(result, "cuLaunchKernelEx", Quoted(name));
}

}  // namespace

Result<Library> LoadLibrary(const Driver& driver, const void* image, const std::string& name) {
  CUlibrary library = nullptr;
  const Status loaded = driver.Check(driver.LibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
                                     {.function = "cuLibraryLoadData", .subject = Quoted(name)});
  if (loaded.ok()) return Library(driver, library);
  return Explained(loaded, driver, image);
}

Status Explained(Status failed, const Driver& driver, const void* image) {
  const std::string words = WordsOfTheCompiler(driver, image);
  if (words.empty()) return failed;
  return failed.WithMessage(std::string(failed.message()) + "\nThe driver's compiler says: " + words);
}

Result<CUkernel> FindKernel(const Driver& driver, const Library& library, const std::string& name) {
  CUkernel kernel = nullptr;
  CALLOUT_RETURN_IF_ERROR(driver.Check(driver.LibraryGetKernel(&kernel, library.get(), name.c_str()),
                                       {.function = "cuLibraryGetKernel", .subject = Quoted(name)}));
  return kernel;
}

Result<CUfunction> FindFunction(const Device& device, CUkernel kernel, const std::string& name) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUfunction function = nullptr;
  CALLOUT_RETURN_IF_ERROR(
      device.Check(device.driver().KernelGetFunction(&function, kernel), "cuKernelGetFunction", Quoted(name)));
  // Loads the function now. Otherwise its first launch would load it, which may wait for the device, and which would
  // invalidate a capture (CUDA C++ Programming Guide, Lazy Loading).
  if (device.driver().FuncLoad != nullptr) {
    CALLOUT_RETURN_IF_ERROR(device.Check(device.driver().FuncLoad(function), "cuFuncLoad", Quoted(name)));
  }
  return function;
}

Result<std::vector<Parameter>> Parameters(const Device& device, CUfunction function, const std::string& name) {
  const Driver& driver = device.driver();
  if (driver.FuncGetParamInfo == nullptr) {
    return Unimplemented("the CUDA driver has no cuFuncGetParamInfo, so the parameters of " + Quoted(name) +
                         " are not known");
  }
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  std::vector<Parameter> parameters;
  for (;;) {
    Parameter next;
    const CUresult result = driver.FuncGetParamInfo(function, parameters.size(), &next.offset, &next.bytes);
    if (result == CUDA_ERROR_INVALID_VALUE) return parameters;  // The index is past the last parameter.
    CALLOUT_RETURN_IF_ERROR(device.Check(result, "cuFuncGetParamInfo", Quoted(name)));
    parameters.push_back(next);
  }
}

Status PermitSharedMemory(const Device& device, CUfunction function, int bytes, const std::string& name) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  // All users of a function share its limit, and cuFuncSetAttribute can lower a limit. So one thread at a time reads
  // the limit and raises it.
  static Mutex* const mutex = new Mutex;
  const MutexLock lock(*mutex);
  int permitted = 0;
  CALLOUT_RETURN_IF_ERROR(device.Check(
      device.driver().FuncGetAttribute(&permitted, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function),
      "cuFuncGetAttribute", Quoted(name)));
  if (bytes <= permitted) return OkStatus();
  return device.Check(
      device.driver().FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
      "cuFuncSetAttribute", Cat(Quoted(name), " for ", bytes, " bytes of shared memory"));
}

Result<int64_t> MostCooperativeBlocks(const Device& device, CUfunction function, int threads, size_t shared_bytes,
                                      const std::string& name) {
  CALLOUT_ASSIGN_OR_RETURN(const int can, device.Attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH));
  if (can == 0) return int64_t{0};
  CALLOUT_ASSIGN_OR_RETURN(const int multiprocessors, device.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  int blocks = 0;
  CALLOUT_RETURN_IF_ERROR(
      device.Check(device.driver().OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, shared_bytes),
                   "cuOccupancyMaxActiveBlocksPerMultiprocessor", Quoted(name)));
  return int64_t{blocks} * multiprocessors;
}

Result<int64_t> CompiledCluster(const Device& device, CUfunction function, const std::string& name) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  int64_t blocks = 1;
  for (const int attribute : {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
                              CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH}) {
    int extent = 0;
    CALLOUT_RETURN_IF_ERROR(device.Check(device.driver().FuncGetAttribute(&extent, attribute, function),
                                         "cuFuncGetAttribute", Quoted(name)));
    if (extent == 0) return int64_t{0};
    blocks *= extent;
  }
  return blocks;
}

Status PermitLargeClusters(const Device& device, CUfunction function, const std::string& name) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  return device.Check(
      device.driver().FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
      "cuFuncSetAttribute", Quoted(name) + " for clusters of more than 8 blocks");
}

Status Launch(const Device& device, CUfunction function, const LaunchShape& shape, CUstream stream, void** parameters,
              std::string_view name) {
  if (shape.is_extended()) return LaunchExtended(device, function, shape, stream, parameters, name);
  const auto& grid = shape.grid;
  const auto& block = shape.block;
  const unsigned int shared_bytes = shape.shared_bytes;
  const bool cooperative = shape.cooperative;
  const Driver& driver = device.driver();
  const CUresult result = cooperative
                              ? driver.LaunchCooperativeKernel(function, grid[0], grid[1], grid[2], block[0], block[1],
                                                               block[2], shared_bytes, stream, parameters)
                              : driver.LaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                                    shared_bytes, stream, parameters, nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  return device.Check(result, cooperative ? "cuLaunchCooperativeKernel" : "cuLaunchKernel", Quoted(name));
}

}  // namespace callout::internal::cuda
