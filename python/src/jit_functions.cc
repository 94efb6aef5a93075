// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of functions that a JIT compiler (Numba) made in this process, and the C functions that their code calls.
#include "module_bindings.h"

#include <nanobind/stl/map.h>

#include <cstddef>
#include <map>
#include <string>

#include "callout/abi.h"
#include "core/callbacks/embedded_library.h"
#include "core/callbacks/native_function.h"
#include "errors.h"
#include "gil.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Takes the GIL for generated code. Null, with the call's error set, once the interpreter is going away. GIL not
// needed.
void* BeginPython(const callout_call* call) noexcept {
  auto* scope = new GilScope;
  if (scope->ok()) return scope;
  delete scope;
  internal::FailCall(*call, Unavailable("it raised an exception while the Python interpreter is going away"));
  return nullptr;
}

// Fails the call with the current Python error. Requires GIL, from BeginPython, and gives it up.
void EndWithPythonError(const callout_call* call, void* scope) noexcept {
  internal::FailCall(*call, TakePythonError());
  delete static_cast<GilScope*>(scope);
}

std::map<std::string, uintptr_t> Symbols() {
  return {{"callout_begin_python", reinterpret_cast<uintptr_t>(&BeginPython)},
          {"callout_end_with_python_error", reinterpret_cast<uintptr_t>(&EndWithPythonError)}};
}

// Returns the offsets of the fields of callout/abi.h that generated code reads.
std::map<std::string, size_t> Layout() {
  return {{"call.args", offsetof(callout_call, args)},
          {"call.results", offsetof(callout_call, results)},
          {"call.attributes", offsetof(callout_call, attributes)},
          {"buffer.data", offsetof(callout_buffer, data)},
          {"buffer.dims", offsetof(callout_buffer, dims)},
          {"buffer", sizeof(callout_buffer)},
          {"attribute.data", offsetof(callout_attribute, data)},
          {"attribute", sizeof(callout_attribute)}};
}

CallbackHandle Make(const std::string& label, uintptr_t address, bool pointers, const nb::object& owner,
                    bool one_at_a_time) {
  DropGarbage();
  callout_function function = {};
  function.struct_size = sizeof(function);
  function.abi_version = CALLOUT_ABI_VERSION;
  function.kind = pointers ? CALLOUT_FUNCTION_POINTERS : CALLOUT_FUNCTION_CALL;
  function.fn = reinterpret_cast<void (*)(void)>(address);
  internal::NativeOptions options;
  options.owner = std::make_shared<SharedRef>(Ref::Borrow(owner.ptr()));
  options.one_at_a_time = one_at_a_time;
  auto callback = internal::MakeNativeFunction(label, function, std::move(options));
  ThrowIfError(callback.status());
  return {std::move(callback).value()};
}

}  // namespace

void BindJitFunctions(nb::module_& m) {
  m.def("make_jit_function", &Make, nb::arg("label"), nb::arg("address"), nb::arg("pointers"), nb::arg("owner"),
        nb::arg("one_at_a_time"), "A callback over machine code that `owner` keeps.");
  m.def("jit_symbols", &Symbols, "Addresses of the functions that generated code calls.");
  m.def("call_layout", &Layout, "Offsets and sizes in the structs of callout/abi.h.");
  m.def("native_platform", &internal::NativePlatform);
  m.def("allow_embedded_code", &internal::AllowEmbeddedCode, nb::arg("allow"));
}

}  // namespace callout::python
