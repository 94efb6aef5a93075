// SPDX-License-Identifier: Apache-2.0
#include <tuple>
#include <vector>

#include "testing/cuda_conformance.h"

namespace callout::internal::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kNoImage = "the image with these kernels is the double's";

class LaunchConformance : public DriverConformance {
 protected:
  CUfunction Find(const Library& library, const char* name) {
    return Take(FindFunction(device(), Take(FindKernel(driver(), library, name)), name));
  }
  /// Returns the error of the first use of an image: a driver may load any image.
  Status FirstUse(const char* image, const char* name) {
    const Result<Library> library = LoadLibrary(driver(), image, name);
    if (!library.ok()) return library.status();
    const Result<CUkernel> kernel = FindKernel(driver(), *library, name);
    return kernel.ok() ? OkStatus() : Explained(kernel.status(), driver(), image);
  }
  Status LaunchScale(CUfunction function, const LaunchShape& shape, const Stream& stream, CUdeviceptr data, float by,
                     uint32_t count) {
    void* parameters[] = {&data, &by, &count};
    return Launch(device(), function, shape, stream.get(), parameters, "scale");
  }
};

TEST_P(LaunchConformance, RunsEveryThreadWithTheParametersOfTheLaunch) {
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  constexpr uint32_t kCount = 100;
  const DeviceMemory memory = NewDeviceMemory(kCount * sizeof(float));
  const std::vector<float> ones(kCount, 1.0F);
  std::vector<float> got(kCount);
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get(), ones.data(), kCount * sizeof(float), stream.get()), CUDA_SUCCESS);
  if (fake() != nullptr) fake()->hold();
  CUdeviceptr data = memory.get();
  float by = 3;
  uint32_t count = kCount - 1;
  void* parameters[] = {&data, &by, &count};
  const LaunchShape shape{.grid = {4, 1, 1}, .block = {32, 1, 1}};
  EXPECT_THAT(Launch(device(), Find(library, "scale"), shape, stream.get(), parameters, "scale"), IsOk());
  data = 0;
  by = 0;
  count = 0;
  if (fake() != nullptr) fake()->release();
  EXPECT_EQ(driver().MemcpyDtoHAsync(got.data(), memory.get(), kCount * sizeof(float), stream.get()), CUDA_SUCCESS);
  EXPECT_THAT(Synchronize(device(), stream.get()), IsOk());
  for (uint32_t i = 0; i + 1 < kCount; ++i) EXPECT_EQ(got[i], 3.0F) << i;
  EXPECT_EQ(got.back(), 1.0F);
}

TEST_P(LaunchConformance, KnowsWhereEachThreadIs) {
  CALLOUT_NEEDS_DOUBLE(kNoImage);
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  const LaunchShape shape{.grid = {2, 3, 2}, .block = {4, 2, 3}};
  std::vector<uint64_t> got(8 * 6 * 6);
  const DeviceMemory memory = NewDeviceMemory(got.size() * sizeof(uint64_t));
  CUdeviceptr out = memory.get();
  void* parameters[] = {&out};
  EXPECT_THAT(Launch(device(), Find(library, "coordinates"), shape, stream.get(), parameters, "coordinates"), IsOk());
  EXPECT_EQ(driver().MemcpyDtoHAsync(got.data(), out, got.size() * sizeof(uint64_t), stream.get()), CUDA_SUCCESS);
  for (uint64_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], (i / 48) << 16 | (i / 8 % 6) << 8 | i % 8);
}

TEST_P(LaunchConformance, RefusesWrongPtxWithTheWordsOfTheCompiler) {
  constexpr char kWrong[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry wrong() { frobnicate; ret; }\n";
  constexpr char kNewer[] = ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry newer() { ret; }\n";
  for (const auto& [image, name, words] :
       {std::tuple(kWrong, "wrong", "frobnicate"), std::tuple(kNewer, "newer", "SM version")}) {
    EXPECT_THAT(FirstUse(image, name),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(" of '" + std::string(name) + "' failed: CUDA_ERROR_INVALID_PTX (218)"),
                               HasSubstr("The driver's compiler says: "), HasSubstr(words))));
  }
}

TEST_P(LaunchConformance, TellsItsParameters) {
  const Library library = NewLibrary();
  const auto parameters = Take(Parameters(device(), Find(library, "scale"), "scale"));
  ASSERT_EQ(parameters.size(), 3U);
  EXPECT_EQ(parameters[1].offset, 8U);
  EXPECT_EQ(parameters[1].bytes, 4U);
  EXPECT_EQ(parameters[2].offset, 12U);
}

TEST_P(LaunchConformance, RefusesShapesThatNoDeviceHas) {
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(64);
  CUfunction scale = Find(library, "scale");
  const LaunchShape wrong[] = {
      {.grid = {0, 1, 1}},     {.block = {0, 1, 1}},    {.block = {1025, 1, 1}}, {.block = {32, 33, 1}},
      {.grid = {1, 65536, 1}}, {.grid = {1, 1, 65536}}, {.block = {1, 1, 65}},
  };
  for (const LaunchShape& shape : wrong) {
    EXPECT_THAT(LaunchScale(scale, shape, stream, memory.get(), 1, 1),
                StatusIs(StatusCode::kInvalidArgument,
                         "cuLaunchKernel of 'scale' on device 0 failed: CUDA_ERROR_INVALID_VALUE (1)"));
  }
}

TEST_P(LaunchConformance, RefusesWhatAKernelOrADeviceCannotRun) {
  CALLOUT_NEEDS_DOUBLE(kNoImage);
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(64);
  CUfunction scale = Find(library, "scale");
  CUdeviceptr out = memory.get();
  void* parameters[] = {&out};
  EXPECT_THAT(Launch(device(), Find(library, "small_blocks"), {.block = {65, 1, 1}}, stream.get(), parameters, "small"),
              StatusIs(StatusCode::kResourceExhausted, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"));
  EXPECT_THAT(Launch(device(), scale, {.grid = {1000, 1, 1}, .cooperative = true}, stream.get(), parameters, "scale"),
              StatusIs(StatusCode::kInvalidArgument, "cuLaunchCooperativeKernel of 'scale' on device 0"));
}

TEST_P(LaunchConformance, GivesMoreSharedMemoryToThoseWhoAsked) {
  CALLOUT_NEEDS_DOUBLE(kNoImage);
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(sizeof(float));
  CUfunction function = Find(library, "sum_shared");
  CUdeviceptr out = memory.get();
  void* parameters[] = {&out};
  const LaunchShape shape{.shared_bytes = 48 * 1024};
  EXPECT_THAT(Launch(device(), function, shape, stream.get(), parameters, "sum_shared"),
              StatusIs(StatusCode::kInvalidArgument, "(1)"))
      << "it has 1 KB of its own";
  EXPECT_THAT(PermitSharedMemory(device(), function, 300 << 10, "sum_shared"),
              StatusIs(StatusCode::kInvalidArgument,
                       "cuFuncSetAttribute of 'sum_shared' for 307200 bytes of shared memory on device 0 failed"));
  EXPECT_THAT(PermitSharedMemory(device(), function, 48 << 10, "sum_shared"), IsOk());
  EXPECT_THAT(Launch(device(), function, shape, stream.get(), parameters, "sum_shared"), IsOk());
  float got = 0;
  EXPECT_EQ(driver().MemcpyDtoHAsync(&got, out, sizeof(got), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(got, 48 * 1024);
}

TEST_P(LaunchConformance, IsReplayedWithWhatItWasRecordedWith) {
  const Library library = NewLibrary();
  CUfunction scale = Find(library, "scale");
  const Stream stream = NewStream();
  const DeviceMemory memory = NewDeviceMemory(sizeof(float));
  const float one = 1;
  EXPECT_EQ(driver().MemcpyHtoDAsync(memory.get(), &one, sizeof(one), stream.get()), CUDA_SUCCESS);
  StreamCapture capture = Take(StreamCapture::Begin(device(), stream.get()));
  EXPECT_THAT(LaunchScale(scale, {}, stream, memory.get(), 2, 1), IsOk());
  const Graph graph = Take(capture.End());
  const GraphExec executable = Take(Instantiate(device(), graph));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Launch(device(), executable, stream.get()), IsOk());
  float got = 0;
  EXPECT_EQ(driver().MemcpyDtoHAsync(&got, memory.get(), sizeof(got), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(got, 8);
  if (fake() != nullptr) {
    EXPECT_EQ(fake()->calls("cuLaunchKernel"), 1);
  }
}

TEST_P(LaunchConformance, AFaultStaysAndNothingRunsBehindIt) {
  CALLOUT_NEEDS_DOUBLE("a GPU's context is of no use to later tests");
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  int count = 0;
  EXPECT_THAT(Launch(device(), Find(library, "fault"), {}, stream.get(), nullptr, "fault"), IsOk());
  static_cast<void>(
      driver().LaunchHostFunc(stream.get(), [](void* counter) { ++*static_cast<int*>(counter); }, &count));
  EXPECT_THAT(Synchronize(device(), stream.get()),
              StatusIs(StatusCode::kInternal, ::testing::StrEq("cuStreamSynchronize on device 0 failed: "
                                                               "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory "
                                                               "access was encountered")));
  EXPECT_THAT(AllocateDevice(device(), 1), StatusIs(StatusCode::kInternal, "(700)"));
  EXPECT_EQ(count, 0);
}

TEST_P(LaunchConformance, GlobalsAreReadBack) {
  CALLOUT_NEEDS_DOUBLE(kNoImage);
  const Library library = NewLibrary();
  const Stream stream = NewStream();
  EXPECT_THAT(Launch(device(), Find(library, "raise_error"), {}, stream.get(), nullptr, "raise_error"), IsOk());
  CUdeviceptr address = 0;
  size_t bytes = 0;
  EXPECT_EQ(driver().LibraryGetGlobal(&address, &bytes, library.get(), "error_code"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4U);
  int32_t code = 0;
  EXPECT_EQ(driver().MemcpyDtoHAsync(&code, address, sizeof(code), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(code, 17);
  EXPECT_EQ(driver().LibraryGetGlobal(&address, &bytes, library.get(), "none"), CUDA_ERROR_NOT_FOUND);
}

TEST_P(LaunchConformance, ImagesAndNamesThatAreNoneAreRefused) {
  const char text[256] = "this is no image";
  EXPECT_THAT(FirstUse(text, "text"), StatusIs(StatusCode::kInvalidArgument, "CUDA_ERROR_INVALID_IMAGE (200)"));
  const Library library = NewLibrary();
  EXPECT_THAT(FindKernel(driver(), library, "no_such"),
              StatusIs(StatusCode::kNotFound,
                       ::testing::StrEq("cuLibraryGetKernel of 'no_such' failed: CUDA_ERROR_NOT_FOUND (500): named "
                                        "symbol not found")));
}

CALLOUT_CUDA_CONFORMANCE(LaunchConformance);

}  // namespace
}  // namespace callout::internal::cuda
