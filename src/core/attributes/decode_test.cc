// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "testing/fake_runtime.h"
#include "testing/frame_builder.h"
#include "testing/status_matchers.h"

namespace callout::internal {

enum class PingKind { kShort, kLong };

struct PingTarget {
  std::string_view host;
  std::string_view note;
};

struct PingOrder {
  const XLA_FFI_Attrs* all_entries = nullptr;
  std::string_view first;
};

struct PingAttributes {
  std::string_view callback;
  std::string_view label;
  int64_t every = 3;
  bool loud = true;
  PingKind kind = PingKind::kLong;
  std::span<const int64_t> pairs;
  std::span<const int64_t> place;
  const XLA_FFI_Attrs* constants = nullptr;
  std::optional<PingTarget> target;
  std::optional<PingOrder> order;
};

template <>
inline constexpr auto kChoices<PingKind> = std::array<std::string_view, 2>{"short", "long"};

template <>
inline constexpr auto kAttributeRows<PingTarget> =
    std::tuple(Required("host", &PingTarget::host, ""), Optional("note", &PingTarget::note, ""));

template <>
inline constexpr auto kAttributeRows<PingOrder> = std::tuple(Optional("first", &PingOrder::first, ""));

inline constexpr std::array<std::string_view, 2> kLabels = {"a", "b"};

template <>
inline constexpr auto kAttributeRows<PingAttributes> =
    std::tuple(Required("callback", &PingAttributes::callback, "", {.most_bytes = 100}),
               Optional("label", &PingAttributes::label, "", {.choices = kLabels}),
               Optional("every", &PingAttributes::every, "", {.least = 1, .most = 9}),
               Optional("loud", &PingAttributes::loud, ""), Optional("kind", &PingAttributes::kind, ""),
               Optional("pairs", &PingAttributes::pairs, "", {.least = 0, .group = 2}),
               Optional("place", &PingAttributes::place, "", {.count = 3}),
               Optional("constants", &PingAttributes::constants, ""), Optional("target", &PingAttributes::target, ""),
               Optional("order", &PingAttributes::order, ""), Unbound("elsewhere", int64_t{7}, ""));

namespace {

using ::testing::ElementsAre;

class DecodeAttributesTest : public ::testing::Test {
 protected:
  Result<PingAttributes> Decode() {
    return DecodeAttributes<PingAttributes>(site_.Frame(frame_, XLA_FFI_ExecutionStage_INSTANTIATE)->attrs);
  }
  /// Returns the error of a frame that has a callback and the attributes that `add` adds.
  template <typename Add>
  std::string ErrorWith(Add&& add) {
    frame_ = FrameBuilder();
    add(frame_.StringAttr("callback", "f"));
    const Result<PingAttributes> decoded = Decode();
    EXPECT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.status().code(), StatusCode::kInvalidArgument);
    return std::string(decoded.status().message());
  }

  FrameBuilder frame_;
  FakeSite site_{FakeRuntime::ForMinor(5), nullptr, nullptr};
};

TEST_F(DecodeAttributesTest, AbsentOnesAreWhatANewStructHas) {
  frame_.StringAttr("callback", "f").Int64Attr("ever", 1).Int64Attr("every_", 1);
  const auto ping = Decode();
  ASSERT_THAT(ping, IsOk());
  EXPECT_EQ(ping->callback, "f");
  EXPECT_EQ(ping->every, 3);
  EXPECT_TRUE(ping->loud);
  EXPECT_EQ(ping->kind, PingKind::kLong);
  EXPECT_TRUE(ping->pairs.empty());
  EXPECT_EQ(ping->constants, nullptr);
  EXPECT_FALSE(ping->target.has_value());
}

TEST_F(DecodeAttributesTest, EachTypeIsRead) {
  const std::string bytes("a\0b\xff", 4);
  frame_.StringAttr("callback", bytes).Int64Attr("every", 9).Int64Attr("loud", 0).Int64Attr("kind", 0);
  frame_.StringAttr("label", "b").Int64ArrayAttr("pairs", {2, 0, 7, int64_t{1} << 40});
  frame_.DictionaryAttr("constants", {{"x", "1"}}).DictionaryAttr("target", {{"host", bytes}, {"port", "2"}});
  frame_.StringAttr("host", "outside");
  const auto ping = Decode();
  ASSERT_THAT(ping, IsOk());
  EXPECT_EQ(ping->callback, bytes);
  EXPECT_EQ(ping->label, "b");
  EXPECT_EQ(ping->every, 9);
  EXPECT_FALSE(ping->loud);
  EXPECT_EQ(ping->kind, PingKind::kShort);
  EXPECT_THAT(ping->pairs, ElementsAre(2, 0, 7, int64_t{1} << 40));
  ASSERT_NE(ping->constants, nullptr);
  EXPECT_EQ(ping->constants->size, 1);
  ASSERT_TRUE(ping->target.has_value());
  EXPECT_EQ(ping->target->host, bytes);
  EXPECT_EQ(ping->target->note, "");
}

TEST_F(DecodeAttributesTest, DictionaryWithEntriesOfItsOwnIsGivenWhole) {
  frame_.StringAttr("callback", "f").DictionaryAttr("order", {{"first", "a"}, {"17", "b"}});
  const auto ping = Decode();
  ASSERT_THAT(ping, IsOk());
  EXPECT_EQ(ping->order->first, "a");
  EXPECT_EQ(ping->order->all_entries->size, 2);
}

TEST_F(DecodeAttributesTest, UnknownAndUnboundOnesAreIgnoredWhateverTheyAre) {
  frame_.StringAttr("callback", "f").StringAttr("elsewhere", "no number").Int64Attr("of_a_later_version", 1);
  frame_.DictionaryAttr("also", {{"x", "y"}}).Int64ArrayAttr("", {});
  EXPECT_THAT(Decode(), IsOk());
}

TEST_F(DecodeAttributesTest, MissingOnesAreNamed) {
  EXPECT_THAT(Decode(),
              StatusIs(StatusCode::kInvalidArgument, "callout: attribute 'callback' is missing; it must be a string"));
  EXPECT_EQ(ErrorWith([](FrameBuilder& frame) { frame.DictionaryAttr("target", {{"note", ""}}); }),
            "callout: callback 'f': in attribute 'target': attribute 'host' is missing; it must be a string");
}

TEST_F(DecodeAttributesTest, OtherTypesAreRefused) {
  const auto of = [this](const std::string& name, auto&& add) {
    const std::string error = ErrorWith(add);
    const std::string begin = "callout: callback 'f': attribute '" + name + "' must be ";
    EXPECT_TRUE(error.starts_with(begin)) << error;
    return error.substr(std::min(error.size(), begin.size()));
  };
  EXPECT_EQ(of("every", [](auto& frame) { frame.StringAttr("every", "3"); }), "a 64-bit integer, got a string");
  EXPECT_EQ(of("every", [](auto& frame) { frame.Int32Attr("every", 3); }),
            "a 64-bit integer, got a number of another type");
  EXPECT_EQ(of("kind", [](auto& frame) { frame.Int64ArrayAttr("kind", {1}); }), "a 64-bit integer, got an array");
  EXPECT_EQ(of("label", [](auto& frame) { frame.Int64Attr("label", 1); }), "a string, got a number");
  EXPECT_EQ(of("pairs", [](auto& frame) { frame.DictionaryAttr("pairs", {}); }),
            "an array of 64-bit integers, got a dictionary");
  EXPECT_EQ(of("target", [](auto& frame) { frame.StringAttr("target", ""); }), "a dictionary, got a string");
  EXPECT_EQ(of("constants", [](auto& frame) { frame.Int64Attr("constants", 1); }), "a dictionary, got a number");
}

TEST_F(DecodeAttributesTest, ArraysOfOtherElementsAreRefused) {
  frame_.StringAttr("callback", "f").Int64ArrayAttr("pairs", {0, 0});
  XLA_FFI_CallFrame* frame = site_.Frame(frame_, XLA_FFI_ExecutionStage_INSTANTIATE);
  static_cast<XLA_FFI_Array*>(frame->attrs.attrs[1])->dtype = XLA_FFI_DataType_S32;
  EXPECT_THAT(DecodeAttributes<PingAttributes>(frame->attrs),
              StatusIs(StatusCode::kInvalidArgument, "'pairs' must be an array of 64-bit integers, got an array of"));
}

TEST_F(DecodeAttributesTest, ValuesBeyondTheTermsAreRefused) {
  const std::pair<int64_t, const char*> cases[] = {{0, "'every' must be 1 to 9, got 0"},
                                                   {10, "'every' must be 1 to 9, got 10"}};
  for (const auto& [number, text] : cases) {
    EXPECT_THAT(ErrorWith([number = number](auto& frame) { frame.Int64Attr("every", number); }),
                ::testing::HasSubstr(text));
  }
  EXPECT_THAT(ErrorWith([](auto& frame) { frame.Int64Attr("loud", 2); }),
              ::testing::HasSubstr("'loud' must be 0 to 1, got 2"));
  EXPECT_THAT(ErrorWith([](auto& frame) { frame.Int64Attr("kind", -1); }),
              ::testing::HasSubstr("'kind' must be 0 (short), 1 (long), got -1"));
  EXPECT_THAT(ErrorWith([](auto& frame) { frame.StringAttr("label", "c"); }),
              ::testing::HasSubstr("'label' must be 'a' or 'b', got 'c'"));
  EXPECT_THAT(ErrorWith([](auto& frame) { frame.Int64ArrayAttr("pairs", {1, 2, 3}); }),
              ::testing::HasSubstr("'pairs' must be pairs, got 3 numbers"));
  EXPECT_THAT(ErrorWith([](auto& frame) { frame.Int64ArrayAttr("pairs", {1, -2}); }),
              ::testing::HasSubstr("'pairs' must be at least 0, got -2"));
  EXPECT_THAT(ErrorWith([](auto& frame) { frame.Int64ArrayAttr("place", {1, 2}); }),
              ::testing::HasSubstr("'place' must have 3 numbers, got 2"));
}

TEST_F(DecodeAttributesTest, TextsOfErrorsAreShort) {
  frame_.StringAttr("callback", std::string(101, 'x'));
  EXPECT_THAT(Decode(),
              StatusIs(StatusCode::kInvalidArgument, "attribute 'callback' must have at most 100 characters, got 101"));
  const std::string error = ErrorWith([](auto& frame) { frame.StringAttr("label", std::string(100000, 'y')); });
  EXPECT_LT(error.size(), 300U);
}

}  // namespace
}  // namespace callout::internal
