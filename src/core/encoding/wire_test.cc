// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/wire.h"

#include <gtest/gtest.h>

#include <bit>

namespace callout::internal {
namespace {

using namespace std::string_view_literals;

TEST(WireTest, WritesWhatTheSpecificationShows) {
  WireWriter writer;
  writer.AddNumber(1, 150);
  writer.AddMessage(2, "testing");
  EXPECT_EQ(writer.bytes(), "\x08\x96\x01\x12\x07testing");
  writer.Clear();
  writer.AddFloat(1, 1.0F);
  writer.AddDouble(2, -2.0);
  EXPECT_EQ(writer.bytes(), "\x0d\x00\x00\x80\x3f\x11\x00\x00\x00\x00\x00\x00\x00\xc0"sv);
}

TEST(WireTest, ReadsBackWhatItWrote) {
  WireWriter writer;
  writer.AddNumber(1, UINT64_MAX);
  writer.AddFloat(2, 0.1F);
  writer.AddDouble(300, 0.1);
  writer.AddMessage(4, "\0a"sv);
  WireReader reader(writer.bytes());
  auto field = reader.Next();
  ASSERT_TRUE(field.has_value());
  EXPECT_EQ(field->value, UINT64_MAX);
  field = reader.Next();
  ASSERT_TRUE(field.has_value());
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(field->value)), 0.1F);
  field = reader.Next();
  ASSERT_TRUE(field.has_value());
  EXPECT_EQ(field->number, 300);
  EXPECT_EQ(std::bit_cast<double>(field->value), 0.1);
  field = reader.Next();
  ASSERT_TRUE(field.has_value());
  EXPECT_TRUE(field->is_bytes);
  EXPECT_EQ(field->bytes, "\0a"sv);
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_TRUE(reader.ok());
}

TEST(WireTest, WhatEndsInsideAFieldIsNoMessage) {
  for (const std::string_view bytes : {"\x08"sv, "\x0d\x00\x00\x80"sv, "\x11\x00"sv, "\x12\x07test"sv, "\x0b"sv}) {
    WireReader reader(bytes);
    EXPECT_FALSE(reader.Next().has_value());
    EXPECT_FALSE(reader.ok());
  }
}

}  // namespace
}  // namespace callout::internal
