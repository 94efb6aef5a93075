// SPDX-License-Identifier: Apache-2.0
//
// Tests the arrays of callout/c_api.h.
#include "testing/c_api_fixture.h"

namespace callout {
namespace {

using CApiArrayTest = CApiRunTest;

TEST_F(CApiArrayTest, ArraysComeBackAsTheyWent) {
  callout_array* array = Array({1, 2, 3, 4}, 1);
  uint32_t dtype = 0;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  size_t size = 0;
  ASSERT_THAT(Take(callout_array_dtype(array, &dtype)), IsOk());
  ASSERT_THAT(Take(callout_array_dims(array, &dims, &rank)), IsOk());
  ASSERT_THAT(Take(callout_array_size_bytes(array, &size)), IsOk());
  EXPECT_EQ(dtype, kF32);
  ASSERT_EQ(rank, 1U);
  EXPECT_EQ(dims[0], 4);
  EXPECT_EQ(size, 16U);
  EXPECT_THAT(ToHost(array), ElementsAre(1, 2, 3, 4));
  char small[8];
  EXPECT_THAT(Take(callout_array_to_host(array, small, sizeof(small))),
              StatusIs(StatusCode::kInvalidArgument, "the array has 16 bytes, there is room for 8"));
  EXPECT_THAT(Take(callout_array_to_host(array, nullptr, 16)),
              StatusIs(StatusCode::kInvalidArgument, "callout_array_to_host: data is null"));
  callout_array_destroy(array);
}

TEST_F(CApiArrayTest, ElementsOfLessThanAByteTakeOneEach) {
  const signed char values[] = {-8, 7, 3};
  const int64_t dims[] = {3};
  callout_array* array = nullptr;
  ASSERT_THAT(Take(callout_array_from_host(client_, 0, static_cast<uint32_t>(DType::kInt4), dims, 1, values,
                                           sizeof(values), &array)),
              IsOk());
  size_t size = 0;
  ASSERT_THAT(Take(callout_array_size_bytes(array, &size)), IsOk());
  ASSERT_EQ(size, 3U);
  signed char back[3] = {};
  ASSERT_THAT(Take(callout_array_to_host(array, back, sizeof(back))), IsOk());
  for (signed char& value : back) value &= 15;  // XLA may set the upper bits of an s4
  EXPECT_THAT(back, ElementsAre(8, 7, 3));
  callout_array_destroy(array);
}

TEST_F(CApiArrayTest, ArraysWithoutElements) {
  const int64_t dims[] = {0, 3};
  callout_array* array = nullptr;
  ASSERT_THAT(Take(callout_array_from_host(client_, 0, kF32, dims, 2, nullptr, 0, &array)), IsOk());
  EXPECT_THAT(Take(callout_array_to_host(array, nullptr, 0)), IsOk());
  callout_array_destroy(array);
}

TEST_F(CApiArrayTest, SharedMemoryIsKeptUntilItsArrayIsGone) {
  alignas(64) const float values[4] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  std::atomic<int> destroyed{0};
  const auto destroy = [](void* count) {
    ++*static_cast<std::atomic<int>*>(count);
    static_cast<std::atomic<int>*>(count)->notify_all();
  };
  callout_array* array = nullptr;
  EXPECT_THAT(Take(callout_array_from_host_shared(client_, 0, kF32, dims, 1, values, 8, &destroyed, destroy, &array)),
              StatusIs(StatusCode::kInvalidArgument, "expected 16 bytes, got 8"));
  EXPECT_EQ(destroyed, 0);
  ASSERT_THAT(Take(callout_array_from_host_shared(client_, 0, kF32, dims, 1, values, 16, &destroyed, destroy, &array)),
              IsOk());
  DLManagedTensorVersioned* tensor = nullptr;
  ASSERT_THAT(Take(callout_array_to_dlpack(array, &tensor)), IsOk());
  callout_array_destroy(array);
  callout_array* again = nullptr;
  ASSERT_THAT(Take(callout_array_from_dlpack(client_, 0, tensor, &again)), IsOk());
  callout_array* copy = nullptr;
  ASSERT_THAT(Take(callout_array_copy(again, client_, 1, &copy)), IsOk());
  EXPECT_THAT(ToHost(copy), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(destroyed, 0);
  callout_array_destroy(again);
  destroyed.wait(0);
  EXPECT_EQ(destroyed, 1);
  EXPECT_THAT(ToHost(copy), ElementsAre(1, 2, 3, 4));
  callout_array_destroy(copy);
  EXPECT_THAT(Take(callout_array_from_dlpack(client_, 0, nullptr, &again)),
              StatusIs(StatusCode::kInvalidArgument, "callout_array_from_dlpack: tensor is null"));
}

TEST_F(CApiArrayTest, ArraysAreMadeAndCopiedInEachMemory) {
  const float values[4] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  const size_t num_memories = callout_client_num_memories(client_, 1);
  ASSERT_GT(num_memories, 0U);
  EXPECT_EQ(callout_client_memory_kind(client_, 1, num_memories), nullptr);
  EXPECT_EQ(callout_client_num_memories(client_, 2), 0U);
  for (size_t i = 0; i < num_memories; ++i) {
    const char* const kind = callout_client_memory_kind(client_, 1, i);
    callout_array* array = nullptr;
    ASSERT_THAT(Take(callout_array_from_host_in(client_, 1, kind, kF32, dims, 1, values, sizeof(values), &array)),
                IsOk());
    callout_array* copy = nullptr;
    ASSERT_THAT(Take(callout_array_copy_in(array, client_, 0, kind, &copy)), IsOk());
    for (callout_array* each : {array, copy}) {
      const char* found = nullptr;
      ASSERT_THAT(Take(callout_array_memory_kind(each, &found)), IsOk());
      EXPECT_STREQ(found, kind);
      EXPECT_THAT(ToHost(each), ElementsAre(1, 2, 3, 4));
    }
    callout_array_destroy(array);
    callout_array_destroy(copy);
  }
}

TEST_F(CApiArrayTest, MemoriesThatAreNotThereAreSaid) {
  const float value = 1;
  callout_array* array = nullptr;
  EXPECT_THAT(Take(callout_array_from_host_in(client_, 0, "hbm", kF32, nullptr, 0, &value, sizeof(value), &array)),
              StatusIs(StatusCode::kNotFound, "callout_array_from_host_in: device 0 has no memory 'hbm'; it has '"));
  EXPECT_THAT(Take(callout_array_from_host_in(client_, 2, "device", kF32, nullptr, 0, &value, sizeof(value), &array)),
              StatusIs(StatusCode::kOutOfRange, "there is no device 2"));
  EXPECT_THAT(Take(callout_array_from_host_in(client_, 0, nullptr, kF32, nullptr, 0, &value, sizeof(value), &array)),
              StatusIs(StatusCode::kInvalidArgument, "memory_kind is null"));
  EXPECT_EQ(array, nullptr);
}

TEST_F(CApiArrayTest, ArraysThatCannotBeAreRefused) {
  const float values[2] = {};
  callout_array* array = nullptr;
  const auto make = [&](uint32_t dtype, std::vector<int64_t> dims, const void* data, size_t size, size_t device = 0) {
    return Take(callout_array_from_host(client_, device, dtype, dims.data(), dims.size(), data, size, &array));
  };
  const auto refused = [](const char* text) { return StatusIs(StatusCode::kInvalidArgument, std::string(text)); };
  EXPECT_THAT(make(kF32, {3}, values, 8), refused("callout_array_from_host: expected 12 bytes, got 8"));
  EXPECT_THAT(make(kF32, {2}, nullptr, 8), refused("data is null"));
  EXPECT_THAT(make(kF32, {-1}, values, 8), refused("an extent is -1"));
  EXPECT_THAT(make(kF32, {int64_t{1} << 62, 4}, values, 8), refused("the array is too large"));
  EXPECT_THAT(make(999, {2}, values, 8), refused("there is no dtype 999"));
  EXPECT_THAT(make(kF32, {2}, values, 8, 2), StatusIs(StatusCode::kOutOfRange, "there is no device 2"));
  EXPECT_THAT(Take(callout_array_from_host(client_, 0, kF32, nullptr, 1, values, 8, &array)), refused("dims is null"));
  EXPECT_EQ(array, nullptr);
}

}  // namespace
}  // namespace callout
