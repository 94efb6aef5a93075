// SPDX-License-Identifier: Apache-2.0
//
// Tests arrays of the host that devices share, memories, copies, and DLPack tensors, on the CPU plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <future>

#include "callout/pjrt/executable.h"
#include "core/frame/dlpack_abi.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::IsOkAndHolds;
using internal::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kShared = 1024;

// The result takes over the argument's memory.
constexpr char kDoubles[] =
    "module @doubles { func.func public @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32})\n"
    "    -> tensor<1024xf32> {\n"
    "%0 = stablehlo.add %a, %a : tensor<1024xf32>\nreturn %0 : tensor<1024xf32> } }";

class BufferSourcesTest : public internal::OneCpuClientTest {
 protected:
  // Returns memory with the alignment that devices need to share it. Its end, on any thread, sets `is_dropped`.
  static std::shared_ptr<float> Aligned(std::atomic<bool>& is_dropped, float value = 1) {
    auto* const values = static_cast<float*>(std::aligned_alloc(64, kShared * sizeof(float)));
    std::fill_n(values, kShared, value);
    return {values, [&is_dropped](float* each) {
              std::free(each);
              is_dropped = true;
              is_dropped.notify_all();
            }};
  }
  const Device& device(size_t i = 0) const { return client_->devices()[i]; }
  Result<Buffer> Share(std::shared_ptr<float> values) const {
    const int64_t dims[] = {static_cast<int64_t>(kShared)};
    return Buffer::FromHostShared(client_, device(), DType::kFloat32, dims, std::move(values));
  }
  Buffer Four(size_t on = 0) const {
    const std::vector<int64_t> dims = {2, 2};
    return Buffer::FromHost(client_, device(on), dims, std::vector<float>{1, 2, 3, 4}).value();
  }
};

TEST_F(BufferSourcesTest, SharedArraysAreNotCopiedAndKeptUntilNobodyReadsThem) {
  std::atomic<bool> is_dropped{false};
  {
    auto values = Aligned(is_dropped);
    const float* const data = values.get();
    auto buffer = Share(std::move(values));
    ASSERT_THAT(buffer, IsOk());
    const auto view = buffer->View<float>();
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->values().data(), data);
    EXPECT_FALSE(is_dropped);
  }
  is_dropped.wait(false);
}

TEST_F(BufferSourcesTest, ProgramsNeverOverwriteSharedArrays) {
  const auto executable = Compiler(client_).Compile({kDoubles}).value();
  std::atomic<bool> is_dropped{false};
  auto values = Aligned(is_dropped, 3);
  const Buffer x = Share(values).value();
  const auto outputs = executable.Run({&x}, {.donated_inputs = {0}});
  ASSERT_THAT(outputs, IsOk());
  EXPECT_EQ(outputs->at(0).ToVector<float>()->back(), 6);
  EXPECT_EQ(values.get()[0], 3);
}

TEST_F(BufferSourcesTest, WhatIsNoArrayIsDropped) {
  std::atomic<bool> is_dropped{false};
  const int64_t dims[] = {-1};
  EXPECT_THAT(Buffer::FromHostShared(client_, device(), DType::kFloat32, dims, Aligned(is_dropped)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("f32[-1]")));
  is_dropped.wait(false);
}

TEST_F(BufferSourcesTest, ArraysAreMadeAndCopiedInEachMemory) {
  ASSERT_FALSE(device(1).memories.empty());
  const float values[] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  for (const Memory& memory : device(1).memories) {
    const auto made = Buffer::FromHost(client_, memory, DType::kFloat32, dims, values);
    ASSERT_THAT(made, IsOk()) << memory.kind;
    EXPECT_EQ(made->memory()->kind, memory.kind);
    EXPECT_EQ(made->memory()->id, memory.id);
    const auto copied = Four().CopyTo(client_, memory);
    ASSERT_THAT(copied, IsOk()) << memory.kind;
    EXPECT_EQ(copied->memory()->id, memory.id);
    EXPECT_THAT(copied->ToVector<float>(), IsOkAndHolds(ElementsAre(1, 2, 3, 4)));
  }
}

TEST_F(BufferSourcesTest, CopiesGoToAnotherDeviceTheSameAndAnotherClient) {
  const Buffer source = Four();
  for (const size_t to : {0, 1}) {
    const auto copy = source.CopyTo(client_, device(to));
    ASSERT_THAT(copy, IsOk());
    EXPECT_THAT(copy->ToVector<float>(), IsOkAndHolds(ElementsAre(1, 2, 3, 4)));
    EXPECT_THAT(copy->dims(), IsOkAndHolds(ElementsAre(2, 2)));
    EXPECT_EQ(copy->memory()->id, Four(to).memory()->id);
  }
  const auto other = MakeClient();
  const auto copy = source.CopyTo(other, other->devices()[1]);
  ASSERT_THAT(copy, IsOk());
  EXPECT_EQ(copy->client(), other);
  EXPECT_THAT(copy->ToVector<float>(), IsOkAndHolds(ElementsAre(1, 2, 3, 4)));
}

TEST_F(BufferSourcesTest, TensorsOutliveTheirBuffers) {
  DLManagedTensorVersioned* managed = nullptr;
  {
    const Buffer buffer = Four();
    managed = buffer.ToDLPack().value();
  }
  EXPECT_EQ(managed->major, 1U);
  EXPECT_EQ(managed->flags, internal::kDLReadOnly);
  const DLTensor& tensor = managed->tensor;
  EXPECT_EQ(tensor.device.type, internal::kDLCpu);
  EXPECT_EQ(tensor.dtype.code, 2);
  EXPECT_EQ(tensor.dtype.bits, 32);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_THAT(std::vector(tensor.shape, tensor.shape + 2), ElementsAre(2, 2));
  EXPECT_THAT(std::vector(tensor.strides, tensor.strides + 2), ElementsAre(2, 1));
  const auto* values = static_cast<const float*>(tensor.data);
  EXPECT_THAT(std::vector(values, values + 4), ElementsAre(1, 2, 3, 4));
  managed->deleter(managed);
}

TEST_F(BufferSourcesTest, TensorsComeBackWithoutACopy) {
  std::atomic<bool> is_dropped{false};
  auto values = Aligned(is_dropped);
  const float* const data = values.get();
  DLManagedTensorVersioned* const managed = Share(std::move(values))->ToDLPack().value();
  {
    const auto back = Buffer::FromDLPack(client_, device(), managed);
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(back->View<float>()->values().data(), data);
    EXPECT_FALSE(is_dropped);
  }
  is_dropped.wait(false);
}

TEST_F(BufferSourcesTest, TypesThatDLPackLacksAreRefused) {
  const int8_t values[] = {1, 2};
  const int64_t dims[] = {2};
  const Buffer buffer = Buffer::FromHost(client_, device(), DType::kInt4, dims, values).value();
  EXPECT_THAT(buffer.ToDLPack(), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no type for s4")));
}

// A tensor of f32[2,2] that another library owns, and whether it was deleted.
struct Foreign {
  std::array<float, 4> values = {1, 2, 3, 4};
  std::array<int64_t, 2> shape = {2, 2};
  std::array<int64_t, 2> strides = {2, 1};
  std::atomic<int> deleted{0};
  DLManagedTensorVersioned managed = {
      .major = 1,
      .minor = 0,
      .manager_ctx = this,
      .deleter =
          [](DLManagedTensorVersioned* self) {
            auto& count = static_cast<Foreign*>(self->manager_ctx)->deleted;
            ++count;
            count.notify_all();
          },
      .flags = 0,
      .tensor = {values.data(), {internal::kDLCpu, 0}, 2, {2, 32, 1}, shape.data(), strides.data(), 0}};
};

TEST_F(BufferSourcesTest, OtherTensorsThanDenseOnesOfTheHostAreRefused) {
  const auto refuse = [&](auto change, const char* why) {
    Foreign foreign;
    change(foreign.managed);
    EXPECT_THAT(Buffer::FromDLPack(client_, device(), &foreign.managed),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
    EXPECT_EQ(foreign.deleted, 0) << "it stays the caller's";
  };
  refuse([](auto& managed) { managed.major = 2; }, "of version 2");
  refuse([](auto& managed) { managed.tensor.device.type = internal::kDLCuda; }, "device of type 2");
  refuse([](auto& managed) { managed.tensor.dtype.lanes = 4; }, "4 lanes");
  refuse([](auto& managed) { managed.tensor.dtype.code = 99; }, "type code 99");
  refuse([](auto& managed) { managed.tensor.strides[0] = 1; }, "row-major");
  refuse([](auto& managed) { managed.tensor.shape[0] = -2; }, "");
  refuse([](auto& managed) { managed.tensor.shape = nullptr; }, "without a shape");
  refuse([](auto& managed) { managed.tensor.data = nullptr; }, "without its elements");
  EXPECT_THAT(Buffer::FromDLPack(client_, device(), nullptr),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("null")));
}

TEST_F(BufferSourcesTest, TensorsWithoutElementsNeedNoMemory) {
  Foreign foreign;
  foreign.managed.tensor.shape[0] = 0;
  foreign.managed.tensor.data = nullptr;
  const auto buffer = Buffer::FromDLPack(client_, device(), &foreign.managed);
  ASSERT_THAT(buffer, IsOk());
  EXPECT_THAT(buffer->ToVector<float>(), IsOkAndHolds(::testing::IsEmpty()));
}

// The run holds the last reference to the client and ends on one of the plugin's threads, for which the client's
// destructor waits.
TEST_F(BufferSourcesTest, ClientsEndAfterARunThatReadsATensorOfTheirOwn) {
  client_ = nullptr;
  const int64_t clients = internal::LiveCount(internal::LiveKind::kPjrtClient);
  std::promise<void> opened;
  client_ = MakeClient({.concurrent_runs = 0});
  {
    const Compiler compiler(client_);
    CompileOptions options;
    options.loaded_host_callbacks = {
        compiler
            .MakeLoadedHostCallback(FunctionCallback("f",
                                                     [met = opened.get_future().share()](const Call&) {
                                                       met.wait();
                                                       return OkStatus();
                                                     }))
            .value()};
    const LoadedExecutable executable = compiler.Compile({testdata::ProductThenCall("f", 128)}, options).value();
    const std::vector<int64_t> dims = {128, 128};
    DLManagedTensorVersioned* const managed =
        Buffer::FromHost(client_, device(), dims, std::vector<float>(size_t{128} * 128))->ToDLPack().value();
    const Buffer x = Buffer::FromDLPack(client_, device(), managed).value();
    const std::vector<const Buffer*> arguments = {&x};
    ASSERT_THAT(executable.Execute({&arguments, 1}), IsOk());
  }
  client_ = nullptr;
  EXPECT_EQ(internal::LiveCount(internal::LiveKind::kPjrtClient), clients + 1);
  opened.set_value();
  internal::SpinUntil([&] { return internal::LiveCount(internal::LiveKind::kPjrtClient) == clients; });
}

TEST_F(BufferSourcesTest, TensorsOfOthersAreDeletedOnce) {
  Foreign foreign;
  foreign.managed.tensor.strides = nullptr;
  {
    const auto buffer = Buffer::FromDLPack(client_, device(), &foreign.managed);
    ASSERT_THAT(buffer, IsOk());
    EXPECT_THAT(buffer->ToVector<float>(), IsOkAndHolds(ElementsAre(1, 2, 3, 4)));
  }
  foreign.deleted.wait(0);
  client_.reset();  // waits until the client is destroyed
  EXPECT_EQ(foreign.deleted, 1);
}

}  // namespace
}  // namespace callout::pjrt
