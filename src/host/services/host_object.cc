// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/host_object.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/handles/handle_table.h"
#include "core/handles/host_value.h"
#include "core/handles/stop_flag.h"
#include "sinks/sink_handle.h"

namespace callout::internal {

// An object and its entry in the handle table.
class OwnedHandle {
 public:
  static Result<std::unique_ptr<OwnedHandle>> Make(std::shared_ptr<HostObject> object) {
    CALLOUT_ASSIGN_OR_RETURN(const Handle handle, HandleTable::Get().Add(object));
    return std::unique_ptr<OwnedHandle>(new OwnedHandle(std::move(object), handle));
  }
  ~OwnedHandle() { HandleTable::Get().Remove(handle_); }
  OwnedHandle(const OwnedHandle&) = delete;
  OwnedHandle& operator=(const OwnedHandle&) = delete;

  HostObject& object() const { return *object_; }
  const Handle& handle() const { return handle_; }

 private:
  OwnedHandle(std::shared_ptr<HostObject> object, const Handle& handle) : object_(std::move(object)), handle_(handle) {}

  const std::shared_ptr<HostObject> object_;
  const Handle handle_;
};

namespace {

std::vector<HostArray> CopiesOf(std::span<const callout_buffer> arrays) {
  std::vector<HostArray> copies;
  for (const callout_buffer& array : arrays) copies.push_back(HostArray::CopyOf(array));
  return copies;
}

}  // namespace
}  // namespace callout::internal

namespace callout::pjrt {

using internal::OwnedHandle;

HostObject::HostObject(std::unique_ptr<OwnedHandle> owned) : owned_(std::move(owned)) {}
HostObject::HostObject(HostObject&&) noexcept = default;
HostObject& HostObject::operator=(HostObject&&) noexcept = default;
HostObject::~HostObject() = default;

ObjectHandle HostObject::handle() const {
  ObjectHandle words{};
  std::memcpy(words.data(), &owned_->handle(), sizeof(words));
  return words;
}

Result<Buffer> HostObject::HandleOn(const std::shared_ptr<const Client>& client, const Device& device) const {
  const ObjectHandle words = handle();
  const int64_t dims[] = {static_cast<int64_t>(words.size())};
  return Buffer::FromHost(client, device, DType::kUint32, dims, words.data());
}

Result<StopFlag> StopFlag::Make(double seconds) {
  CALLOUT_ASSIGN_OR_RETURN(auto owned, OwnedHandle::Make(std::make_shared<internal::StopFlag>(seconds)));
  return StopFlag(std::move(owned));
}

void StopFlag::Set() { static_cast<internal::StopFlag&>(owned().object()).Set(); }
void StopFlag::Clear() { static_cast<internal::StopFlag&>(owned().object()).Clear(); }
bool StopFlag::IsSet() const { return static_cast<const internal::StopFlag&>(owned().object()).IsSet(); }

Result<SinkArgument> SinkArgument::Make(const LoadedHostCallback& sink) {
  if (!sink.callback()->takes_taps_only()) {
    return InvalidArgument("callout: SinkArgument: expected a sink, got the function '" + sink.name() + "'");
  }
  CALLOUT_ASSIGN_OR_RETURN(auto owned, OwnedHandle::Make(std::make_shared<internal::SinkObject>(sink.callback())));
  return SinkArgument(std::move(owned));
}

Result<HostValue> HostValue::Make(std::span<const callout_buffer> arrays) {
  CALLOUT_ASSIGN_OR_RETURN(auto owned,
                           OwnedHandle::Make(std::make_shared<internal::HostValue>(internal::CopiesOf(arrays))));
  return HostValue(std::move(owned));
}

Status HostValue::Set(std::span<const callout_buffer> arrays) {
  return static_cast<internal::HostValue&>(owned().object()).Set(internal::CopiesOf(arrays));
}

}  // namespace callout::pjrt
