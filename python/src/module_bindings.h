// SPDX-License-Identifier: Apache-2.0
//
// The parts of the extension module, one function for each file.
#pragma once

#include "python_api.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "core/callbacks/callback.h"

namespace callout::python {

/// Python's reference to a callback, which keeps the callback alive.
struct CallbackHandle {
  std::shared_ptr<internal::Callback> callback;
};

/// Returns the callback's handle, or throws the Python exception of the error.
CallbackHandle HandleOf(Result<std::shared_ptr<internal::Callback>> made);

/// Lets `close_files_at` find the sink by the file or folder that it writes. Requires GIL.
void RememberFile(const std::string& path, const CallbackHandle& sink);

void BindAttributes(nanobind::module_& module);
void BindXlaScope(nanobind::module_& module);
void BindCallbacks(nanobind::module_& module);
void BindClosures(nanobind::module_& module);
void BindCuda(nanobind::module_& module);
void BindHandles(nanobind::module_& module);
void BindHooks(nanobind::module_& module);
void BindJitErrors(nanobind::module_& module);
void BindJitFunctions(nanobind::module_& module);
void BindJitResults(nanobind::module_& module);
void BindNvrtc(nanobind::module_& module);
void BindRegistry(nanobind::module_& module);
void BindEager(nanobind::module_& module);
void BindEagerTap(nanobind::module_& module);
void BindHostTap(nanobind::module_& module);
void BindDelivery(nanobind::module_& module);
void BindProcess(nanobind::module_& module);
void BindProfile(nanobind::module_& module);
void BindProgress(nanobind::module_& module);
void BindSinks(nanobind::module_& module);
void BindFileSinks(nanobind::module_& module);
void BindStatistics(nanobind::module_& module);
void BindText(nanobind::module_& module);
void BindValuePrint(nanobind::module_& module);
void BindWatch(nanobind::module_& module);

}  // namespace callout::python
