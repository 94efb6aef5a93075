// SPDX-License-Identifier: Apache-2.0
//
// Makes every wrapped driver call fail once: the error names the call, and nothing leaks.
#include <thread>

#include "cuda/driver/kernel.h"
#include "testing/cuda_conformance.h"

namespace callout::internal::cuda {
namespace {

/// Runs on the software GPU only. The fixture checks that nothing leaks.
class FailuresTest : public DriverConformance {
 protected:
  /// Calls all wrapping functions, until the first error.
  Status UseEverything() {
    CALLOUT_RETURN_IF_ERROR(driver().Initialize());
    CALLOUT_RETURN_IF_ERROR(DeviceCount(driver()).status());
    CALLOUT_RETURN_IF_ERROR(DescribeDevice(driver(), 0).status());
    CALLOUT_ASSIGN_OR_RETURN(const auto device, Device::Retain(driver(), 0));
    CALLOUT_RETURN_IF_ERROR(device->Attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE).status());
    CUcontext popped = nullptr;
    static_cast<void>(driver().CtxPopCurrent(&popped));
    Status status = UseDevice(*device);
    static_cast<void>(driver().CtxPushCurrent(popped));
    return status;
  }

 private:
  static Status UseDevice(const Device& device) {
    const Driver& driver = device.driver();
    CALLOUT_ASSIGN_OR_RETURN(const Stream stream, CreateStream(device));
    CALLOUT_ASSIGN_OR_RETURN(const Event event, CreateEvent(device));
    CALLOUT_ASSIGN_OR_RETURN(const DeviceMemory memory, AllocateDevice(device, 64));
    CALLOUT_ASSIGN_OR_RETURN(const PinnedMemory pinned, AllocatePinned(device, 64));
    CALLOUT_ASSIGN_OR_RETURN(const std::string image, ReadFile(CALLOUT_SOFTWARE_GPU_IMAGE, "image"));
    CALLOUT_ASSIGN_OR_RETURN(const Library library, LoadLibrary(driver, image.data(), "kernels.image"));
    CALLOUT_ASSIGN_OR_RETURN(const CUkernel kernel, FindKernel(driver, library, "coordinates"));
    CALLOUT_ASSIGN_OR_RETURN(const CUfunction function, FindFunction(device, kernel, "coordinates"));
    CALLOUT_RETURN_IF_ERROR(Parameters(device, function, "coordinates").status());
    CALLOUT_RETURN_IF_ERROR(PermitSharedMemory(device, function, 64 << 10, "coordinates"));
    ContextScope scope(device);
    CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
    CUdeviceptr out = memory.get();
    void* parameters[] = {&out};
    CALLOUT_RETURN_IF_ERROR(Launch(device, function, {}, stream.get(), parameters, "coordinates"));
    CALLOUT_RETURN_IF_ERROR(Launch(device, function, {.cooperative = true}, stream.get(), parameters, "coordinates"));
    const LaunchShape extended = {.cluster = {1, 1, 1}};
    CALLOUT_RETURN_IF_ERROR(Launch(device, function, extended, stream.get(), parameters, "coordinates"));
    CALLOUT_RETURN_IF_ERROR(CompiledCluster(device, function, "coordinates").status());
    CALLOUT_RETURN_IF_ERROR(PermitLargeClusters(device, function, "coordinates"));
    const TensorMapShape row = {.type = 7, .dims = {16}, .box = {16}, .element_strides = {1}};
    CUtensorMap map;
    CALLOUT_RETURN_IF_ERROR(EncodeTensorMap(device, row, out, "coordinates", map));
    CALLOUT_RETURN_IF_ERROR(UseGraphs(device, stream, function, parameters));
    return Synchronize(device, stream.get());
  }

  static Status UseGraphs(const Device& device, const Stream& stream, CUfunction function, void** parameters) {
    CALLOUT_RETURN_IF_ERROR(IsCapturing(device, stream.get()).status());
    CALLOUT_ASSIGN_OR_RETURN(StreamCapture capture, StreamCapture::Begin(device, stream.get()));
    CALLOUT_RETURN_IF_ERROR(Launch(device, function, {}, stream.get(), parameters, "coordinates"));
    CALLOUT_ASSIGN_OR_RETURN(const Graph graph, capture.End());
    CALLOUT_ASSIGN_OR_RETURN(const GraphExec executable, Instantiate(device, graph));
    CALLOUT_RETURN_IF_ERROR(Update(device, executable, graph));
    return Launch(device, executable, stream.get());
  }
};

TEST_P(FailuresTest, NothingFailsWhenNothingIsScripted) { EXPECT_THAT(UseEverything(), IsOk()); }

TEST_P(FailuresTest, OfEveryWrappedCallAreClearAndLeaveNothingBehind) {
  constexpr const char* kFunctions[] = {"cuInit",
                                        "cuDeviceGetCount",
                                        "cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDeviceGetPCIBusId",
                                        "cuDeviceGetAttribute",
                                        "cuDeviceTotalMem",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxGetCurrent",
                                        "cuCtxPushCurrent",
                                        "cuStreamCreate",
                                        "cuEventCreate",
                                        "cuMemAlloc",
                                        "cuMemHostAlloc",
                                        "cuLibraryLoadData",
                                        "cuLibraryGetKernel",
                                        "cuKernelGetFunction",
                                        "cuFuncLoad",
                                        "cuFuncGetParamInfo",
                                        "cuFuncSetAttribute",
                                        "cuLaunchKernel",
                                        "cuLaunchCooperativeKernel",
                                        "cuLaunchKernelEx",
                                        "cuTensorMapEncodeTiled",
                                        "cuStreamGetCaptureInfo",
                                        "cuStreamBeginCapture",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphExecUpdate",
                                        "cuGraphLaunch",
                                        "cuStreamSynchronize"};
  for (const char* function : kFunctions) {
    Reaper::Get().Flush();  // Afterwards, the next call is the test's own.
    fake()->fail(function, 1, CUDA_ERROR_UNKNOWN);
    EXPECT_THAT(UseEverything(), StatusIs(StatusCode::kInternal, std::string(function))) << function;
    EXPECT_THAT(UseEverything(), IsOk()) << "after " << function;
  }
}

TEST_P(FailuresTest, InsideOfARecordingEndIt) {
  fake()->fail("cuLaunchKernel", 2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(UseEverything(), StatusIs(StatusCode::kResourceExhausted, "cuLaunchKernel of 'coordinates' on device 0"));
  EXPECT_EQ(Live(kSoftwareGpuGraph), 0);
  EXPECT_EQ(fake()->calls("cuStreamEndCapture"), 1);
}

TEST_P(FailuresTest, ThatStayFailEverythingAfter) {
  fake()->fail("cuLaunchKernel", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(UseEverything(), StatusIs(StatusCode::kInternal, "(700)"));
  EXPECT_THAT(UseEverything(), StatusIs(StatusCode::kInternal,
                                        "cuStreamCreate on device 0 failed: "
                                        "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

INSTANTIATE_TEST_SUITE_P(Double, FailuresTest, ::testing::Values(Subject::kDouble), SubjectName);

class HandleTest : public DriverConformance {};

TEST_P(HandleTest, AreMovedAndDestroyedOnce) {
  Stream empty;
  EXPECT_FALSE(empty);
  empty.Reset();
  Stream first = NewStream();
  CUstream raw = first.get();
  Stream second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the test is about the moved-from handle.
  EXPECT_EQ(second.get(), raw);
  Stream& same = second;
  second = std::move(same);
  EXPECT_EQ(second.get(), raw);
  EXPECT_EQ(fake()->calls("cuStreamDestroy"), 0);
  second = NewStream();
  Reaper::Get().Flush();
  EXPECT_EQ(fake()->calls("cuStreamDestroy"), 1) << "what it held before";
  second.Reset();
  second.Reset();
  Reaper::Get().Flush();
  EXPECT_EQ(fake()->calls("cuStreamDestroy"), 2);
}

TEST_P(HandleTest, LeaveTheDriverAloneOnceTheProcessExits) {
  Stream stream = NewStream();
  CUstream raw = stream.get();
  SetProcessIsExiting(true);
  stream.Reset();
  SetProcessIsExiting(false);
  Reaper::Get().Flush();
  EXPECT_EQ(fake()->calls("cuStreamDestroy"), 0);
  const Stream again(device(), raw);
}

using HandleDeathTest = HandleTest;

TEST_P(HandleDeathTest, LeaveTheDriverAloneInAForkedChild) {
  Stream stream = NewStream();
  const auto destroy = [&] {
    stream.Reset();
    std::_Exit(fake()->calls("cuStreamDestroy"));
  };
  EXPECT_EXIT(destroy(), ::testing::ExitedWithCode(0), "");
}

TEST_P(HandleTest, AreDestroyedInTheirContextByAnyThread) {
  Stream stream = NewStream();
  std::thread([moved = std::move(stream)]() mutable { moved.Reset(); }).join();
  EXPECT_EQ(Live(kSoftwareGpuStream), 0);
}

INSTANTIATE_TEST_SUITE_P(Double, HandleDeathTest, ::testing::Values(Subject::kDouble), SubjectName);
INSTANTIATE_TEST_SUITE_P(Double, HandleTest, ::testing::Values(Subject::kDouble), SubjectName);

}  // namespace
}  // namespace callout::internal::cuda
