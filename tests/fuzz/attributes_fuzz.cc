// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes call sites of programs on a CPU: attributes of any names, types and values, and operands and results of any
// shapes. XLA itself guarantees that pointers and sizes match, that names are unique, and that memory exists for all
// elements.
#include <chrono>
#include <thread>

#include "call_sites.h"
#include "core/callbacks/rendezvous.h"
#include "core/frame/call_frame.h"

namespace callout::fuzz {
namespace {

constexpr int64_t kMostDevices = 3;

const FakeRuntime& Runtime() {
  static const FakeRuntime& runtime = []() -> FakeRuntime& {
    RegisterCallbacks();
    // Two devices with the same ordinal wait this long for the missing participants.
    internal::RendezvousMonitor::Get().SetLimit(std::chrono::milliseconds(50));
    return FakeRuntime::ForMinor(3);
  }();
  return runtime;
}

// Runs the call on all devices, each on a thread of its own. Some give the ordinal of no device, or of another one.
void MeetAtOnce(FakeSite& site, const FrameBuilder& frame, int64_t devices, FuzzedDataProvider& data) {
  static int64_t runs = 0;
  site.run_id = ++runs;  // the rendezvous remembers a run that failed
  std::vector<FrameBuilder> frames;
  for (uint32_t place = 0; place < devices; ++place) {
    const bool is_wrong = data.ConsumeIntegralInRange(0, 31) == 31;
    frames.emplace_back(frame);
    if (data.ConsumeIntegralInRange(0, 63) != 63) frames.back().Arg(TestBuffer::Scalar(is_wrong ? 7U : place));
  }
  std::vector<std::thread> threads;
  for (FrameBuilder& one : frames) threads.emplace_back([&site, &one] { (void)site.Execute(one); });
  for (std::thread& thread : threads) thread.join();
}

void Execute(const Subject& subject, const XLA_FFI_Attrs& attrs, FrameBuilder& frame, FuzzedDataProvider& data) {
  FakeSite site(Runtime(), subject.instantiate, subject.execute);
  if (subject.instantiate != nullptr && !site.Instantiate(frame).ok()) return;
  if (!IsSmall(NumbersOf(attrs, "lane_dims"))) return;
  if (!subject.name.starts_with("callout.v1.gathered_")) return (void)site.Execute(frame);
  const std::span<const int64_t> devices = NumbersOf(attrs, "devices");
  if (!devices.empty() && devices[0] <= kMostDevices) MeetAtOnce(site, frame, devices[0], data);
}

}  // namespace

void Try(std::string_view bytes) {
  static const std::vector<Subject> subjects = SubjectsOn("cpu", Runtime());
  static const Values::Known known = KnownValues();
  FuzzedDataProvider data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const Subject& subject = subjects[data.ConsumeIntegralInRange<size_t>(0, subjects.size() - 1)];
  Values values(data, known);
  const XLA_FFI_Attrs attrs = values.Of(subject.attributes);
  {
    internal::Attributes attributes;
    if (attributes.Decode(&attrs).ok()) {
      for (const callout_attribute& one : attributes.view()) CALLOUT_CHECK(one.name != nullptr, "no name");
    }
  }
  FrameBuilder frame;
  AddAttributes(attrs, frame);
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) frame.Arg(AnyBuffer(data));
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) {
    TestBuffer result = AnyBuffer(data);
    frame.Ret(result.dtype(), result.dims());
  }
  Execute(subject, attrs, frame, data);
  CheckNothingIsLeft();
}

}  // namespace callout::fuzz
