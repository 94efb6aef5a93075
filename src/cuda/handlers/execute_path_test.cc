// SPDX-License-Identifier: Apache-2.0
//
// Tests which driver functions are called by threads that launch programs, and by threads that drop programs. A call
// that may wait for other devices could deadlock there, so memory is pinned and code is loaded before programs run, and
// the reaper destroys objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "testing/buffer_site_fixture.h"
#include "testing/cuda_call_fixture.h"

namespace callout::internal {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSubsetOf;

// Returns the names of the calls that this thread has made since `before`, an earlier thread_log().
std::set<std::string> CallsSince(const SoftwareGpuControl& fake, const std::string& before) {
  std::set<std::string> calls;
  std::istringstream log(std::string(fake.thread_log()).substr(before.size()));
  for (std::string line; std::getline(log, line);) calls.insert(line.substr(0, line.find('(')));
  return calls;
}

// These functions wait for nothing but the program's own stream, and only where their names say so.
const std::set<std::string> kHarmless = {
    "cuCtxGetCurrent",      "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync",
    "cuMemcpyDtoDAsync",    "cuEventRecord",     "cuEventSynchronize",
    "cuStreamWriteValue32", "cuStreamWaitEvent", "cuThreadExchangeStreamCaptureMode"};

class CudaExecutePathTest : public CudaCallTest {
 protected:
  void SetUp() override {
    CudaCallTest::SetUp();
    current_.emplace(device());  // XLA's threads have a current context, too.
  }
  void TearDown() override {
    current_.reset();
    CudaCallTest::TearDown();
  }

 private:
  std::optional<cuda::ContextScope> current_;
};

TEST_F(CudaExecutePathTest, CallsQueueCopiesAndWritesAndPinNothing) {
  auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer in = OnDevice({2}, {1, 2}), out = OnDevice({2}, {0, 0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_call_initialize), IsOk());
  for (int run = 0; run < 3; ++run) {
    const std::string before = fake()->thread_log();
    ASSERT_THAT(site->Execute(frame), IsOk());
    EXPECT_THAT(CallsSince(*fake(), before), IsSubsetOf(kHarmless));
  }
  const std::string before = fake()->thread_log();
  ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_call_initialize), IsOk());
  EXPECT_THAT(CallsSince(*fake(), before), IsEmpty()) << "all is ready";
  site.reset();
  EXPECT_THAT(CallsSince(*fake(), before), IsEmpty());
}

TEST_F(CudaExecutePathTest, ThreadedCallsPinNothing) {
  auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer token = OnDevice<uint32_t>({}, {1}), passed = OnDevice<uint32_t>({}, {0});
  TestBuffer in = OnDevice({1024}, std::vector<float>(1024)), out = OnDevice({1024}, std::vector<float>(1024));
  frame.Int64Attr("threaded", 1).Arg(token).Arg(in).Ret(passed).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_call_initialize), IsOk());
  const std::string before = fake()->thread_log();
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(CallsSince(*fake(), before), IsSubsetOf(kHarmless));
}

TEST_F(CudaExecutePathTest, ChecksPinNothing) {
  const auto site = NewCheckSite();
  FrameBuilder frame = Frame();
  frame.Arg(OnDevice<int32_t>({}, {0}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_cuda_check_initialize), IsOk());
  const std::string before = fake()->thread_log();
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(CallsSince(*fake(), before), IsSubsetOf(kHarmless));
}

TEST_F(CudaExecutePathTest, MemoryThatCannotBePinnedIsToldByTheCallThatNeedsIt) {
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  TestBuffer in = OnDevice({1}, {1}), out = OnDevice({1}, {0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int nth = 1; nth <= 4; ++nth) fake()->fail("cuMemHostAlloc", nth, cuda::CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(site->Initialize(frame, &callout_v1_cuda_call_initialize), IsOk()) << "the program may not get there";
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kResourceExhausted, "no pinned memory for the 512 bytes"));
}

class CudaDropTest : public BufferSiteTest {};

TEST_F(CudaDropTest, LibrariesAreUnloadedByTheReaper) {
  auto site = NewSite();
  TestBuffer data = OnDevice({2}, {1, 2});
  FrameBuilder frame = ScaleFrame(2, 2, 0);
  frame.Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_image_initialize), IsOk());
  std::string before;
  {
    const cuda::ContextScope current(device());
    before = fake()->thread_log();
    ASSERT_THAT(site->Execute(frame), IsOk());
    EXPECT_THAT(CallsSince(*fake(), before), IsSubsetOf({"cuCtxGetCurrent", "cuLaunchKernel"}));
  }
  ASSERT_THAT(Synchronize(device(), stream()), IsOk());
  before = fake()->thread_log();
  site.reset();
  EXPECT_THAT(CallsSince(*fake(), before), IsEmpty());
  EXPECT_EQ(Live(kSoftwareGpuLibrary), 0);
}

TEST_F(CudaDropTest, GraphsAreDestroyedByTheReaper) {
  const auto callback = Bind();
  callback->on_call = [&](const callout_call& call) { return CopyOver(call); };
  auto site = NewBufferSite();
  TestBuffer in = OnDevice({1}, {1}), out = OnDevice({1}, {0});
  FrameBuilder frame = BufferFrame();
  frame.Int64Attr("graph", 1).Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int run = 0; run < 3; ++run) ASSERT_THAT(site->Execute(frame), IsOk());
  ASSERT_THAT(Synchronize(device(), stream()), IsOk());
  ASSERT_EQ(Live(kSoftwareGpuGraphExec), 1);
  const std::string before = fake()->thread_log();
  site.reset();
  EXPECT_THAT(CallsSince(*fake(), before), IsEmpty());
  EXPECT_EQ(Live(kSoftwareGpuGraphExec), 0);
}

}  // namespace
}  // namespace callout::internal
