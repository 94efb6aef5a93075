// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/callbacks/registry.h"
#include "testing/fake_callbacks.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Makes a callback whose label contains the maker's arguments.
Result<std::shared_ptr<Callback>> MakeLabelled(const std::string& label, std::string_view payload) {
  if (payload == "bad") return InvalidArgument("no such payload");
  return std::shared_ptr<Callback>(std::make_shared<FakeCallback>(label + "|" + std::string(payload)));
}

std::string LabelOf(const Result<std::shared_ptr<Callback>>& made) {
  return made.ok() && made.value() != nullptr ? made.value()->label() : "none";
}

TEST(MakersTest, GivesTheMakerWhatStandsBehindTheKind) {
  Makers makers;
  ASSERT_THAT(makers.Register("k", MakeLabelled, Makers::For::kHosts), IsOk());
  EXPECT_EQ(LabelOf(makers.Make("name", "k:a:b")), "name|a:b");
  EXPECT_EQ(LabelOf(makers.Make("name", "k")), "name|");
  EXPECT_THAT(makers.Make("name", "k:bad").status(), StatusIs(StatusCode::kInvalidArgument, "no such payload"));
}

TEST(MakersTest, NamesTheKindsThatItKnows) {
  Makers makers;
  ASSERT_THAT(makers.Register("one", MakeLabelled, Makers::For::kHosts), IsOk());
  EXPECT_THAT(makers.Make("loss", "two:x").status(),
              StatusIs(StatusCode::kNotFound, AllOf(HasSubstr("'loss'"), HasSubstr("'two'"), HasSubstr("'one'"))));
}

TEST(MakersTest, AKindHasOneMaker) {
  Makers makers;
  ASSERT_THAT(makers.Register("k", MakeLabelled, Makers::For::kHosts), IsOk());
  EXPECT_THAT(makers.Register("k", MakeLabelled, Makers::For::kPrograms),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("'k'")));
  EXPECT_THAT(makers.Register("", MakeLabelled, Makers::For::kHosts),
              StatusIs(StatusCode::kInvalidArgument, "must not be empty"));
  EXPECT_THAT(makers.Register("a:b", MakeLabelled, Makers::For::kHosts),
              StatusIs(StatusCode::kInvalidArgument, "must not be empty"));
}

TEST(MakersTest, ProgramsGetOnlyWhatIsForThem) {
  Makers makers;
  ASSERT_THAT(makers.Register("mine", MakeLabelled, Makers::For::kHosts), IsOk());
  ASSERT_THAT(makers.Register("theirs", MakeLabelled, Makers::For::kPrograms), IsOk());
  EXPECT_EQ(LabelOf(makers.MakeForProgram("mine:x")), "none");
  EXPECT_EQ(LabelOf(makers.MakeForProgram("theirs")), "none") << "a plain name";
  EXPECT_EQ(LabelOf(makers.MakeForProgram("theirs:x")), "theirs|x");
}

TEST(MakersTest, ARegisteredMakerGoesBeforeTheDefault) {
  Makers makers;
  makers.RegisterDefault("k", MakeLabelled);
  makers.RegisterDefault("k", nullptr);
  EXPECT_EQ(LabelOf(makers.MakeForProgram("k:x")), "k|x");
  EXPECT_THAT(makers.Make("loss", "two:x").status(), StatusIs(StatusCode::kNotFound, HasSubstr("kinds: 'k'")));
  const auto mine = [](const std::string&, std::string_view) -> Result<std::shared_ptr<Callback>> {
    return std::shared_ptr<Callback>(std::make_shared<FakeCallback>("mine"));
  };
  ASSERT_THAT(makers.Register("k", mine, Makers::For::kPrograms), IsOk());
  EXPECT_EQ(LabelOf(makers.MakeForProgram("k:x")), "mine");
}

TEST(MakersTest, TheRegistryAsksThemLast) {
  ASSERT_THAT(Makers::Get().Register("made_for_test", MakeLabelled, Makers::For::kPrograms), IsOk());
  EXPECT_EQ(LabelOf(Registry::Get().Find("made_for_test:x")), "made_for_test|x");
  EXPECT_THAT(Registry::Get().Find("made_for_test:bad").status(),
              StatusIs(StatusCode::kInvalidArgument, "no such payload"));
  ASSERT_THAT(Registry::Get().Register("made_for_test:x", std::make_shared<FakeCallback>("mine"), false), IsOk());
  EXPECT_EQ(LabelOf(Registry::Get().Find("made_for_test:x")), "mine");
  ASSERT_THAT(Registry::Get().Unregister("made_for_test:x"), IsOk());
}

}  // namespace
}  // namespace callout::internal
