// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/written_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "core/encoding/wire.h"
#include "sinks/arrays/zarr_array.h"
#include "sinks/catalog/callback_kinds.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/tf_record.h"
#include "testing/log_capture.h"
#include "testing/sink_fixture.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

namespace fs = std::filesystem;
using internal::IsOk;
using internal::StatusIs;
using internal::TestBuffer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class WrittenRowsTest : public internal::SinkFolderTest {
 protected:
  /// Writes two records with a sink of this kind to a file of this name. The second record is the double of the first.
  std::string Written(const std::string& kind, const std::string& name) {
    std::string path = path_ / name;
    auto sink = internal::MakeSink("log", kind + ":" + path);
    EXPECT_THAT(sink, IsOk());
    const internal::SiteInfo site = {"t", {"a", "n"}};
    for (const float scale : {1.0F, 2.0F}) {
      EXPECT_THAT(
          Deliver(**sink, site,
                  {TestBuffer::Of<float>({2, 2}, {0, scale, 2 * scale, 3 * scale}), TestBuffer(DType::kBool, {}, {1})}),
          IsOk());
    }
    EXPECT_THAT((*sink)->Flush(), IsOk());
    return path;
  }

  /// Appends to the file with a sink of this kind. Both steps may fail.
  static void GoOn(const std::string& kind, int fd) {
    const auto sink = internal::MakeSink("log", kind + ",append:/proc/self/fd/" + std::to_string(fd));
    if (!sink.ok()) return;
    const internal::SiteInfo site = {"t", {"a"}};
    (void)Deliver(**sink, site, {TestBuffer::Of<float>({2, 2}, {0, 1, 2, 3})});
    (void)internal::CloseFile(**sink);
  }

  static std::vector<std::string> Values(const std::string& path, const std::string& column) {
    std::vector<std::string> values;
    EXPECT_THAT(ForEachWrittenRow(path,
                                  [&](const WrittenRow& row) {
                                    for (const WrittenCell& cell : row) {
                                      if (cell.name == column) AppendCellJson(cell, values.emplace_back());
                                    }
                                    return true;
                                  }),
                IsOk());
    return values;
  }
};

TEST_F(WrittenRowsTest, EveryKindOfFileGivesItsRows) {
  for (const auto& [kind, name] : {std::pair("jsonl", "j"), {"arrow", "a"}}) {
    EXPECT_THAT(Values(Written(kind, name), "a"), ElementsAre("[[0,1],[2,3]]", "[[0,2],[4,6]]")) << kind;
    EXPECT_THAT(Values(path_ / name, "n"), ElementsAre("true", "true"));
    EXPECT_THAT(Values(path_ / name, "name"), ElementsAre("\"t\"", "\"t\""));
    EXPECT_THAT(Values(path_ / name, "device"), ElementsAre("2", "2"));
  }
  EXPECT_THAT(Values(Written("csv", "c"), "a.1.0"), ElementsAre("2.0", "4.0"));
  EXPECT_THAT(Values(path_ / "c", "n"), ElementsAre("true", "true"));
  Written("npy", "{leaf}.npy");
  EXPECT_THAT(Values(path_ / "a.npy", "value"), ElementsAre("[[0,1],[2,3]]", "[[0,2],[4,6]]"));
  EXPECT_THAT(Values(Written("zarr,chunk_rows=1", "z"), "value"),
              ElementsAre("[[0,1],[2,3]]", "[[0,2],[4,6]]", "true", "true"));
  EXPECT_THAT(Values(path_ / "z", "array"), ElementsAre("\"t/a\"", "\"t/a\"", "\"t/n\"", "\"t/n\""));
  EXPECT_THAT(Values(path_ / "z/t/n", "row"), ElementsAre("0", "1"));
  EXPECT_THAT(Values(Written("tensorboard,kinds=a=histogram", "tb"), "tag"),
              ElementsAre("\"t/a\"", "\"t/n\"", "\"t/a\"", "\"t/n\""));
  EXPECT_THAT(Values(path_ / "tb", "value"), ElementsAre(StartsWith("[["), "1", StartsWith("[["), "1"));
}

TEST_F(WrittenRowsTest, ScalarsOfEventFilesAreSimpleValuesOrTensors) {
  const float half = 0.5F;
  internal::WireWriter tensor, simple_value, tensor_value, summary, event;
  simple_value.AddFloat(2, half);
  tensor.AddMessage(5, {reinterpret_cast<const char*>(&half), sizeof(half)});
  tensor_value.AddMessage(8, tensor.bytes());
  summary.AddMessage(1, simple_value.bytes());
  summary.AddMessage(1, tensor_value.bytes());
  event.AddMessage(5, summary.bytes());
  std::string bytes;
  internal::AppendTfRecord(event.bytes(), bytes);
  std::ofstream(path_ / "events", std::ios::binary) << bytes;
  EXPECT_THAT(Values(path_ / "events", "value"), ElementsAre("0.5", "0.5"));
}

// Changes each byte of a file, and cuts the file at each length: reading succeeds or gives an error, and so does
// appending.
TEST_F(WrittenRowsTest, DamagedFilesAreErrors) {
  const internal::LogCapture log;
  Written("npy", "{leaf}.npy");
  Written("zarr", "z");
  Written("arrow", "a");
  const int fd = memfd_create("damaged", MFD_CLOEXEC);  // A memory file: thousands of files on a disk take too long.
  size_t refused = 0;
  for (const char* name : {"a", "a.npy", "z/t/a/zarr.json"}) {
    std::ifstream file(path_ / name, std::ios::binary);
    const std::string whole(std::istreambuf_iterator<char>(file), {});
    const auto look = [&](const std::string& bytes) {
      EXPECT_EQ(ftruncate(fd, 0), 0);
      EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
      int rows = 0;
      const auto visit = [&](const WrittenRow&) { return ++rows < 1000; };
      const Status status = std::string(name).ends_with(".json")
                                ? internal::ParseZarrArray(bytes).status()
                                : ForEachWrittenRow("/proc/self/fd/" + std::to_string(fd), visit);
      refused += status.ok() ? 0 : 1;
      if (!std::string(name).ends_with(".json")) GoOn(std::string(name) == "a" ? "arrow" : "npy", fd);
    };
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const char byte : {'\0', '\x7f', '\xff'}) {
        std::string bytes = whole;
        bytes[i] = byte;
        look(bytes);
      }
      if (i % 4 == 0) look(whole.substr(0, i));
    }
    const size_t before = refused;
    look(whole);
    EXPECT_EQ(refused, before) << name;
  }
  close(fd);
  EXPECT_GT(refused, 1000U);
}

TEST_F(WrittenRowsTest, RowsThatOnlyTheTextTellsOfEnd) {
  const int64_t claimed = int64_t{1} << 62, most = 1 << 20;
  fs::create_directories(path_ / "z");
  std::ofstream(path_ / "z/zarr.json") << internal::ZarrArrayText({DType::kInt8, {}, {}, claimed, 1, {{"", claimed}}});
  int64_t rows = 0;
  const auto visit = [&](const WrittenRow&) { return ++rows <= most; };
  EXPECT_THAT(ForEachWrittenRow(path_ / "z", visit),
              StatusIs(StatusCode::kInvalidArgument, "of the last 1048576 chunks, up to row 1048576, none is there"));
  EXPECT_EQ(rows, most);

  // All rows are in one chunk.
  std::ofstream(path_ / "z/zarr.json") << internal::ZarrArrayText(
      {DType::kInt8, {}, {}, claimed, claimed, {{"", claimed}}});
  rows = 0;
  EXPECT_THAT(ForEachWrittenRow(path_ / "z", visit),
              StatusIs(StatusCode::kInvalidArgument, "of the last 1048576 rows, up to row 1048576, none is there"));
  EXPECT_EQ(rows, most);
}

// A missing chunk of many rows counts as one chunk.
TEST_F(WrittenRowsTest, AHoleInTheRowsOfManyShardsIsZeros) {
  constexpr int64_t kHole = 20'000, kShards = 64;
  fs::create_directories(path_ / "z/c/1");
  std::ofstream(path_ / "z/zarr.json") << internal::ZarrArrayText(
      {DType::kInt8, {kShards}, {1}, kHole + 1, kHole, {{"3", kHole + 1}}});
  std::ofstream(path_ / "z/c/1/3") << '\7';
  int64_t rows = 0;
  std::string last;
  const auto visit = [&](const WrittenRow& row) {
    last = row.back().text;
    return ++rows > 0;
  };
  EXPECT_THAT(ForEachWrittenRow(path_ / "z", visit), IsOk());
  EXPECT_EQ(rows, kHole + 1);
  EXPECT_TRUE(last.starts_with("[0,0,0,7,0") || last.starts_with("[0, 0, 0, 7, 0")) << last;
}

TEST_F(WrittenRowsTest, ARowOfChunksThatOnlyTheTextTellsOfEnds) {
  const int64_t wide = 1 << 28;  // In bytes, each in a chunk of its own.
  fs::create_directories(path_ / "z");
  std::ofstream(path_ / "z/zarr.json") << internal::ZarrArrayText({DType::kInt8, {wide}, {1}, 1, 1, {{"0", 1}}});
  const auto visit = [](const WrittenRow&) { return true; };
  EXPECT_THAT(ForEachWrittenRow(path_ / "z", visit),
              StatusIs(StatusCode::kInvalidArgument, "of the last 1048576 chunks, up to row 0, none is there"));
}

TEST_F(WrittenRowsTest, ArraysWithAnotherFillValueAreErrors) {
  using internal::ParseZarrArray;
  for (const auto& [dtype, zero, others] : std::vector<std::tuple<DType, std::string, std::vector<std::string>>>{
           {DType::kInt8, "0", {"7", "false", "null"}},
           {DType::kFloat32, "0.0", {"-0.0", "1.0", "\"NaN\""}},
           {DType::kBool, "false", {"true", "0"}},
           {DType::kComplex64, "[0.0, 0.0]", {"[0.0, 1.0]", "[0.0]", "0.0"}}}) {
    const std::string text = internal::ZarrArrayText({dtype, {}, {}, 1, 1, {}});
    const std::string fill = "\"fill_value\": " + zero;
    ASSERT_THAT(text, HasSubstr(fill));
    EXPECT_THAT(ParseZarrArray(text), IsOk());
    for (const std::string& other : others) {
      std::string changed = text;
      changed.replace(text.find(fill), fill.size(), "\"fill_value\": " + other);
      EXPECT_THAT(ParseZarrArray(changed).status(), StatusIs(StatusCode::kInvalidArgument, "fill_value")) << other;
    }
  }
}

TEST_F(WrittenRowsTest, ArraysWithRowsOfOtherWritersAreErrors) {  // Found by `ci/fuzz.sh`.
  const auto parsed = [](const std::vector<int64_t>& axes, const std::string& writer) {
    return internal::ParseZarrArray(internal::ZarrArrayText({DType::kInt8, axes, axes, 1, 1, {{writer, 1}}})).status();
  };
  EXPECT_THAT(parsed({}, ""), IsOk());
  EXPECT_THAT(parsed({2}, "10"), IsOk());
  EXPECT_THAT(parsed({2, 3}, "0/12"), IsOk());
  for (const char* writer : {"", "0", "0/", "/0", "0//1", "0/1/2", "00/1", "-1/0", "a/b",
                             "0\xff"
                             "0",
                             "0/1/"}) {
    EXPECT_THAT(parsed({2, 3}, writer), StatusIs(StatusCode::kInvalidArgument, "rows")) << writer;
  }
  EXPECT_THAT(parsed({}, "0"), StatusIs(StatusCode::kInvalidArgument, "rows"));
}

TEST_F(WrittenRowsTest, OtherFilesAreNamed) {
  const auto status = [&](const std::string& name) {
    return ForEachWrittenRow(path_ / name, [](const WrittenRow&) { return true; });
  };
  EXPECT_THAT(status("none"), StatusIs(StatusCode::kNotFound, "No such file"));
  fs::create_directories(path_ / "folder");
  EXPECT_THAT(status("folder"), StatusIs(StatusCode::kInvalidArgument, "without a zarr.json"));
  for (const auto& [text, expected] : {std::pair("{\"a\": 1}\n{\n", "line 2 is no JSON object"),
                                       {"a,b\n1\n", "line 2 is none of the CSV"},
                                       {"\x93NUMPY\2____", "another version than 1"}}) {
    std::ofstream(path_ / "file") << text;
    EXPECT_THAT(status("file"), StatusIs(StatusCode::kInvalidArgument, expected));
  }
}

}  // namespace
}  // namespace callout::pjrt
