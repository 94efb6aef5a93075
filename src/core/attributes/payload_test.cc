// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/status_matchers.h"

namespace callout::internal {

enum class Tone { kLow, kHigh };
template <>
inline constexpr std::array<std::string_view, 2> kChoices<Tone> = {"low", "high"};

struct BellPayload {
  Tone tone = Tone::kLow;
  int64_t times = 0;
  std::string name;
  std::vector<int64_t> pauses;
  std::vector<std::string> towns;
};

template <>
inline constexpr auto kAttributeRows<BellPayload> =
    std::tuple(Field("tone", &BellPayload::tone, "how it rings"),
               Field("times", &BellPayload::times, "how often", {.least = 1, .most = 12}),
               Field("name", &BellPayload::name, "what it is called", {.most_bytes = 8}),
               Field("pauses", &BellPayload::pauses, "seconds", {.least = 0, .most = 60}),
               Field("towns", &BellPayload::towns, "where"));

struct NotePayload {
  int64_t number = 0;
  RestOfPayload text;
};

template <>
inline constexpr auto kAttributeRows<NotePayload> =
    std::tuple(Field("number", &NotePayload::number, "its number"),
               Field("text", &NotePayload::text, "what it says", {.most_bytes = 8}));

namespace {

using ::testing::ElementsAre;

TEST(PayloadTest, FieldsAreMembersInTheOrderOfTheRows) {
  const auto bell = DecodePayload<BellPayload>("a bell", "1;high;3;a%3Bb;0,20;Bern,%2C,");
  ASSERT_THAT(bell, IsOk());
  EXPECT_EQ(bell->tone, Tone::kHigh);
  EXPECT_EQ(bell->times, 3);
  EXPECT_EQ(bell->name, "a;b");
  EXPECT_THAT(bell->pauses, ElementsAre(0, 20));
  EXPECT_THAT(bell->towns, ElementsAre("Bern", ",", ""));
}

TEST(PayloadTest, TheRestIsTakenAsItIs) {
  const auto note = DecodePayload<NotePayload>("a note", "1;-5;a;b%;,");
  ASSERT_THAT(note, IsOk());
  EXPECT_EQ(note->number, -5);
  EXPECT_EQ(note->text.text, "a;b%;,");
  EXPECT_THAT(DecodePayload<NotePayload>("a note", "1;0;").value().text.text, "");
}

struct BadPayload {
  std::string payload;
  std::string why;
};

class BadPayloadTest : public ::testing::TestWithParam<BadPayload> {};

TEST_P(BadPayloadTest, IsRefused) {
  EXPECT_THAT(DecodePayload<BellPayload>("a bell", GetParam().payload).status(),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: a bell must be '1;tone;times;name;pauses;towns', " + GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Payloads, BadPayloadTest,
    ::testing::Values(BadPayload{"", "with 6 fields, got ''"}, BadPayload{"1;low;1;;0", "with 6 fields, got '1;low"},
                      BadPayload{"1;low;1;;0;;", "with 6 fields"},
                      BadPayload{"2;low;1;;0;", "of the format 1, got '2'"},
                      BadPayload{"1;mid;1;;0;", "with 'low' or 'high', got 'mid'"},
                      BadPayload{"1;;1;;0;", "with 'low' or 'high', got ''"},
                      BadPayload{"1;low;0;;0;", "with times of 1 to 12, got '0'"},
                      BadPayload{"1;low;;;0;", "with times of 1 to 12, got ''"},
                      BadPayload{"1;low;1 ;;0;", "with times of 1 to 12, got '1 '"},
                      BadPayload{"1;low;99999999999999999999;;0;", "with times of 1 to 12"},
                      BadPayload{"1;low;1;%4;0;", "with name whose '%' stand before two digits, got '%4'"},
                      BadPayload{"1;low;1;%zz;0;", "with name whose '%' stand before two digits"},
                      BadPayload{"1;low;1;123456789;0;", "with name of at most 8 bytes"},
                      BadPayload{"1;low;1;;;", "with pauses of 0 to 60, got ''"},
                      BadPayload{"1;low;1;;1,;", "with pauses of 0 to 60, got ''"},
                      BadPayload{"1;low;1;;1,-1;", "with pauses of 0 to 60, got '-1'"},
                      BadPayload{"1;low;1;;1;Bern,%", "with towns whose '%' stand before two digits"},
                      BadPayload{std::string(1 << 21, ';'), "of at most 1 MiB, got ';;"}));

TEST(PayloadTest, TheRestIsBounded) {
  EXPECT_THAT(DecodePayload<NotePayload>("a note", "1;0;123456789").status(),
              StatusIs(StatusCode::kInvalidArgument, "with text of at most 8 bytes, got '123456789'"));
}

}  // namespace
}  // namespace callout::internal
