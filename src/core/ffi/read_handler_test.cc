// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "core/handles/handle_table.h"
#include "core/handles/host_value.h"
#include "core/handles/stop_flag.h"
#include "testing/handler_conformance.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

template <typename Platform>
class ReadHandler : public Platform {
 protected:
  void SetUp() override {
    Platform::SetUp();
    for (XLA_FFI_Handler* handler : {&callout_v1_read_instantiate, &callout_v1_read_execute}) {
      ASSERT_THAT(this->runtime_.QueryMetadata(handler).status, IsOk());
    }
  }
  void TearDown() override {
    HandleTable::Get().Free(HandleTable::Get().retired().ever);
    Platform::TearDown();
  }

  static Handle Add(std::shared_ptr<HostObject> object) { return *HandleTable::Get().Add(std::move(object)); }
  static TestBuffer Words(std::vector<int64_t> dims, const std::vector<Handle>& handles) {
    std::vector<uint32_t> words(handles.size() * 4);
    std::memcpy(words.data(), handles.data(), words.size() * sizeof(uint32_t));
    return TestBuffer::Of<uint32_t>(std::move(dims), words);
  }
  static FrameBuilder Frame(HandleKind kind, int64_t devices = 1) {
    FrameBuilder frame;
    frame.Int64Attr("kind", static_cast<int64_t>(kind)).Int64Attr("devices", devices);
    return frame;
  }
  std::unique_ptr<FakeSite> NewSite() {
    return this->NewSiteOf(&callout_v1_read_instantiate, &callout_v1_read_execute, 0);
  }
  Status Run(FrameBuilder& frame) {
    const auto site = NewSite();
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }
};
using Runtimes = ::testing::Types<CpuPlatform<2>, CpuPlatform<3>, CpuPlatform<4>, CpuPlatform<5>>;
TYPED_TEST_SUITE(ReadHandler, Runtimes);

HostArray Floats(const std::vector<float>& values) {
  TestBuffer buffer = TestBuffer::Of<float>({static_cast<int64_t>(values.size())}, values);
  return HostArray::CopyOf(buffer.view());
}

TYPED_TEST(ReadHandler, FlagIsReadAsItIsNow) {
  const auto flag = std::make_shared<StopFlag>();
  const Handle handle = this->Add(flag);
  FrameBuilder frame = this->Frame(HandleKind::kStopFlag);
  frame.Arg(this->Words({4}, {handle})).Ret(DType::kBool, {});
  const auto site = this->NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(frame.ret(0).bytes(), ElementsAre(0));
  flag->Set();
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(frame.ret(0).bytes(), ElementsAre(1));
  HandleTable::Get().Retire(handle);
}

TYPED_TEST(ReadHandler, EachHandleOfABatchIsRead) {
  const Handle one = this->Add(std::make_shared<HostValue>(std::vector<HostArray>{Floats({1, 2})}));
  const Handle two = this->Add(std::make_shared<HostValue>(std::vector<HostArray>{Floats({3, 4})}));
  FrameBuilder frame = this->Frame(HandleKind::kHostValue);
  frame.Arg(this->Words({2, 4}, {one, two})).Ret(DType::kFloat32, {2, 2});
  ASSERT_THAT(this->Run(frame), IsOk());
  EXPECT_THAT(frame.ret(0).template values<float>(), ElementsAre(1, 2, 3, 4));
  HandleTable::Get().Retire(one);
  HandleTable::Get().Retire(two);
}

TYPED_TEST(ReadHandler, DevicesOfARunReadTheSame) {
  const auto flag = std::make_shared<StopFlag>();
  const Handle handle = this->Add(flag);
  FrameBuilder frame = this->Frame(HandleKind::kStopFlag, 2);
  frame.Arg(this->Words({4}, {handle})).Ret(DType::kBool, {});
  const auto site = this->NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const auto read = [&](int32_t device) {
    site->device_ordinal = device;
    EXPECT_THAT(site->Execute(frame), IsOk());
    return frame.ret(0).bytes()[0];
  };
  EXPECT_EQ(read(0), 0);
  flag->Set();
  EXPECT_EQ(read(1), 0) << "the first question was answered before";
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(0), 1);
  HandleTable::Get().Retire(handle);
}

TYPED_TEST(ReadHandler, ResultsMustFitTheObject) {
  const Handle handle = this->Add(std::make_shared<HostValue>(std::vector<HostArray>{Floats({1, 2})}));
  FrameBuilder other_size = this->Frame(HandleKind::kHostValue);
  other_size.Arg(this->Words({4}, {handle})).Ret(DType::kFloat32, {3});
  EXPECT_THAT(this->Run(other_size),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout.v1.read: array 0 of each of 1 objects is f32[2], and the result is f32[3]"));
  FrameBuilder none = this->Frame(HandleKind::kHostValue);
  none.Arg(this->Words({4}, {handle}));
  EXPECT_THAT(this->Run(none), StatusIs(StatusCode::kInvalidArgument, "callout.v1.read: expected 1 results, got 0"));
  HandleTable::Get().Retire(handle);
}

TYPED_TEST(ReadHandler, OperandMustBeHandles) {
  FrameBuilder no_operand = this->Frame(HandleKind::kStopFlag);
  EXPECT_THAT(this->Run(no_operand),
              StatusIs(StatusCode::kInvalidArgument, "callout.v1.read: expected handles, u32[...,4], got 0 operands"));
  FrameBuilder floats = this->Frame(HandleKind::kStopFlag);
  floats.Arg(TestBuffer::Of<float>({4}, {0, 0, 0, 0})).Ret(DType::kBool, {});
  EXPECT_THAT(this->Run(floats), StatusIs(StatusCode::kInvalidArgument, "got f32[4]"));
  FrameBuilder zeros = this->Frame(HandleKind::kStopFlag);
  zeros.Arg(TestBuffer::Of<uint32_t>({4}, {0, 0, 0, 0})).Ret(DType::kBool, {});
  EXPECT_THAT(this->Run(zeros), StatusIs(StatusCode::kFailedPrecondition, "its leaf is no handle of this process"));
}

}  // namespace
}  // namespace callout::internal
