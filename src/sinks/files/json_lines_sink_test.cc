// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/encoding/json.h"
#include "sinks/each_sink_kind.h"
#include "testing/sink_fixture.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class JsonLinesSinkTest : public SinkTest {
 protected:
  std::vector<Json> ReadJsonLines() const {
    std::vector<Json> lines;
    std::istringstream text(Contents());
    for (std::string line; std::getline(text, line);) {
      const auto json = ParseJson(line);
      EXPECT_TRUE(json.has_value()) << line;
      if (json) lines.push_back(*json);
    }
    return lines;
  }
  static Result<std::shared_ptr<Callback>> Open(const std::string& path, bool append = true, bool fields = true) {
    return MakeSink("json", JsonLinesKind(),
                    {{"path", path}, {"append", append ? "true" : "false"}, {"fields", fields ? "true" : "false"}});
  }
  std::shared_ptr<Callback> JsonLines(bool append = false, bool fields = true) {
    auto sink = Open(path_, append, fields);
    EXPECT_THAT(sink, IsOk());
    return std::move(sink).value();
  }
};

TEST_F(JsonLinesSinkTest, JsonLineHasAllFields) {
  const auto sink = JsonLines();
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(0.5F)}), IsOk());
  EXPECT_EQ(Contents(), "") << "written at the end of the batch";
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), 1U);
  const Json& line = lines[0];
  EXPECT_EQ(line.members.size(), 6U);
  EXPECT_EQ(line["name"].text, "loss");
  EXPECT_EQ(line["device"].number, 2);
  EXPECT_EQ(line["run"].number, 5);
  EXPECT_EQ(line["seq"].number, 9);
  EXPECT_EQ(line["value"].number, 0.5);
  EXPECT_GT(line["time"].number, 1.6e9);  // Seconds since 1970.
}

TEST_F(JsonLinesSinkTest, JsonLineWithoutFieldsHasNameAndValueOnly) {
  const auto sink = JsonLines(false, /*fields=*/false);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Contents(), "{\"name\": \"loss\", \"value\": 1}\n");
}

TEST_F(JsonLinesSinkTest, JsonLineOfSeveralLeavesNamesThem) {
  const auto sink = JsonLines(false, false);
  const SiteInfo site = {"step \"1\"\n", {"loss", "grads['w']"}};
  EXPECT_THAT(Deliver(*sink, site, {TestBuffer::Scalar(std::nan("")), TestBuffer::Of<int32_t>({2, 2}, {1, 2, 3, 4})}),
              IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["name"].text, "step \"1\"\n");
  EXPECT_EQ(lines[0]["loss"].text, "NaN");
  EXPECT_EQ(lines[0]["grads['w']"][1][0].number, 3);
}

TEST_F(JsonLinesSinkTest, EachMemberOfALineIsThereOnce) {
  const auto sink = JsonLines(false, true);
  const std::vector<std::vector<std::string>> sites = {{"name", "value.name"},
                                                       {"value.name", "name"},
                                                       {"", "value", "value.value"},
                                                       {"a", "a", "a", "value.a"},
                                                       {"time", "seq", "run", "device", "step"}};
  for (const std::vector<std::string>& leaves : sites) {
    std::vector<TestBuffer> values;
    for (size_t i = 0; i < leaves.size(); ++i) values.push_back(TestBuffer::Scalar(static_cast<int32_t>(i)));
    EXPECT_THAT(Deliver(*sink, {"site", leaves}, std::move(values)), IsOk());
  }
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), sites.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].members.size(), 5 + sites[i].size()) << Contents();  // The map would merge duplicates.
  }
  EXPECT_EQ(lines[0]["value.name"].number, 1) << "what may be called as it is";
  EXPECT_EQ(lines[0]["value2.name"].number, 0);
  EXPECT_EQ(lines[1]["value.name"].number, 0);
  EXPECT_EQ(lines[4]["value.time"].number, 0);
}

TEST_F(JsonLinesSinkTest, EveryDTypeGivesValidJson) {
  const auto sink = JsonLines(false, false);
  int types = 0;
  for (uint32_t number = 1; number < kDTypeLimit; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (BitWidth(dtype) == 0) continue;
    ++types;
    TestBuffer buffer = TestBuffer::Zeros(dtype, {3});
    for (size_t i = 0; i < buffer.bytes().size(); ++i) buffer.bytes()[i] = static_cast<uint8_t>(0x71 + 13 * i);
    EXPECT_THAT(Deliver(*sink, {std::string(ShortName(dtype)), {""}}, {buffer}), IsOk());
  }
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), static_cast<size_t>(types));
  for (const Json& line : lines) EXPECT_EQ(line["value"].items.size(), 3U) << line["name"].text;
}

TEST_F(JsonLinesSinkTest, JsonLinesAreAppendedOrReplaced) {
  const auto write = [&](bool append, int32_t value) {
    const auto sink = JsonLines(append, false);
    EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(value)}), IsOk());
    // The destructor writes the remaining records.
  };
  const auto values = [&] {
    std::vector<double> all;
    for (const Json& line : ReadJsonLines()) all.push_back(line["value"].number);
    return all;
  };
  write(false, 1);
  write(true, 2);
  EXPECT_THAT(values(), ElementsAre(1, 2));
  write(false, 3);
  EXPECT_THAT(values(), ElementsAre(3));
}

TEST_F(JsonLinesSinkTest, LargeBatchIsWrittenInParts) {
  const auto sink = JsonLines(false, false);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Zeros(DType::kInt8, {20'000})}), IsOk());
  }
  EXPECT_FALSE(Contents().empty());
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(ReadJsonLines().size(), 20U);
}

TEST_F(JsonLinesSinkTest, FoldersOfTheFileAreMade) {
  const std::filesystem::path folder = path_.string() + ".folder";
  EXPECT_THAT(Open(folder / "of" / "runs.jsonl"), IsOk());
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "of" / "runs.jsonl"));
  std::filesystem::remove_all(folder);
}

TEST_F(JsonLinesSinkTest, FileThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(Open("/dev/null/folder/file"),
              StatusIs(StatusCode::kNotFound, "cannot open '/dev/null/folder/file' for JSON lines: Not a directory"));
  if (geteuid() == 0) return;  // root may write anywhere.
  std::ofstream(path_).close();
  std::filesystem::permissions(path_, std::filesystem::perms::none);
  EXPECT_THAT(Open(path_), StatusIs(StatusCode::kPermissionDenied, path_.string()));
}

TEST_F(JsonLinesSinkTest, FullDiskIsAnErrorAtTheFlushAndDoesNotComeBack) {
  const auto sink = Open("/dev/full");
  ASSERT_THAT(sink, IsOk());
  EXPECT_THAT(Deliver(*sink.value(), kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink.value()->Flush(),
              StatusIs(StatusCode::kInternal, "cannot write to '/dev/full': No space left on device"));
  EXPECT_THAT(sink.value()->Flush(), IsOk()) << "the lost lines are not written again";
}

}  // namespace
}  // namespace callout::internal
