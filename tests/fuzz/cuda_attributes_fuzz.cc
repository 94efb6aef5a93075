// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes call sites of programs on CUDA with the double of the driver, as attributes_fuzz.cc does on a CPU. A host that
// touches a device's memory faults there. Kernels do nothing: a program's own code may do anything.
#include <cstdlib>

#include "call_sites.h"
#include "core/base/file_io.h"
#include "cuda/driver/resources.h"
#include "cuda/kernels/image_kernel.h"
#include "testing/load_software_gpu.h"

namespace callout::fuzz {
namespace {

using namespace internal;  // half of these names are the driver's

constexpr size_t kMostOperands = 4;
constexpr size_t kOperandBytes = 1 << 10;  // the bytes of 64 complex128

int Nothing(const SoftwareGpuLaunch* /*launch*/, void** /*parameters*/) { return 0; }

// A callback that understands a device's memory.
class OnDevice final : public FakeCallback {
 public:
  explicit OnDevice(const cuda::Device& device) : FakeCallback("device") {
    on_call = [&device](const callout_call& call) {
      for (uint32_t i = 0; i < std::min(call.num_args, call.num_results) && call.stream != nullptr; ++i) {
        const size_t bytes = std::min(call.args[i].size_bytes, call.results[i].size_bytes);
        CALLOUT_RETURN_IF_ERROR(cuda::CopyOnDevice(device, static_cast<cuda::CUstream>(call.stream),
                                                   cuda::AddressOf(call.results[i].data),
                                                   cuda::AddressOf(call.args[i].data), bytes, "the target"));
      }
      return call.num_args == 3 ? InternalError("three operands") : OkStatus();
    };
  }
  bool takes_device_memory() const override { return true; }
};

// One device, its stream, and memory for the operands of one call.
struct Gpu {
  const FakeRuntime& runtime = FakeRuntime::ForMinor(4);
  std::unique_ptr<const cuda::Device> device;
  cuda::Stream stream;
  cuda::DeviceMemory memory;
  std::shared_ptr<const ImageLibrary> image;  // kept alive: the double never closes the files of unloaded images
  Values::Known known = KnownValues();

  Gpu() {
    setenv("CALLOUT_CUDA_DRIVER", CALLOUT_SOFTWARE_GPU, 1);
    const SoftwareGpuControl* const control = FindSoftwareGpu(CALLOUT_SOFTWARE_GPU);
    CALLOUT_CHECK(control != nullptr, "the double is there");
    const auto driver = cuda::Driver::Get();
    CALLOUT_CHECK(driver.ok(), "the double is a driver");
    device = std::move(cuda::Device::Retain(**driver, 0)).value();
    stream = std::move(cuda::CreateStream(*device)).value();
    memory = std::move(cuda::AllocateDevice(*device, 2 * kMostOperands * kOperandBytes)).value();
    BindKernels(*control);
    RegisterCallbacks();
    CALLOUT_CHECK(Registry::Get().Register("device", std::make_shared<OnDevice>(*device), false).ok(), "free");
    known.texts["callback"].insert(known.texts["callback"].end(), {"device", "device", "device"});
    const std::string bytes = *ReadFile(CALLOUT_SOFTWARE_GPU_IMAGE, "image");
    image = LoadImage(**driver, bytes, "image").value();
    known.texts["bytes"] = {bytes, ".version 7.8\n", "none"};
    known.texts["symbol"] = {"empty", "nothing", "boxes", "raise_error", "error_code", "missing"};
    known.texts["parameter_block"] = {std::string(16, '\0'), std::string(136, '\0'), "", "12345678"};
    known.lists["grid"] = known.lists["block"] = {{1, 1, 1}, {2, 1, 1}, {0, 1, 1}};
    known.lists["cluster"] = {{1, 1, 1}, {2, 1, 1}};
    known.lists["parameter_bytes"] = {{8, 4, 4}, {8, 128}, {}};
    known.lists["pointers"] = {{0, 0}, {0, 1}, {0, 0, 8, 1}};
    known.lists["tensor_maps"] = {{8, 0, 7, 2, 4, 3, 1, 1, 1, 16, 0, 0, 0, 0, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
                                  {8, 1, 7, 1, 4, 1, 1, 1, 1, 0, 0, 0, 0, 0, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}};
  }

  static void BindKernels(const SoftwareGpuControl& control) {
    static constexpr size_t kNumbers[] = {8, 4, 4};
    static constexpr size_t kMap[] = {8, 128};
    static constexpr SoftwareGpuKernel kKernels[] = {{"empty", &Nothing, 0, nullptr, 0, 0},
                                                     {"nothing", &Nothing, 3, kNumbers, 0, 0},
                                                     {"boxes", &Nothing, 2, kMap, 0, 0}};
    static constexpr SoftwareGpuGlobal kGlobal = {"error_code", 4};
    for (const SoftwareGpuKernel& kernel : kKernels) control.bind(&kernel);
    control.bind_global(&kGlobal);
  }

  // Returns a buffer of random extents and type, in the memory of operand `number`.
  TestBuffer Operand(size_t number, FuzzedDataProvider& data) const {
    TestBuffer like = AnyBuffer(data);
    const uintptr_t at = static_cast<uintptr_t>(memory.get()) + number * kOperandBytes;
    return TestBuffer::At(like.dtype(), like.dims(), reinterpret_cast<void*>(at));
  }

  void Fill(FuzzedDataProvider& data) const {
    std::vector<uint8_t> bytes = data.ConsumeBytes<uint8_t>(64);
    bytes.resize(2 * kMostOperands * kOperandBytes);
    const cuda::ContextScope current(*device);
    CALLOUT_CHECK(device->driver().MemcpyHtoDAsync(memory.get(), bytes.data(), bytes.size(), stream.get()) == 0,
                  "copy");
    CALLOUT_CHECK(cuda::Synchronize(*device, stream.get()).ok(), "the device is well");
  }
};

void Execute(const Gpu& gpu, const Subject& subject, const XLA_FFI_Attrs& attrs, FrameBuilder& frame) {
  FakeSite site(gpu.runtime, subject.instantiate, subject.execute);
  site.stream = gpu.stream.get();
  if (subject.instantiate != nullptr && !site.Instantiate(frame).ok()) return;
  for (const char* extents : {"lane_dims", "grid", "block"}) {
    if (!IsSmall(NumbersOf(attrs, extents))) return;
  }
  if (subject.initialize != nullptr && !site.Initialize(frame, subject.initialize).ok()) return;
  for (int runs = 0; runs < 2; ++runs) (void)site.Execute(frame);  // the second run may replay a recorded one
  CALLOUT_CHECK(cuda::Synchronize(*gpu.device, gpu.stream.get()).ok(), "the device is well");
}

}  // namespace

void Try(std::string_view bytes) {
  static const Gpu& gpu = *new Gpu;
  static const std::vector<Subject> subjects = SubjectsOn("cuda", gpu.runtime);
  FuzzedDataProvider data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const Subject& subject = subjects[data.ConsumeIntegralInRange<size_t>(0, subjects.size() - 1)];
  Values values(data, gpu.known);
  const XLA_FFI_Attrs attrs = values.Of(subject.attributes);
  FrameBuilder frame;
  AddAttributes(attrs, frame);
  const auto args = data.ConsumeIntegralInRange<size_t>(0, kMostOperands);
  const auto results = data.ConsumeIntegralInRange<size_t>(0, kMostOperands);
  for (size_t i = 0; i < args; ++i) frame.Arg(gpu.Operand(i, data));
  for (size_t i = 0; i < results; ++i) frame.Ret(gpu.Operand(kMostOperands + i, data));
  gpu.Fill(data);
  Execute(gpu, subject, attrs, frame);
  CheckNothingIsLeft();
}

}  // namespace callout::fuzz
