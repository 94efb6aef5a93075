// SPDX-License-Identifier: Apache-2.0
//
// Call sites of programs: attributes of any names, types and values, and operands and results of any shapes. XLA itself
// guarantees that pointers and sizes fit each other, that names are unique, and that memory is there for all elements.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "attributes/decode.h"
#include "attributes/tables.h"
#include "callbacks/registry.h"
#include "catalog/callback_kinds.h"
#include "cuda/handlers/image_site.h"
#include "delivery/delivery.h"
#include "ffi/handlers.h"
#include "frame/attributes.h"
#include "fuzz.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"

namespace callout::fuzz {
namespace {

using internal::FakeCallback;
using internal::FakeRuntime;
using internal::FakeSite;
using internal::FrameBuilder;
using internal::TestBuffer;

// The attributes of all targets and of their dictionaries, once each.
void Collect(std::span<const internal::AttributeDescription> rows,
             std::vector<const internal::AttributeDescription*>& found) {
  for (const internal::AttributeDescription& row : rows) {
    const auto is_same = [&](const auto* other) { return other->name == row.name; };
    if (std::ranges::none_of(found, is_same)) found.push_back(&row);
    Collect(row.entries, found);
  }
}

const std::vector<const internal::AttributeDescription*>& Rows() {
  static const auto& all = *[] {
    auto* rows = new std::vector<const internal::AttributeDescription*>;
    for (const internal::TargetAttributes& target : internal::AllTargetAttributes()) Collect(target.attributes, *rows);
    return rows;
  }();
  return all;
}

// What a program may call, and some of what it may not.
constexpr const char* kCallbacks[] = {"f",
                                      "check:1;raise;;1;1;bad",
                                      "check:1;warn;;1;1,1e;{value} {lane}",
                                      "nans:1;warn;ni;forward;0;0;0,0;0;log;1;0;f.py:3;;",
                                      "nans:1;raise;n;backward;0;1;1,1,1,0;1;log;1;1;f.py:3 in f;y;net",
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
      if (data_.ConsumeIntegralInRange(0, 7) == 0) {
        entries[data_.ConsumeRandomLengthString(12)] = Value(depth);
        continue;
      }
      const internal::AttributeDescription& row = *Rows()[data_.ConsumeIntegralInRange<size_t>(0, Rows().size() - 1)];
      entries[std::string(row.name)] = data_.ConsumeBool() ? Plausible(row, depth) : Value(depth);
      // Code that a program carries is not to be run here.
      if (const auto it = entries.find("platform"); it != entries.end()) it->second = Text("none");
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
  std::pair<XLA_FFI_AttrType, void*> Plausible(const internal::AttributeDescription& row, int depth) {
    using internal::AttributeType;
    if (row.name == "leaves") return Text(data_.PickValueInArray({"", "a\nb", "a\n", "step", "a\nb\nc"}));
    if (row.type == AttributeType::kString) return Text(data_.ConsumeRandomLengthString(24));
    if (row.type == AttributeType::kIntegers) {
      const auto count = data_.ConsumeIntegralInRange<size_t>(0, 4);
      return {XLA_FFI_AttrType_ARRAY, &arrays_.emplace_back(XLA_FFI_Array{XLA_FFI_DataType_S64, count, Memory(count)})};
    }
    if (row.type == AttributeType::kDictionary && depth < 2) {
      return {XLA_FFI_AttrType_DICTIONARY, &dictionaries_.emplace_back(Dictionary(depth + 1))};
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
                              DType::kInt4,    DType::kComplex128, DType::kToken,  DType::kBool};
  const DType dtype = data.PickValueInArray(kTypes);
  std::vector<int64_t> dims(dtype == DType::kToken ? 0 : data.ConsumeIntegralInRange<size_t>(0, 3));
  for (int64_t& extent : dims) extent = data.ConsumeIntegralInRange<int64_t>(0, 4);
  TestBuffer buffer = TestBuffer::Zeros(dtype, std::move(dims));
  if (dtype == DType::kBool && !buffer.bytes().empty()) buffer.bytes().back() = data.ConsumeBool() ? 1 : 0;
  return buffer;
}

bool HasFewLanes(const XLA_FFI_Attrs& attrs) {
  const auto said = internal::DecodeAttributes<internal::CallAttributes>(attrs);
  int64_t lanes = 1;
  for (const int64_t extent : said.ok() ? said->lane_dims : std::span<const int64_t>()) {
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
    if (attributes.Decode(&attrs).ok()) {
      for (const callout_attribute& one : attributes.view()) CALLOUT_CHECK(one.name != nullptr, "no name");
    }
  }
  const auto image = internal::DecodeAttributes<internal::ImageAttributes>(attrs);
  if (image.ok()) (void)internal::ImageCallOf(*image);
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
