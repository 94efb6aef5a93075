// SPDX-License-Identifier: Apache-2.0
//
// callout._ext: the core's binding for Python. Nothing here is public; python/callout wraps it.
#include "arrays.h"
#include "core/base/helper_threads.h"
#include "core/base/process_state.h"
#include "core/delivery/delivery.h"
#include "cuda/handlers/targets.h"
#include "errors.h"
#include "gil.h"
#include "host_callback_scope.h"
#include "module_bindings.h"
#include "python_text.h"
#include "sinks/catalog/callback_kinds.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

nb::list FfiTargets() {
  nb::list targets;
  for (const internal::Target& target : internal::Targets()) {
    nb::dict handlers;
    const auto add = [&handlers](const char* stage, void* handler) {
      if (handler != nullptr) handlers[stage] = nb::capsule(handler, "xla._CUSTOM_CALL_TARGET");
    };
    add("instantiate", target.instantiate);
    add("initialize", target.initialize);
    add("execute", target.execute);
    targets.append(nb::make_tuple(target.name, target.platform, handlers));
  }
  return targets;
}

// The types, the FFI targets and the queues belong to the process: a second module could have only a part of them.
bool g_is_imported = false;

constexpr char kImportedBefore[] =
    "callout: this process has imported callout before, and its modules have been taken out of sys.modules since, as "
    "mock.patch.dict(sys.modules) does at its end; its core can be loaded once. Import callout before such a block";

}  // namespace
}  // namespace callout::python

NB_MODULE(_ext, m) {
  using namespace callout::python;
  if (g_is_imported) throw nb::import_error(kImportedBefore);
  nb::set_leak_warnings(false);  // JAX caches programs, and so their callbacks, until the process ends
  m.doc() = "The C++ core. Private: use the callout package.";
  if (!InitArrays()) throw nb::python_error();
  if (const callout::Status status = callout::internal::CheckOnlyCore(); !status.ok()) {
    Throw(PyExc_ImportError, status.message());
  }
  callout::internal::RegisterKinds();
  callout::internal::Delivery::Get().SetGate(callout::internal::Worker::kPython,
                                             {&EnterInterpreter, &LeaveInterpreter, &ForgetThread});
  callout::internal::AtEndOfHelperThreads(&ForgetThread);
  m.def("ffi_targets", &FfiTargets, "(name, platform, {stage: capsule}) of each FFI target.");
  BindAttributes(m);
  BindXlaScope(m);
  BindCallbacks(m);
  BindClosures(m);
  BindJitErrors(m);
  BindJitFunctions(m);
  BindJitResults(m);
  BindRegistry(m);
  BindEager(m);
  BindEagerTap(m);
  BindHostTap(m);
  BindDelivery(m);
  BindProcess(m);
  BindProfile(m);
  BindProgress(m);
  BindSinks(m);
  BindFileSinks(m);
  BindStatistics(m);
  BindText(m);
  BindValuePrint(m);
  BindWatch(m);
  BindHandles(m);
  BindHooks(m);
  BindCuda(m);
  BindNvrtc(m);
  g_is_imported = true;
}
