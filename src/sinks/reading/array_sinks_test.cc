// SPDX-License-Identifier: Apache-2.0
//
// Tests of the sinks that write arrays. The command's reader reads the arrays back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "callout/pjrt/written_rows.h"
#include "sinks/arrays/arrow_batch.h"
#include "sinks/arrays/npy_sink.h"
#include "sinks/arrays/zarr_array.h"
#include "sinks/catalog/callback_kinds.h"
#include "sinks/files/file_sink.h"
#include "testing/file_size_limit.h"
#include "testing/log_capture.h"
#include "testing/sink_fixture.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

namespace fs = std::filesystem;
using internal::ArrowColumn;
using internal::FileSizeLimit;
using internal::IsOk;
using internal::LogCapture;
using internal::SiteInfo;
using internal::StatusIs;
using internal::TestBuffer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ArraySinksTest : public internal::SinkFolderTest {
 protected:
  /// Makes a sink from `options`, the text before the colon, that writes `name` in the test's folder.
  auto Make(const std::string& options, const std::string& name) {
    return internal::MakeSink("log", options + ":" + (path_ / name).string());
  }
  /// Sends a record whose leaves have `elements` elements of one value each.
  static Status Send(internal::Callback& sink, const SiteInfo& site, const std::vector<int64_t>& elements,
                     float value) {
    std::vector<TestBuffer> buffers;
    for (const int64_t some : elements) {
      buffers.push_back(TestBuffer::Of<float>({some}, std::vector<float>(static_cast<size_t>(some), value)));
    }
    return Deliver(sink, site, std::move(buffers));
  }
  void Put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  std::string Bytes(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Returns the first characters of each value.
  std::vector<std::string> Values(const std::string& name) const {
    std::vector<std::string> values;
    EXPECT_THAT(ForEachWrittenRow(path_ / name,
                                  [&](const WrittenRow& row) {
                                    values.push_back(row.back().text.substr(0, 2));
                                    return true;
                                  }),
                IsOk());
    return values;
  }
};

TEST_F(ArraySinksTest, ArrowGoesOnWithItsOwnColumnsAlone) {
  using Kind = ArrowColumn::Kind;
  const std::vector<ArrowColumn> own = {{.name = "name", .kind = Kind::kText},
                                        {.name = "step", .dtype = DType::kInt64},
                                        {.name = "device", .dtype = DType::kInt32},
                                        {.name = "process", .dtype = DType::kInt32},
                                        {.name = "time", .kind = Kind::kTime, .dtype = DType::kInt64}};
  Put("own", internal::SchemaMessage(own));
  EXPECT_THAT(Make("arrow,append", "own"), IsOk());
  for (const auto& [place, column] : {std::pair(size_t{0}, ArrowColumn{.name = "name", .dtype = DType::kInt64}),
                                      {1, {.name = "step", .dtype = DType::kInt8}},
                                      {1, {.name = "step", .dtype = DType::kInt64, .is_tensor = true, .shape = {2}}},
                                      {2, {.name = "device", .dtype = DType::kInt64}},
                                      {4, {.name = "time", .dtype = DType::kInt64}}}) {
    std::vector<ArrowColumn> columns = own;
    columns[place] = column;
    std::string bytes = internal::SchemaMessage(columns);
    internal::ArrowBatch batch(columns);
    for (size_t i = 0; i < columns.size(); ++i) batch.column(i).AddNull(0);
    batch.EndRow(0);
    for (const std::string_view part : batch.Message()) bytes += part;
    Put("other", bytes);
    const std::string expected = "at place " + std::to_string(place) + " is '" + column.name + "' of ";
    EXPECT_THAT(Make("arrow,append", "other").status(), StatusIs(StatusCode::kInvalidArgument, expected));
    EXPECT_EQ(Bytes("other"), bytes);
  }
}

TEST_F(ArraySinksTest, ArrowEmptiesNoOtherFile) {
  const LogCapture log;
  for (const std::string bytes : {"a", "notes",
                                  "\xFF\xFF"
                                  "ab"}) {
    Put("short", bytes);
    EXPECT_THAT(Make("arrow,append", "short").status(),
                StatusIs(StatusCode::kInvalidArgument, "it is no Arrow stream"));
    EXPECT_EQ(Bytes("short"), bytes);
  }
  for (const char* torn : {"\xFF\xFF", "\xFF\xFF\xFF\xFF\x10"}) {
    Put("short", torn);
    EXPECT_THAT(Make("arrow,append", "short"), IsOk());
    EXPECT_EQ(Bytes("short"), "");
  }
}

// Deeper nesting would overflow the stack of programs that print nested lists.
TEST_F(ArraySinksTest, ArraysOfMoreThan64AxesAreNoneOfThem) {
  for (const size_t rank : {64, 65}) {
    const std::vector<int64_t> ones(rank - 1, 1);
    const internal::ZarrArray zarr = {DType::kInt8, ones, ones, 1, 1, {}};
    EXPECT_EQ(internal::ParseZarrArray(internal::ZarrArrayText(zarr)).ok(), rank == 64);
    std::vector<int64_t> all(rank, 1);
    const internal::NpyHead npy = {DType::kInt8, all, 0};
    EXPECT_EQ(internal::ParseNpyHead(internal::NpyHeadText(npy).value()).ok(), rank == 64);
    Put("arrow", internal::SchemaMessage({{.name = "a", .dtype = DType::kInt8, .is_tensor = true, .shape = all}}));
    const Status status = ForEachWrittenRow(path_ / "arrow", [](const WrittenRow&) { return true; });
    EXPECT_EQ(status.ok(), rank == 64) << status.message();
  }
}

TEST_F(ArraySinksTest, NoSinkWritesWhatIsNotRead) {
  for (const size_t rank : {63, 65}) {
    const std::vector<int64_t> ones(rank, 1);
    for (const char* kind : {"arrow", "npy", "zarr"}) {
      const auto sink = Make(kind, kind).value();
      const Status status = Deliver(*sink, internal::kSingle, {TestBuffer::Of<float>(ones, {1})});
      EXPECT_THAT(sink->Flush(), IsOk());
      if (rank == 63) {
        EXPECT_THAT(status, IsOk());
        EXPECT_EQ(Values(kind).size(), 1U) << kind;
      } else {
        EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, " axes, where files have 64 at most"));
      }
    }
  }
}

TEST_F(ArraySinksTest, ArrowHasTheNameOfEachRecord) {
  const SiteInfo a = {"a", {"x"}}, b = {"bb", {"x"}};
  {
    const auto sink = Make("arrow", "log").value();
    for (const SiteInfo* site : {&a, &a, &b, &a, &b, &b}) EXPECT_THAT(Send(*sink, *site, {1}, 1), IsOk());
    EXPECT_THAT(sink->Flush(), IsOk());
    EXPECT_THAT(Send(*sink, b, {1}, 1), IsOk());
  }
  std::vector<std::string> names;
  EXPECT_THAT(ForEachWrittenRow(path_ / "log",
                                [&](const WrittenRow& row) {
                                  names.push_back(row[0].text + row[1].text);
                                  return true;
                                }),
              IsOk());
  EXPECT_THAT(names, ElementsAre("a0", "a1", "bb0", "a2", "bb1", "bb2", "bb3"));
}

// The sink writes a large row from the record's own memory, without a copy. A null in a column of large rows takes no
// memory.
TEST_F(ArraySinksTest, ArrowHasLargeRowsAndNullsAmongSmallOnes) {
  constexpr int64_t kLarge = 100'000;
  const SiteInfo both = {"t", {"large", "small"}}, one = {"t", {"small"}};
  const auto sink = Make("arrow", "log").value();
  for (const float value : {1.0F, 2.0F, 3.0F}) {
    EXPECT_THAT(Send(*sink, value == 2 ? one : both,
                     value == 2 ? std::vector<int64_t>{1} : std::vector{kLarge, int64_t{1}}, value),
                IsOk());
  }
  EXPECT_THAT(sink->Flush(), IsOk());
  std::vector<std::string> cells;
  EXPECT_THAT(
      ForEachWrittenRow(path_ / "log",
                        [&](const WrittenRow& row) {
                          const std::string& large = row[5].text;
                          cells.push_back(large.substr(0, 2) + (large.empty() ? "" : large.substr(large.size() - 2)));
                          cells.push_back(row[6].text.substr(0, 2));
                          return true;
                        }),
      IsOk());
  EXPECT_THAT(cells, ElementsAre("[11]", "[1", "", "[2", "[33]", "[3"));
}

// The columns of an appended file may be larger than memory.
TEST_F(ArraySinksTest, ANullTakesAsMuchDiskAsAValueAndNoMemory) {
  Put("log", internal::SchemaMessage({{.name = "name", .kind = ArrowColumn::Kind::kText},
                                      {.name = "step", .dtype = DType::kInt64},
                                      {.name = "device", .dtype = DType::kInt32},
                                      {.name = "process", .dtype = DType::kInt32},
                                      {.name = "time", .kind = ArrowColumn::Kind::kTime, .dtype = DType::kInt64},
                                      {.name = "w", .dtype = DType::kFloat64, .is_tensor = true, .shape = {1 << 30}},
                                      {.name = "x", .dtype = DType::kFloat32}}));
  const auto before = Bytes("log");
  const auto sink = Make("arrow,append", "log").value();
  const FileSizeLimit limit(1 << 20);
  const auto most_kilobytes = [] {
    rusage usage;
    EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
  };
  const auto most_before = most_kilobytes();
  EXPECT_THAT(Deliver(*sink, {"t", {"x"}}, {TestBuffer::Of<float>({}, {1})}),
              StatusIs(StatusCode::kInternal, "File too large; 1 records are lost"));
  EXPECT_LT(most_kilobytes(), most_before + (1 << 20)) << "the null has 8 GiB";
  EXPECT_EQ(Bytes("log"), before) << "what was written of it is cut off";
}

TEST_F(ArraySinksTest, AChunkThatIsNotThereHasTheFillValue) {
  const auto sink = Make("zarr,chunk_rows=1", "z").value();
  for (const float value : {1.0F, 2.0F, 3.0F}) EXPECT_THAT(Send(*sink, internal::kSingle, {2}, value), IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
  ASSERT_EQ(fs::remove_all(path_ / "z/loss/c/1"), 2U);
  EXPECT_THAT(Values("z"), ElementsAre("[1", "[0", "[3"));
}

TEST_F(ArraySinksTest, OneOfThoseThatBeginAStoreTogetherWritesIt) {
  constexpr int kRounds = 100;
  std::barrier together(2);
  std::array<std::vector<Status>, 2> statuses;
  std::array<std::vector<std::shared_ptr<internal::Callback>>, 2> sinks;
  const auto open = [&](size_t thread) {
    for (int round = 0; round < kRounds; ++round) {
      together.arrive_and_wait();
      auto sink = Make("zarr", std::to_string(round));
      statuses[thread].push_back(sink.status());
      if (sink.ok()) sinks[thread].push_back(std::move(sink).value());
      together.arrive_and_wait();
      sinks[thread].clear();
    }
  };
  std::thread other(open, 1);
  open(0);
  other.join();
  for (size_t round = 0; round < kRounds; ++round) {
    const size_t refused = statuses[0][round].ok() ? 1 : 0;
    EXPECT_THAT(statuses[1 - refused][round], IsOk());
    EXPECT_THAT(statuses[refused][round], StatusIs(StatusCode::kAlreadyExists, "another sink of this process"));
  }
}

TEST_F(ArraySinksTest, AForkedChildEndsThemWithoutAWord) {
  std::vector<std::shared_ptr<internal::Callback>> sinks;
  for (const char* kind : {"arrow", "npy", "zarr"}) {
    sinks.push_back(Make(kind, kind).value());
    EXPECT_THAT(Send(*sinks.back(), internal::kSingle, {2}, 1), IsOk());
  }
  const pid_t child = fork();
  if (child == 0) {
    const LogCapture log;
    bool is_right = true;
    for (auto& sink : sinks) {
      is_right = is_right && Send(*sink, internal::kSingle, {2}, 2).code() == StatusCode::kFailedPrecondition;
      is_right = is_right && sink->Flush().ok() && internal::CloseFile(*sink).ok();
      sink.reset();
    }
    _exit(is_right && log.messages().empty() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  sinks.clear();
  for (const char* kind : {"arrow", "npy", "zarr"}) EXPECT_THAT(Values(kind), ElementsAre("[1")) << kind;
}

TEST_F(ArraySinksTest, AnNpyFileWhoseHeadDoesNotFitBeginsLater) {
  for (const char* name : {"one", "{leaf}"}) {
    const auto sink = Make("npy,append", name).value();
    {
      const FileSizeLimit limit(20);
      EXPECT_THAT(Send(*sink, internal::kSingle, {2}, 1), StatusIs(StatusCode::kInternal, "File too large"));
    }
    EXPECT_THAT(Send(*sink, internal::kSingle, {2}, 2), IsOk());
    EXPECT_THAT(sink->Flush(), IsOk());
    {
      const FileSizeLimit limit(20);
      EXPECT_THAT(Send(*sink, internal::kSingle, {2}, 3), IsOk());
      EXPECT_THAT(sink->Flush(), StatusIs(StatusCode::kInternal, "1 records are lost"));
    }
    EXPECT_THAT(sink->Flush(), IsOk()) << "the head is told again";
    EXPECT_THAT(Values(std::string(name) == "one" ? "one" : "value"), ElementsAre("[2", "[0")) << name;
  }
}

TEST_F(ArraySinksTest, LeavesOfARecordKeepTheirRowWhereOneIsLost) {
  const SiteInfo site = {"t", {"large", "small"}};
  for (const char* options : {"npy", "zarr,chunk_rows=10"}) {
    const bool is_zarr = std::string(options) != "npy";
    const auto sink = Make(options, is_zarr ? "z" : "{leaf}").value();
    const std::vector<int64_t> elements = {1024, 2};
    EXPECT_THAT(Send(*sink, site, elements, 1), IsOk());
    EXPECT_THAT(sink->Flush(), IsOk());
    {
      const FileSizeLimit limit(4200 + (is_zarr ? 0 : 128));
      EXPECT_THAT(Send(*sink, site, elements, 2), IsOk());
      EXPECT_THAT(sink->Flush(), StatusIs(StatusCode::kInternal, "File too large; 1 records are lost"));
    }
    EXPECT_THAT(Send(*sink, site, elements, 3), IsOk());
    EXPECT_THAT(sink->Flush(), IsOk());
    EXPECT_THAT(Values(is_zarr ? "z/t/small" : "small"), ElementsAre("[1", "[2", "[3")) << options;
    EXPECT_THAT(Values(is_zarr ? "z/t/large" : "large"), ElementsAre("[1", ::testing::_, "[3")) << options;
  }
}

TEST_F(ArraySinksTest, AStoreMayHaveMoreArraysThanAProcessHasFiles) {
  constexpr int kLeaves = 300, kFiles = 250;
  SiteInfo site = {"t", {}};
  for (int i = 0; i < kLeaves; ++i) site.leaf_names.push_back("x" + std::to_string(i));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = kFiles;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    const auto sink = Make("zarr,fsync=1000", "z").value();
    for (const float value : {1.0F, 2.0F}) {
      EXPECT_THAT(Send(*sink, site, std::vector<int64_t>(kLeaves, 1), value), IsOk());
      EXPECT_THAT(sink->Flush(), IsOk());
    }
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(Values("z/t/x0"), ElementsAre("[1", "[2"));
  EXPECT_EQ(Values("z").size(), 2U * kLeaves);
}

TEST_F(ArraySinksTest, AChunkOfMoreBytesThanAFileCanHaveIsAnError) {
  const auto sink = Make("zarr,chunk_rows=281474976710656", "z").value();  // 2^48
  EXPECT_THAT(Send(*sink, internal::kSingle, {16384}, 1),
              StatusIs(StatusCode::kInvalidArgument, "281474976710656 rows of f32[16384] are more than a chunk"));
  internal::ZarrArray array = {DType::kFloat32, {1}, {1}, 1, int64_t{1} << 62U, {}};
  EXPECT_THAT(internal::ParseZarrArray(internal::ZarrArrayText(array)).status(),
              StatusIs(StatusCode::kInvalidArgument, "chunk_grid"));
}

}  // namespace
}  // namespace callout::pjrt
