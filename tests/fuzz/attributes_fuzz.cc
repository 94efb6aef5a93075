// SPDX-License-Identifier: Apache-2.0
//
// Call sites of programs: attributes of any names, types and values, and operands and results of any shapes. XLA itself
// guarantees that pointers and sizes fit each other, that names are unique, and that memory is there for all elements.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>

#include "delivery/delivery.h"
#include "ffi/handlers.h"
#include "ffi/image_attributes.h"
#include "frame/attributes.h"
#include "fuzz.h"
#include "kinds/kinds.h"
#include "registry/registry.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"

namespace callout::fuzz {
namespace {

using internal::FakeCallback;
using internal::FakeRuntime;
using internal::FakeSite;
using internal::FrameBuilder;
using internal::TestBuffer;

// Without "platform": code that a program carries is not to be run here.
constexpr const char* kNames[] = {
    "aliases",    "attributes",  "callback",        "deferred",        "every",        "label",      "lane_dims",
    "lane_masks", "leaves",      "library",         "min_interval_ns", "names",        "offsets",    "on_full",
    "ordered",    "threaded",    "bytes",           "digest",          "symbol",       "",           "step",
    "sample_ppb", "only_device", "only_process",    "can_fail",        "grid",         "block",      "image",
    "faults",     "pointers",    "parameter_bytes", "parameter_block", "shared_bytes", "cooperative"};
// What a program may call, and some of what it may not.
constexpr const char* kCallbacks[] = {"f",
                                      "watch:1;ni;report",
                                      "watch:1;n;stop",
                                      "id_print:1;5;1000000;tx:,d,t;(,t[,l0,b2,l1,t],)",
                                      "id_print:1;-1;1;;l0",
                                      "id_print:1;1000;1000000;;tNone",
                                      "progress_clock:",
                                      "progress_bar:%5B1%5D",
                                      "one array"};

// Takes taps of one array, as a function that was traced for one.
class OneArray final : public FakeCallback {
 public:
  OneArray() : FakeCallback("one array") {
    on_deliver = [](const internal::Record& record) {
      CALLOUT_CHECK(record.buffers.size() == 1, "a record of another number of arrays");
      return OkStatus();
    };
  }
  Status CheckTap(size_t num_leaves) const override {
    return num_leaves == 1 ? OkStatus() : InvalidArgument("one array");
  }
};
constexpr int64_t kMostLanes = 1 << 10;

// The values behind a frame's attributes, as XLA lays them out.
class Values {
 public:
  explicit Values(FuzzedDataProvider& data) : data_(data) {}

  XLA_FFI_Attrs Dictionary(int depth) {
    std::map<std::string, std::pair<XLA_FFI_AttrType, void*>> entries;
    for (size_t i = data_.ConsumeIntegralInRange<size_t>(0, 8); i > 0; --i) {
      const std::string name = data_.ConsumeIntegralInRange(0, 7) == 0 ? data_.ConsumeRandomLengthString(12)
                                                                       : data_.PickValueInArray(kNames);
      entries[name] = data_.ConsumeBool() ? Plausible(name, depth) : Value(depth);
    }
    if (depth == 0 && data_.ConsumeIntegralInRange(0, 15) != 0)
      entries["callback"] = Text(data_.PickValueInArray(kCallbacks));
    std::vector<XLA_FFI_AttrType>& types = types_.emplace_back();
    std::vector<XLA_FFI_ByteSpan*>& names = names_.emplace_back();
    std::vector<void*>& values = values_.emplace_back();
    for (const auto& [name, value] : entries) {
      types.push_back(value.first);
      names.push_back(static_cast<XLA_FFI_ByteSpan*>(Text(name).second));
      values.push_back(value.second);
    }
    return {XLA_FFI_Attrs_STRUCT_SIZE,
            nullptr,
            static_cast<int64_t>(entries.size()),
            types.data(),
            names.data(),
            values.data()};
  }

 private:
  std::pair<XLA_FFI_AttrType, void*> Text(const std::string& text) {
    const std::string& kept = texts_.emplace_back(text);
    return {XLA_FFI_AttrType_STRING, &spans_.emplace_back(XLA_FFI_ByteSpan{kept.data(), kept.size()})};
  }

  // Aligned memory for `count` elements of any type.
  void* Memory(size_t count) {
    std::vector<int64_t>& memory = numbers_.emplace_back(2 * count + 2);
    for (size_t i = 0; i < count; ++i) {
      const bool is_small = data_.ConsumeBool();
      memory[i] = is_small ? data_.ConsumeIntegralInRange<int64_t>(-1, 6) : data_.ConsumeIntegral<int64_t>();
    }
    return memory.data();
  }

  XLA_FFI_DataType ElementType() {
    if (data_.ConsumeIntegralInRange(0, 3) != 0) return XLA_FFI_DataType_S64;
    return static_cast<XLA_FFI_DataType>(data_.ConsumeIntegralInRange(0, 40));
  }

  std::pair<XLA_FFI_AttrType, void*> Number(int64_t value) {
    std::vector<int64_t>& memory = numbers_.emplace_back(2);
    memory[0] = value;
    return {XLA_FFI_AttrType_SCALAR, &scalars_.emplace_back(XLA_FFI_Scalar{XLA_FFI_DataType_S64, memory.data()})};
  }

  // Of the type that the attribute has, so that what stands behind it is reached.
  std::pair<XLA_FFI_AttrType, void*> Plausible(std::string_view name, int depth) {
    if (name == "leaves") return Text(data_.PickValueInArray({"", "a\nb", "a\n", "step", "a\nb\nc"}));
    for (const std::string_view text : {"label", "names", "bytes", "digest", "symbol", "parameter_block"}) {
      if (name == text) return Text(data_.ConsumeRandomLengthString(24));
    }
    for (const std::string_view list :
         {"aliases", "lane_dims", "lane_masks", "grid", "block", "pointers", "parameter_bytes"}) {
      if (name != list) continue;
      const auto count = data_.ConsumeIntegralInRange<size_t>(0, 4);
      return {XLA_FFI_AttrType_ARRAY, &arrays_.emplace_back(XLA_FFI_Array{XLA_FFI_DataType_S64, count, Memory(count)})};
    }
    for (const std::string_view dictionary : {"attributes", "library", "image", "faults"}) {
      if (name == dictionary && depth < 2) {
        return {XLA_FFI_AttrType_DICTIONARY, &dictionaries_.emplace_back(Dictionary(depth + 1))};
      }
    }
    return Number(data_.ConsumeIntegralInRange<int64_t>(-1, 3));
  }

  std::pair<XLA_FFI_AttrType, void*> Value(int depth) {
    switch (data_.ConsumeIntegralInRange(0, depth < 2 ? 3 : 2)) {
      case 0:
        return {XLA_FFI_AttrType_SCALAR, &scalars_.emplace_back(XLA_FFI_Scalar{ElementType(), Memory(1)})};
      case 1: {
        const auto count = data_.ConsumeIntegralInRange<size_t>(0, 6);
        return {XLA_FFI_AttrType_ARRAY, &arrays_.emplace_back(XLA_FFI_Array{ElementType(), count, Memory(count)})};
      }
      case 2:
        return Text(data_.ConsumeRandomLengthString(40));
      default:
        return {XLA_FFI_AttrType_DICTIONARY, &dictionaries_.emplace_back(Dictionary(depth + 1))};
    }
  }

  FuzzedDataProvider& data_;
  std::deque<std::string> texts_;
  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<std::vector<int64_t>> numbers_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_Attrs> dictionaries_;
  std::deque<std::vector<XLA_FFI_AttrType>> types_;
  std::deque<std::vector<XLA_FFI_ByteSpan*>> names_;
  std::deque<std::vector<void*>> values_;
};

TestBuffer Buffer(FuzzedDataProvider& data) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt32,      DType::kUint32, DType::kInt64,
                              DType::kInt4,    DType::kComplex128, DType::kToken};
  const DType dtype = data.PickValueInArray(kTypes);
  std::vector<int64_t> dims(dtype == DType::kToken ? 0 : data.ConsumeIntegralInRange<size_t>(0, 3));
  for (int64_t& extent : dims) extent = data.ConsumeIntegralInRange<int64_t>(0, 4);
  return TestBuffer::Zeros(dtype, std::move(dims));
}

bool HasFewLanes(const XLA_FFI_Attrs& attrs) {
  const auto extents = internal::Int64ArrayAttribute(attrs, "lane_dims");
  int64_t lanes = 1;
  for (const int64_t extent : extents.ok() ? *extents : std::span<const int64_t>()) {
    if (extent > 0 && lanes > kMostLanes / extent) return false;
    lanes *= std::max<int64_t>(extent, 1);
  }
  return true;
}

FakeRuntime& Runtime() {
  static FakeRuntime& runtime = [&]() -> FakeRuntime& {
    FakeRuntime& made = FakeRuntime::ForMinor(3);
    for (XLA_FFI_Handler* handler : {&callout_v1_call_instantiate, &callout_v1_call_execute,
                                     &callout_v1_tap_instantiate, &callout_v1_tap_execute, &callout_v1_check_execute}) {
      CALLOUT_CHECK(made.QueryMetadata(handler).status.ok(), "the handlers take the runtime");
    }
    const auto callback = std::make_shared<FakeCallback>("f");
    callback->on_call = [](const callout_call& call) {
      for (uint32_t i = 0; i < call.num_results; ++i) {
        if (call.results[i].size_bytes > 0) std::memset(call.results[i].data, 1, call.results[i].size_bytes);
      }
      return call.num_args == 3 ? InternalError("three operands") : OkStatus();
    };
    CALLOUT_CHECK(internal::Registry::Get().Register("f", callback, /*replace=*/false).ok(), "the name is free");
    CALLOUT_CHECK(internal::Registry::Get().Register("one array", std::make_shared<OneArray>(), false).ok(), "free");
    internal::RegisterKinds();
    CALLOUT_CHECK(internal::Registry::Get().Find("watch:1;ni;report").ok(), "programs have the core's kinds");
    return made;
  }();
  return runtime;
}

}  // namespace

void Try(std::string_view bytes) {
  using Handlers = std::pair<XLA_FFI_Handler*, XLA_FFI_Handler*>;
  const std::array<Handlers, 3> handlers = {Handlers{&callout_v1_call_instantiate, &callout_v1_call_execute},
                                            Handlers{&callout_v1_tap_instantiate, &callout_v1_tap_execute},
                                            Handlers{nullptr, &callout_v1_check_execute}};
  const FakeRuntime& runtime = Runtime();
  FuzzedDataProvider data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const auto [instantiate, execute] = data.PickValueInArray(handlers);
  Values values(data);
  const XLA_FFI_Attrs attrs = values.Dictionary(0);
  {
    internal::Attributes attributes;
    if (attributes.Decode(attrs, "attributes").ok()) {
      for (const callout_attribute& one : attributes.view()) CALLOUT_CHECK(one.name != nullptr, "no name");
    }
  }
  (void)internal::DecodeImageCall(attrs);
  FrameBuilder frame;
  for (int64_t i = 0; i < attrs.size; ++i) {
    frame.Attr({attrs.names[i]->ptr, attrs.names[i]->len}, attrs.types[i], attrs.attrs[i]);
  }
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) frame.Arg(Buffer(data));
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) {
    const TestBuffer result = Buffer(data);
    frame.Ret(result.dtype(), TestBuffer(result).dims());
  }
  {
    FakeSite site(runtime, instantiate, execute);
    const bool ready = instantiate == nullptr || site.Instantiate(frame).ok();
    if (ready && HasFewLanes(attrs)) (void)site.Execute(frame);
  }
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  CALLOUT_CHECK(internal::Delivery::Get().Drain(soon).empty(), "taps that are not delivered");
  CALLOUT_CHECK(FakeRuntime::live_errors() == 0, "errors are left");
}

}  // namespace callout::fuzz
