// SPDX-License-Identifier: Apache-2.0
//
// Objects of the host that running programs use: a flag that stops a loop, arrays that the host changes, and sinks. A
// program that Python exported with a callout.StopFlag, a callout.HostValue or a sink of callout.sinks as an argument
// takes the object's handle as that argument.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/pjrt/buffer.h"
#include "callout/pjrt/host_callback.h"
#include "callout/status.h"

namespace callout::internal {
class OwnedHandle;
}

namespace callout::pjrt {

/// The handle by which programs know an object: an argument u32[4]. A handle is valid in this process, while its object
/// lives.
using ObjectHandle = std::array<uint32_t, 4>;

/// Owns an object that programs use. Movable; a moved-from object may only be destroyed or assigned to. The destructor
/// blocks until no program is reading the object, which takes moments; a program that reads the object afterwards fails
/// with FailedPrecondition.
class CALLOUT_EXPORT HostObject {
 public:
  HostObject(HostObject&&) noexcept;             ///< Takes the object over.
  HostObject& operator=(HostObject&&) noexcept;  ///< Destroys the object of before, and takes the other one over.
  ~HostObject();

  /// Returns the handle. Thread-safe.
  ObjectHandle handle() const;
  /// Copies the handle to a device, for an argument of Execute. Errors: the plugin's own. Thread-safe.
  Result<Buffer> HandleOn(const std::shared_ptr<const Client>& client, const Device& device) const;

 protected:
  /// For this library's own classes.
  explicit HostObject(std::unique_ptr<internal::OwnedHandle> owned);

  /// Returns the object and its handle, for this library's own classes.
  internal::OwnedHandle& owned() const { return *owned_; }

 private:
  std::unique_ptr<internal::OwnedHandle> owned_;
};

/// A flag that asks running programs to stop, like callout.StopFlag in Python.
class CALLOUT_EXPORT StopFlag : public HostObject {
 public:
  /// Makes a flag. The flag is set `seconds` after this call and after each Clear; never if `seconds` is negative.
  /// ResourceExhausted if there are a million objects.
  static Result<StopFlag> Make(double seconds = -1);

  /// Sets the flag: programs that read it from now on stop. Thread-safe.
  void Set();
  /// Clears the flag. Thread-safe.
  void Clear();
  /// Returns whether the flag is set. Thread-safe.
  bool IsSet() const;

 private:
  using HostObject::HostObject;
};

/// A sink that programs tap and whose handle is one of their arguments.
class CALLOUT_EXPORT SinkArgument : public HostObject {
 public:
  /// Makes the handle of a sink. `sink` must be the result of a SinkCallback. The sink lives as long as this object,
  /// and until its last record is delivered. InvalidArgument for other callbacks, ResourceExhausted if there are a
  /// million objects.
  static Result<SinkArgument> Make(const LoadedHostCallback& sink);

 private:
  using HostObject::HostObject;
};

/// Arrays that the host changes while programs read them, like callout.HostValue in Python: the leaves of its pytree.
class CALLOUT_EXPORT HostValue : public HostObject {
 public:
  /// Copies dense row-major arrays from the host's memory. ResourceExhausted if there are a million objects.
  static Result<HostValue> Make(std::span<const callout_buffer> arrays);
  /// Makes a value of one number.
  template <typename T>
  static Result<HostValue> Make(T number) {
    const callout_buffer scalar = ScalarOf(&number);
    return Make(std::span(&scalar, 1));
  }

  /// Replaces the arrays. A program reads either all old arrays or all of `arrays`. InvalidArgument if their number, a
  /// dtype or a shape differs from the first ones. Thread-safe.
  Status Set(std::span<const callout_buffer> arrays);
  /// Replaces the value by one number. Thread-safe.
  template <typename T>
  Status Set(T number) {
    const callout_buffer scalar = ScalarOf(&number);
    return Set(std::span(&scalar, 1));
  }

 private:
  using HostObject::HostObject;

  template <typename T>
  static callout_buffer ScalarOf(T* number) {
    return {.dtype = static_cast<uint32_t>(DTypeOf<T>::value),
            .rank = 0,
            .data = number,
            .dims = nullptr,
            .size_bytes = sizeof(T)};
  }
};

}  // namespace callout::pjrt
