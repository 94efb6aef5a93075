// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/image_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/cat.h"
#include "core/base/small_buffer.h"
#include "core/base/thread_annotations.h"
#include "core/encoding/checksums.h"
#include "cuda/driver/stream_work.h"

namespace callout::internal {

Status ImageCall::Check() const {
  const auto wrong = [this](const std::string& what) {
    return InvalidArgument("callout: kernel '" + name + "': " + what);
  };
  if (bytes.empty()) return wrong("the program carries no image of it");
  if (symbol.empty()) return wrong("the program does not say what it is called in its image");
  const std::string_view names = "xyz";
  for (size_t axis = 0; axis < 3; ++axis) {
    const std::string of = std::string(1, names[axis]);
    if (shape.grid[axis] == 0) return wrong("grid." + of + " is 0");
    if (shape.block[axis] == 0) return wrong("block." + of + " is 0");
  }
  CALLOUT_RETURN_IF_ERROR(CheckCluster());
  size_t total = 0;
  for (const size_t size : parameter_bytes) total += size;
  if (total != parameter_block.size()) {
    return wrong(
        Cat("its parameters have ", total, " bytes, attribute 'parameter_block' has ", parameter_block.size()));
  }
  for (const AddressSlot& slot : addresses) {
    if (parameter_block.size() < sizeof(uint64_t) || slot.position > parameter_block.size() - sizeof(uint64_t)) {
      return wrong(Cat("an address is to go behind the end of its parameters, to byte ", slot.position, " of ",
                       parameter_block.size()));
    }
  }
  for (const TensorMapSlot& slot : tensor_maps) {
    if (parameter_block.size() < sizeof(cuda::CUtensorMap) ||
        slot.position > parameter_block.size() - sizeof(cuda::CUtensorMap)) {
      return wrong(Cat("a tensor map is to go behind the end of its parameters, to byte ", slot.position, " of ",
                       parameter_block.size()));
    }
    if (slot.shape.rank < 1 || slot.shape.rank > cuda::TensorMapShape::kMostAxes) {
      return wrong(Cat("a tensor map has 1 to 5 axes, got ", slot.shape.rank));
    }
  }
  return OkStatus();
}

// The rules are those of the CUDA C++ Programming Guide, Thread Block Clusters.
Status ImageCall::CheckCluster() const {
  if (shape.cluster[0] == 0) return OkStatus();
  const auto wrong = [this](const std::string& what) {
    return InvalidArgument("callout: kernel '" + name + "': " + what);
  };
  if (fills_device) return wrong("a grid that fills the device has no clusters");
  for (size_t axis = 0; axis < 3; ++axis) {
    if (shape.grid[axis] % shape.cluster[axis] == 0) continue;
    return wrong(Cat("grid.", "xyz"[axis], " is ", shape.grid[axis], ", and no multiple of the cluster's ",
                     shape.cluster[axis]));
  }
  return OkStatus();
}

namespace {

std::atomic<int64_t> g_loaded{0};

struct Images {
  Mutex mutex;
  std::map<std::pair<const cuda::Driver*, std::string>, std::weak_ptr<const ImageLibrary>> by_digest
      CALLOUT_GUARDED_BY(mutex);
  std::set<std::string> expected CALLOUT_GUARDED_BY(mutex);
};

// Leaked: programs run until the process ends.
Images& GetImages() {
  static auto* const images = new Images;
  return *images;
}

}  // namespace

Result<std::shared_ptr<const ImageLibrary>> LoadImage(const cuda::Driver& driver, const std::string& bytes,
                                                      const std::string& name) {
  Images& images = GetImages();
  const std::string digest = Sha256Hex(bytes);
  const MutexLock lock(images.mutex);
  std::weak_ptr<const ImageLibrary>& known = images.by_digest[{&driver, digest}];
  if (auto library = known.lock()) return library;
  CALLOUT_ASSIGN_OR_RETURN(cuda::Library loaded, cuda::LoadLibrary(driver, bytes.c_str(), name));
  g_loaded.fetch_add(1, std::memory_order_relaxed);
  auto library = std::make_shared<const ImageLibrary>(ImageLibrary{std::move(loaded)});
  known = library;
  return library;
}

void ExpectImage(const std::string& bytes) {
  Images& images = GetImages();
  std::string digest = Sha256Hex(bytes);
  const MutexLock lock(images.mutex);
  images.expected.insert(std::move(digest));
}

bool IsExpectedImage(const std::string& bytes) {
  Images& images = GetImages();
  const std::string digest = Sha256Hex(bytes);
  const MutexLock lock(images.mutex);
  return images.expected.contains(digest);
}

int64_t ImagesLoaded() { return g_loaded.load(std::memory_order_relaxed); }

namespace {

using cuda::CUdeviceptr;
using cuda::CUstream;

std::atomic<int64_t> g_launches{0};

std::string Sizes(const std::vector<size_t>& sizes) { return Cat("[", Join(sizes, ", "), "]"); }

// Returns the maximum if the product overflows: a program may have any extents.
uint64_t CountOf(const unsigned int (&extents)[3]) {
  uint64_t count = extents[0];
  for (const unsigned int extent : {extents[1], extents[2]}) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::numeric_limits<uint64_t>::max();
  }
  return count;
}

}  // namespace

std::string LoadedKernel::Where() const {
  return Cat("callout: kernel '", call_.name, "' on device ", device_->ordinal());
}

Result<std::unique_ptr<const LoadedKernel>> LoadedKernel::Load(const ImageCall& call, const cuda::Driver& driver,
                                                               const cuda::Library& library, int ordinal) {
  CALLOUT_ASSIGN_OR_RETURN(auto device, cuda::Device::Retain(driver, ordinal));
  std::unique_ptr<LoadedKernel> kernel(new LoadedKernel(call, library, std::move(device)));
  cuda::ContextScope current(kernel->device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  CALLOUT_RETURN_IF_ERROR(kernel->Resolve());
  CALLOUT_RETURN_IF_ERROR(kernel->CheckParameters());
  CALLOUT_RETURN_IF_ERROR(kernel->CheckLaunch());
  return std::unique_ptr<const LoadedKernel>(std::move(kernel));
}

Status LoadedKernel::Resolve() {
  CALLOUT_RETURN_IF_ERROR(FindCode());
  if (!call_.faults.has_value()) return OkStatus();
  CALLOUT_ASSIGN_OR_RETURN(fault_code_, FindGlobal(call_.faults->symbol));
  if (fault_code_.bytes == sizeof(int32_t)) return OkStatus();
  return InvalidArgument(
      Cat(Where(), ": its global '", call_.faults->symbol, "' has ", fault_code_.bytes, " bytes, expected 4"));
}

Status LoadedKernel::FindCode() {
  const Result<cuda::CUkernel> kernel = FindKernel(device_->driver(), library_, call_.symbol);
  if (!kernel.ok()) return Explained(kernel.status(), device_->driver(), call_.bytes.c_str());
  const Result<cuda::CUfunction> function = FindFunction(*device_, *kernel, call_.symbol);
  if (!function.ok()) return Explained(function.status(), device_->driver(), call_.bytes.c_str());
  function_ = *function;
  return OkStatus();
}

Status LoadedKernel::CheckParameters() const {
  const Result<std::vector<cuda::Parameter>> found = Parameters(*device_, function_, call_.symbol);
  if (!found.ok()) {
    // Before CUDA 12.4 the driver does not report the parameters; they were compared with the image when the program
    // was traced.
    if (found.status().code() == StatusCode::kUnimplemented) return OkStatus();
    return found.status();
  }
  std::vector<size_t> sizes;
  for (const cuda::Parameter& parameter : *found) sizes.push_back(parameter.bytes);
  if (sizes == call_.parameter_bytes) return OkStatus();
  return FailedPrecondition(Where() + ": its image takes parameters of " + Sizes(sizes) +
                            " bytes, the program passes " + Sizes(call_.parameter_bytes) +
                            ": another calling convention than the one that it was traced for");
}

Status LoadedKernel::CheckLaunch() {
  const cuda::LaunchShape& shape = shape_;
  int most = 0;
  CALLOUT_RETURN_IF_ERROR(device_->Check(
      device_->driver().FuncGetAttribute(&most, cuda::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_),
      "cuFuncGetAttribute", "'" + call_.symbol + "'"));
  const uint64_t threads = CountOf(shape.block);
  if (threads > static_cast<uint64_t>(most)) {
    return InvalidArgument(
        Cat(Where(), ": blocks of ", threads, " threads, but with its registers it can have ", most, " at most"));
  }
  if (shape.shared_bytes > 0) {
    CALLOUT_RETURN_IF_ERROR(
        PermitSharedMemory(*device_, function_, static_cast<int>(shape.shared_bytes), call_.symbol));
  }
  CALLOUT_ASSIGN_OR_RETURN(const int64_t compiled, CompiledCluster(*device_, function_, call_.symbol));
  if (compiled > 1 && call_.fills_device) {
    return InvalidArgument(Cat(Where(),
                               ": a grid that fills the device has no clusters, and the kernel was compiled for ",
                               "clusters of ", compiled, " blocks"));
  }
  const uint64_t requested = CountOf(shape.cluster);
  const uint64_t blocks = requested != 0 ? requested : static_cast<uint64_t>(compiled);
  if (blocks != 0) CALLOUT_RETURN_IF_ERROR(CheckCluster(blocks));
  return shape.cooperative || call_.fills_device ? CheckCooperation(threads) : OkStatus();
}

Status LoadedKernel::CheckCluster(uint64_t blocks) const {
  CALLOUT_ASSIGN_OR_RETURN(const int can, device_->Attribute(cuda::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH));
  if (can == 0) {
    return FailedPrecondition(Where() +
                              ": the device has no clusters of blocks, which came with compute capability 9.0");
  }
  constexpr uint64_t kPortable = 8;  // CUDA C++ Programming Guide, Thread Block Clusters.
  return blocks <= kPortable ? OkStatus() : PermitLargeClusters(*device_, function_, call_.symbol);
}

Status LoadedKernel::CheckCooperation(uint64_t threads) {
  cuda::LaunchShape& shape = shape_;
  CALLOUT_ASSIGN_OR_RETURN(const int64_t at_once, MostCooperativeBlocks(*device_, function_, static_cast<int>(threads),
                                                                        shape.shared_bytes, call_.symbol));
  if (call_.fills_device && at_once > 0) {
    std::copy_n(std::array<unsigned int, 3>{static_cast<unsigned int>(at_once), 1, 1}.begin(), 3, shape.grid);
    return OkStatus();
  }
  const uint64_t blocks = CountOf(shape.grid);
  if (blocks <= static_cast<uint64_t>(at_once)) return OkStatus();
  if (at_once == 0) {
    return FailedPrecondition(Where() +
                              ": the device has no cooperative launches of such blocks, which the kernel needs");
  }
  return InvalidArgument(Cat(Where(), ": a cooperative launch of ", blocks, " blocks, but of ", threads,
                             " threads and ", shape.shared_bytes, " bytes of shared memory each, ", at_once,
                             " run at once at most"));
}

Status LoadedKernel::PutOperands(std::span<const CUdeviceptr> operands, char* block) const {
  const auto none = [&](size_t operand) {
    return InvalidArgument(
        Cat(Where(), ": a parameter is the address of operand ", operand, ", the call has ", operands.size()));
  };
  for (const AddressSlot& slot : call_.addresses) {
    if (slot.operand >= operands.size()) return none(slot.operand);
    std::memcpy(block + slot.position, &operands[slot.operand], sizeof(CUdeviceptr));
  }
  for (const TensorMapSlot& slot : call_.tensor_maps) {
    if (slot.operand >= operands.size()) return none(slot.operand);
    cuda::CUtensorMap map;
    CALLOUT_RETURN_IF_ERROR(EncodeTensorMap(*device_, slot.shape, operands[slot.operand], call_.name, map));
    std::memcpy(block + slot.position, &map, sizeof(map));
  }
  return OkStatus();
}

Status LoadedKernel::Launch(CUstream stream, std::span<const CUdeviceptr> operands) const {
  SmallBuffer<char, 512> block(call_.parameter_block.size());
  std::copy(call_.parameter_block.begin(), call_.parameter_block.end(), block.data());
  CALLOUT_RETURN_IF_ERROR(PutOperands(operands, block.data()));
  SmallBuffer<void*, 64> parameters(call_.parameter_bytes.size());
  size_t position = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = block.data() + position;
    position += call_.parameter_bytes[i];
  }
  g_launches.fetch_add(1, std::memory_order_relaxed);
  return cuda::Launch(*device_, function_, shape_, stream, parameters.data(), call_.name);
}

Status LoadedKernel::ClearFaults(CUstream stream) const {
  return FillWithZeros(*device_, stream, fault_code_.address, sizeof(int32_t), "'" + call_.name + "'");
}

Status LoadedKernel::Wait(CUstream stream) const {
  if (!call_.faults.has_value()) return cuda::Synchronize(*device_, stream);
  CALLOUT_ASSIGN_OR_RETURN(const int32_t code, Read(fault_code_, stream));
  return code == 0 ? OkStatus() : FaultStatus(code, stream);
}

Result<LoadedKernel::Global> LoadedKernel::FindGlobal(const std::string& symbol) const {
  Global global;
  CALLOUT_RETURN_IF_ERROR(
      device_->Check(device_->driver().LibraryGetGlobal(&global.address, &global.bytes, library_.get(), symbol.c_str()),
                     "cuLibraryGetGlobal", "'" + symbol + "'"));
  return global;
}

Result<int32_t> LoadedKernel::Read(const Global& global, CUstream stream) const {
  int32_t value = 0;
  const size_t bytes = std::min(global.bytes, sizeof(value));
  CALLOUT_RETURN_IF_ERROR(CopyToHost(*device_, stream, &value, global.address, bytes, call_.name));
  CALLOUT_RETURN_IF_ERROR(cuda::Synchronize(*device_, stream));
  return value;
}

Status LoadedKernel::FaultStatus(int32_t code, CUstream stream) const {
  const Faults& faults = *call_.faults;
  std::string place;
  for (size_t i = 0; i < faults.place.size(); ++i) {
    if (faults.place[i].empty()) continue;
    CALLOUT_ASSIGN_OR_RETURN(const Global place_of, FindGlobal(faults.place[i]));
    CALLOUT_ASSIGN_OR_RETURN(const int32_t at, Read(place_of, stream));
    place += Cat(i == 0 ? " in thread (" : i == 3 ? ") of block (" : ", ", at);
  }
  if (!place.empty()) place += ")";
  const auto known = faults.text.find(code);
  const std::string what = known != faults.text.end() ? known->second : Cat("exception ", code);
  return InternalError(Where() + " raised" + place + ": " + what);
}

Result<const LoadedKernel*> ImageKernel::On(int ordinal) {
  const MutexLock lock(mutex_);
  std::unique_ptr<const LoadedKernel>& kernel = loaded_[ordinal];
  if (kernel != nullptr) [[likely]]
    return kernel.get();
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
  if (library_ == nullptr) {
    CALLOUT_ASSIGN_OR_RETURN(library_, LoadImage(*driver, call_.bytes, call_.name));
  }
  CALLOUT_ASSIGN_OR_RETURN(kernel, LoadedKernel::Load(call_, *driver, library_->library, ordinal));
  return kernel.get();
}

int64_t ImageLaunches() { return g_launches.load(std::memory_order_relaxed); }

}  // namespace callout::internal
