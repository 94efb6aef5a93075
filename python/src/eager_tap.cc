// SPDX-License-Identifier: Apache-2.0
//
// Taps outside of a compiled program: sites as a program's, and their records go the same way.
#include "bindings.h"

#include <nanobind/stl/optional.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "array_buffers.h"
#include "attribute_values.h"
#include "delivery/delivery.h"
#include "errors.h"
#include "ffi/told_site.h"
#include "lent_callback.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// The site of an eager tap. It does not keep alive what it is for: whoever taps brings that along.
class EagerTap {
 public:
  EagerTap(const CallbackHandle& like, const nb::dict& encoded)
      : callback_(std::make_shared<LentCallback>(*like.callback)),
        site_(internal::MakeTapSite(callback_, AttributesFrom<internal::TapAttributes>(encoded))) {}
  // Records of this site may still be queued: it follows them out.
  ~EagerTap() { internal::Delivery::Get().Retire(std::move(site_)); }
  EagerTap(const EagerTap&) = delete;
  EagerTap& operator=(const EagerTap&) = delete;

  bool Admit(int32_t device_ordinal, std::optional<int64_t> step) {
    return internal::Delivery::Admit(*site_, device_ordinal, step);
  }

  void Send(const CallbackHandle& callback, const nb::sequence& arrays, int32_t device_ordinal,
            std::optional<int64_t> step) {
    const ArrayBuffers buffers(arrays);
    Status status;
    {
      const nb::gil_scoped_release release;  // a full queue may make this wait for the Python worker
      status = Push(
          {.buffers = {buffers.data(), buffers.size()}, .device_ordinal = device_ordinal, .run_id = 0, .step = step},
          callback.callback);
    }
    ThrowIfError(status);
  }

 private:
  Status Push(internal::Sending sending, const std::shared_ptr<internal::Callback>& callback) {
    internal::Delivery& delivery = internal::Delivery::Get();
    delivery.AwaitUpstream(*callback, sending.device_ordinal, sending.run_id);
    bool queued = false;
    sending.queued = &queued;
    callback_->Lend(callback);
    Status status = delivery.PushAdmitted(*site_, sending);
    if (!queued) callback_->TakeBack();
    return status;
  }

  const std::shared_ptr<LentCallback> callback_;
  std::unique_ptr<internal::TapSite> site_;
};

}  // namespace

void BindEagerTap(nb::module_& m) {
  nb::class_<EagerTap>(m, "EagerTap", "The site of a tap outside of programs. It keeps no callback alive.")
      .def(nb::init<const CallbackHandle&, const nb::dict&>(), nb::arg("like"), nb::arg("attributes"),
           "`attributes`: those of callout.v1.tap, encoded.")
      .def("admit", &EagerTap::Admit, nb::arg("device_ordinal"), nb::arg("step").none(),
           "Whether a record of the device is to be sent. One that is not is counted, as in programs.")
      .def(
          "send", &EagerTap::Send, nb::arg("callback"), nb::arg("arrays"), nb::arg("device_ordinal"),
          nb::arg("step").none(),
          "Sends a record that was admitted. The last array is where the value begins in a larger one, if the site has "
          "offsets.");
}

}  // namespace callout::python
