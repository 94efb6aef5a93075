// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "callout/pjrt/host_callback.h"
#include "core/callbacks/registry.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::IsOkAndHolds;
using internal::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OpaqueCallbackTest, MakesAgainWhatWasSerialized) {
  using Kind = SinkCallback::Kind;
  for (const SinkCallback& args : {SinkCallback("loss", Kind::kNull), SinkCallback("loss", Kind::kPrint),
                                   SinkCallback("loss", Kind::kPrint, "loss={value:.2f}")}) {
    const auto made = args.Make();
    ASSERT_THAT(made, IsOk());
    const auto bytes = made->Serialize();
    ASSERT_THAT(bytes, IsOk());
    const auto again = OpaqueCallback("again", *bytes).Make();
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->name(), "again");
    EXPECT_THAT(again->Serialize(), IsOkAndHolds(*bytes));
  }
}

TEST(OpaqueCallbackTest, SinksHaveOptions) {
  const std::string text = "jsonl,fields=false,append:" + ::testing::TempDir() + "/opaque_options.jsonl";
  const auto made = OpaqueCallback("loss", text).Make();
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->Serialize(), IsOkAndHolds(text));
  EXPECT_THAT(OpaqueCallback("loss", "print,colour=true").Make(),
              StatusIs(StatusCode::kInvalidArgument, "the sink 'print' has no option 'colour'"));
}

TEST(OpaqueCallbackTest, ANullSinkHasNoPath) {
  const auto made = SinkCallback("loss", SinkCallback::Kind::kNull, "ignored").Make();
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->Serialize(), IsOkAndHolds("null"));
}

TEST(OpaqueCallbackTest, FilesAreWrittenByOneAtATime) {
  const std::string folder = ::testing::TempDir() + "/opaque_sinks";
  using Kind = SinkCallback::Kind;
  for (const Kind kind : {Kind::kJsonLines, Kind::kCsv, Kind::kTensorBoard, Kind::kArrow, Kind::kNpy, Kind::kZarr}) {
    const bool has_folder = kind == Kind::kTensorBoard;
    std::string bytes;
    {
      const auto made = SinkCallback("loss", kind, folder + std::to_string(static_cast<int>(kind))).Make();
      ASSERT_THAT(made, IsOk());
      bytes = *made->Serialize();
      const auto again = OpaqueCallback("again", bytes).Make();
      if (!has_folder) {
        EXPECT_THAT(again, StatusIs(StatusCode::kAlreadyExists, "another sink of this process"));
      }
    }
    const auto again = OpaqueCallback("again", bytes).Make();
    ASSERT_THAT(again, IsOk()) << bytes;
    EXPECT_THAT(again->Serialize(), IsOkAndHolds(bytes));
  }
}

TEST(OpaqueCallbackTest, AFunctionCannotBeSerialized) {
  const auto made = FunctionCallback("rate", [](const Call&) { return OkStatus(); }).Make();
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->Serialize(), StatusIs(StatusCode::kUnimplemented, "'rate'"));
}

TEST(OpaqueCallbackTest, ErrorsNameTheKindOrAreTheMakers) {
  EXPECT_THAT(OpaqueCallback("loss", "tape:x").Make(),
              StatusIs(StatusCode::kNotFound, AllOf(HasSubstr("'tape'"), HasSubstr("'jsonl'"))));
  EXPECT_THAT(OpaqueCallback("loss", "").Make(), StatusIs(StatusCode::kNotFound, "'loss'"));
  EXPECT_THAT(OpaqueCallback("loss", "jsonl:/dev/null/x").Make(), StatusIs(StatusCode::kNotFound, "/dev/null/x"));
  EXPECT_THAT(OpaqueCallback("f", "library:/no/such.so:f").Make(), StatusIs(StatusCode::kNotFound, "/no/such.so"));
}

TEST(OpaqueCallbackTest, AHostHasKindsOfItsOwn) {
  const auto maker = [](const std::string& name, std::string_view payload) -> Result<LoadedHostCallback> {
    if (payload.empty()) return InvalidArgument("nothing to add");
    return FunctionCallback(name + "+" + std::string(payload), [](const Call&) { return OkStatus(); }).Make();
  };
  ASSERT_THAT(RegisterHostCallbackMaker("add_for_test", maker), IsOk());
  EXPECT_THAT(RegisterHostCallbackMaker("add_for_test", maker), StatusIs(StatusCode::kAlreadyExists, "add_for_test"));
  EXPECT_THAT(RegisterHostCallbackMaker("print", maker), StatusIs(StatusCode::kAlreadyExists, "print"));
  EXPECT_THAT(RegisterHostCallbackMaker("other", nullptr), StatusIs(StatusCode::kInvalidArgument, "other"));
  const auto made = OpaqueCallback("f", "add_for_test:3").Make();
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->callback()->label(), "f+3");
  EXPECT_THAT(OpaqueCallback("f", "add_for_test").Make(), StatusIs(StatusCode::kInvalidArgument, "nothing to add"));
  // Programs choose names themselves, so they must not reach a kind that was not registered for programs.
  EXPECT_THAT(internal::Registry::Get().Find("add_for_test:3"), StatusIs(StatusCode::kNotFound, "add_for_test:3"));
}

TEST(OpaqueCallbackTest, WhatAMakerThrowsIsItsError) {
  ASSERT_THAT(RegisterHostCallbackMaker("throws",
                                        [](const std::string&, std::string_view payload) -> Result<LoadedHostCallback> {
                                          if (payload == "1") throw 1;
                                          throw std::runtime_error("no such thing");
                                        }),
              IsOk());
  EXPECT_THAT(OpaqueCallback("a", "throws:").Make(),
              StatusIs(StatusCode::kInternal, "the maker of the callback 'a' failed: no such thing"));
  EXPECT_THAT(OpaqueCallback("a", "throws:1").Make(), StatusIs(StatusCode::kInternal, "not a std::exception"));
}

TEST(OpaqueCallbackTest, AMakerThatMakesNothingIsAnError) {
  ASSERT_THAT(RegisterHostCallbackMaker("nothing",
                                        [](const std::string& name, std::string_view) -> Result<LoadedHostCallback> {
                                          return LoadedHostCallback(name, nullptr);
                                        }),
              IsOk());
  EXPECT_THAT(OpaqueCallback("a", "nothing:").Make(), StatusIs(StatusCode::kInternal, "'a' made nothing"));
}

}  // namespace
}  // namespace callout::pjrt
