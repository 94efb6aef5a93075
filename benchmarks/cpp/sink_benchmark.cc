// SPDX-License-Identifier: Apache-2.0
//
// Measures the work of sinks for a record, on the delivery thread: a step with two scalars, in batches as large as the
// thread takes after it has fallen behind.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "callout/dtype.h"
#include "core/base/ticks.h"
#include "sinks/catalog/callback_kinds.h"
#include "sinks/sink.h"

namespace callout::internal {
namespace {

constexpr int kBatch = 8192, kLargeBatch = 32;

class Folder {
 public:
  Folder() { path_ = mkdtemp(name_.data()); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::string name_ = "/tmp/callout_sinks.XXXXXX";
  std::filesystem::path path_;
};

using Make = std::function<Result<std::shared_ptr<Callback>>(const Folder& folder)>;

void Deliver(benchmark::State& state, const Make& make, size_t elements) {
  const int batch = elements == 1 ? kBatch : kLargeBatch;
  const Folder folder;
  const auto sink = make(folder);
  if (!sink.ok()) return state.SkipWithError(sink.status().c_message());
  std::vector<float> values(elements, 0.1F);
  const auto extent = static_cast<int64_t>(elements);
  callout_buffer buffers[2] = {};
  for (callout_buffer& buffer : buffers) {
    buffer.dtype = static_cast<uint32_t>(DType::kFloat32);
    buffer.rank = elements == 1 ? 0 : 1;
    buffer.dims = const_cast<int64_t*>(&extent);
    buffer.data = values.data();
    buffer.size_bytes = values.size() * sizeof(float);
  }
  void* blocks[2] = {};
  const SiteInfo site = {.label = "train", .leaf_names = {"loss", "accuracy"}, .id = 1};
  Record record = {};
  record.site = &site;
  record.buffers = buffers;
  record.blocks = blocks;
  for (auto _ : state) {
    for (int i = 0; i < batch; ++i) {
      values[0] += 0.1F;
      record.ticks = Ticks();
      ++record.sequence;
      benchmark::DoNotOptimize((*sink)->Deliver(record));
    }
    benchmark::DoNotOptimize((*sink)->Flush());
  }
  state.SetItemsProcessed(state.iterations() * batch);
}

Result<std::shared_ptr<Callback>> Null(const Folder&) { return MakeSink("null", "null"); }
std::string ToNothing(const std::string& rest) {
  static const int nothing = open("/dev/null", O_WRONLY);
  return "print,fd=" + std::to_string(nothing) + rest;
}
Result<std::shared_ptr<Callback>> Print(const Folder&) { return MakeSink("print", ToNothing("")); }
Result<std::shared_ptr<Callback>> PrintFormat(const Folder&) {
  return MakeSink("print", ToNothing(":loss {loss:.4f} accuracy {accuracy:.1%}"));
}
Result<std::shared_ptr<Callback>> Statistics(const Folder&) {
  return MakeSink("statistics", *FindSinkKind("statistics"), {});
}
Result<std::shared_ptr<Callback>> Histogram(const Folder&) {
  return MakeSink("histogram", *FindSinkKind("histogram"), {});
}
Result<std::shared_ptr<Callback>> TeeOfTwo(const Folder& folder) {
  return MakeTeeSink("tee", {Null(folder).value(), Null(folder).value()});
}
Result<std::shared_ptr<Callback>> JsonLines(const Folder& folder) {
  return MakeSink("json", "jsonl:" + (folder / "log"));
}
Result<std::shared_ptr<Callback>> JsonLinesRotated(const Folder& folder) {
  return MakeSink("json", "jsonl,rotate_bytes=10485760,keep=3:" + (folder / "log"));
}
Result<std::shared_ptr<Callback>> Csv(const Folder& folder) { return MakeSink("csv", "csv:" + (folder / "log")); }
Result<std::shared_ptr<Callback>> Arrow(const Folder& folder) { return MakeSink("arrow", "arrow:" + (folder / "log")); }
Result<std::shared_ptr<Callback>> ArrowToNothing(const Folder&) { return MakeSink("arrow", "arrow:/dev/null"); }
Result<std::shared_ptr<Callback>> Npy(const Folder& folder) {
  return MakeSink("npy", "npy:" + (folder / "{leaf}.npy"));
}
Result<std::shared_ptr<Callback>> Zarr(const Folder& folder) { return MakeSink("zarr", "zarr:" + (folder / "store")); }
Result<std::shared_ptr<Callback>> TensorBoard(const Folder& folder) {
  return MakeSink("tensorboard", "tensorboard:" + (folder / "log"));
}

// Limits the number of records, because files grow: these are less than a gigabyte for each sink.
constexpr int kBatches = 128;

BENCHMARK_CAPTURE(Deliver, Null, Null, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Print, Print, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, PrintFormat, PrintFormat, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Statistics, Statistics, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Histogram, Histogram, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, TeeOfTwo, TeeOfTwo, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, JsonLines, JsonLines, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, JsonLinesRotated, JsonLinesRotated, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Csv, Csv, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Arrow, Arrow, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, ArrowToNothing, ArrowToNothing, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Npy, Npy, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, Zarr, Zarr, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, TensorBoard, TensorBoard, 1)->Iterations(kBatches);
BENCHMARK_CAPTURE(Deliver, TensorBoardHistograms, TensorBoard, 10'000)->Iterations(100);

// Two arrays of 0.5 MB in each record, in two batches of 32: they fit into a disk's cache, or into memory.
constexpr size_t kHalfMegabyte = (1 << 19) / sizeof(float);

BENCHMARK_CAPTURE(Deliver, ArrowLarge, Arrow, kHalfMegabyte)->Iterations(2);
BENCHMARK_CAPTURE(Deliver, NpyLarge, Npy, kHalfMegabyte)->Iterations(2);
BENCHMARK_CAPTURE(Deliver, ZarrLarge, Zarr, kHalfMegabyte)->Iterations(2);

// Writes the same number of bytes by write() alone.
void WriteAlone(benchmark::State& state) {
  const Folder folder;
  const int fd = open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  const std::vector<float> values(kHalfMegabyte, 0.1F);
  for (auto _ : state) {
    for (int i = 0; i < 2 * kLargeBatch; ++i) {
      if (write(fd, values.data(), kHalfMegabyte * sizeof(float)) < 0) return state.SkipWithError("cannot write");
    }
  }
  close(fd);
  state.SetItemsProcessed(state.iterations() * kLargeBatch);
}
BENCHMARK(WriteAlone)->Iterations(2);

}  // namespace
}  // namespace callout::internal
