// SPDX-License-Identifier: Apache-2.0
#include "host/lapack/custom_calls.h"

#include <string>

#include "core/frame/handler.h"
#include "host/lapack/decompositions.h"
#include "host/lapack/library.h"

namespace callout::internal::lapack {
namespace {

// Looks for LAPACK when the program is compiled, so that a missing library fails the compilation and not the call.
XLA_FFI_Error* Instantiate(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return Guard(frame->api, []() -> Status { return LibraryPath().status(); });
}

template <Stem kName, auto kFunction>
XLA_FFI_Error* Execute(XLA_FFI_CallFrame* frame) noexcept {
  XLA_FFI_Error* error = nullptr;
  if (AnswerMetadata(frame, /*stateful=*/false, &error)) return error;
  return Guard(frame->api, [frame] { return kFunction(Frame(frame, kName.text)); });
}

template <Stem kName, auto kFunction>
Target Make() {
  return {kName.text, {.instantiate = &Instantiate, .execute = &Execute<kName, kFunction>}};
}

}  // namespace

#define CALLOUT_LAPACK_REAL(stem, function) \
  Make<"lapack_s" stem "_ffi", &function<float>>(), Make<"lapack_d" stem "_ffi", &function<double>>()
#define CALLOUT_LAPACK_COMPLEX(stem, function)                    \
  Make<"lapack_c" stem "_ffi", &function<std::complex<float>>>(), \
      Make<"lapack_z" stem "_ffi", &function<std::complex<double>>>()
#define CALLOUT_LAPACK_ALL(stem, function) CALLOUT_LAPACK_REAL(stem, function), CALLOUT_LAPACK_COMPLEX(stem, function)

const std::vector<Target>& Targets() {
  static const auto* const targets =
      new std::vector<Target>{CALLOUT_LAPACK_ALL("getrf", Getrf),     CALLOUT_LAPACK_ALL("geqrf", Geqrf),
                              CALLOUT_LAPACK_ALL("geqp3", Geqp3),     CALLOUT_LAPACK_REAL("orgqr", Orgqr),
                              CALLOUT_LAPACK_COMPLEX("ungqr", Orgqr), CALLOUT_LAPACK_ALL("potrf", Potrf),
                              CALLOUT_LAPACK_ALL("gehrd", Gehrd),     CALLOUT_LAPACK_REAL("sytrd", Sytrd),
                              CALLOUT_LAPACK_COMPLEX("hetrd", Sytrd), CALLOUT_LAPACK_ALL("trsm", Trsm),
                              CALLOUT_LAPACK_ALL("gtsv", Gtsv),       CALLOUT_LAPACK_ALL("gesdd", Gesdd),
                              CALLOUT_LAPACK_ALL("gesvd", Gesvd),     CALLOUT_LAPACK_REAL("syevd", Syevd),
                              CALLOUT_LAPACK_COMPLEX("heevd", Syevd), CALLOUT_LAPACK_ALL("geev", Geev),
                              CALLOUT_LAPACK_ALL("gees", Gees)};
  return *targets;
}

#undef CALLOUT_LAPACK_ALL
#undef CALLOUT_LAPACK_COMPLEX
#undef CALLOUT_LAPACK_REAL

}  // namespace callout::internal::lapack
