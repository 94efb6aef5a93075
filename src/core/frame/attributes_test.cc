// SPDX-License-Identifier: Apache-2.0
#include "core/frame/attributes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "callout/dtype.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

// Attributes as XLA lays them out.
class AttributesTest : public ::testing::Test {
 protected:
  void Add(const char* name, XLA_FFI_AttrType type, void* value) {
    names_.push_back({name, std::strlen(name)});
    types_.push_back(type);
    values_.push_back(value);
  }
  /// Decodes what was added.
  Status Decode() {
    for (XLA_FFI_ByteSpan& name : names_) name_pointers_.push_back(&name);
    inner_ = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr,       static_cast<int64_t>(types_.size()), types_.data(),
              name_pointers_.data(),     values_.data()};
    return attributes_.Decode(&inner_);
  }

  Attributes attributes_;

 private:
  std::vector<XLA_FFI_ByteSpan> names_;
  std::vector<XLA_FFI_ByteSpan*> name_pointers_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<void*> values_;
  XLA_FFI_Attrs inner_{};
};

TEST_F(AttributesTest, ScalarsArraysAndStringsAreCopiedAndSorted) {
  float number = 2.5F;
  XLA_FFI_Scalar scalar = {XLA_FFI_DataType_F32, &number};
  int64_t numbers[] = {4, 5, 6};
  XLA_FFI_Array array = {XLA_FFI_DataType_S64, 3, numbers};
  XLA_FFI_ByteSpan text = {"hello", 5};
  Add("scale", XLA_FFI_AttrType_SCALAR, &scalar);
  Add("name", XLA_FFI_AttrType_STRING, &text);
  Add("axes", XLA_FFI_AttrType_ARRAY, &array);
  ASSERT_THAT(Decode(), IsOk());
  number = 0;
  numbers[1] = 0;
  const auto view = attributes_.view();
  ASSERT_EQ(view.size(), 3U);
  EXPECT_STREQ(view[0].name, "axes");
  EXPECT_EQ(view[0].kind, static_cast<uint32_t>(CALLOUT_ATTRIBUTE_ARRAY));
  EXPECT_EQ(view[0].count, 3U);
  EXPECT_EQ(static_cast<const int64_t*>(view[0].data)[1], 5);
  EXPECT_STREQ(view[1].name, "name");
  EXPECT_STREQ(static_cast<const char*>(view[1].data), "hello");
  EXPECT_EQ(view[1].count, 5U);
  EXPECT_STREQ(view[2].name, "scale");
  EXPECT_EQ(view[2].dtype, static_cast<uint32_t>(DType::kFloat32));
  EXPECT_EQ(*static_cast<const float*>(view[2].data), 2.5F);
}

TEST_F(AttributesTest, ValuesAreAlignedForTheirType) {
  double number = 1;
  XLA_FFI_Scalar scalar = {XLA_FFI_DataType_F64, &number};
  for (const char* name : {"a", "b", "c", "d"}) Add(name, XLA_FFI_AttrType_SCALAR, &scalar);
  ASSERT_THAT(Decode(), IsOk());
  for (const callout_attribute& attribute : attributes_.view()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(attribute.data) % 16, 0U);
  }
}

TEST_F(AttributesTest, NestedDictionariesAreRefused) {
  XLA_FFI_Attrs nested = {};
  Add("deep", XLA_FFI_AttrType_DICTIONARY, &nested);
  EXPECT_THAT(Decode(),
              StatusIs(StatusCode::kInvalidArgument, "attribute 'deep' must be a number, an array or a string"));
}

TEST_F(AttributesTest, NoneIsFine) {
  EXPECT_THAT(attributes_.Decode(nullptr), IsOk());
  EXPECT_TRUE(attributes_.view().empty());
}

}  // namespace
}  // namespace callout::internal
