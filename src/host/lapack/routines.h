// SPDX-License-Identifier: Apache-2.0
//
// LAPACK's routines as C++ sees them: Fortran passes everything by address, and behind the arguments the lengths of the
// character ones (gfortran's convention; libraries that do not read them are not harmed by them).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "host/lapack/frame.h"
#include "host/lapack/library.h"

namespace callout::internal::lapack {

template <typename T>
struct ScalarTraits;
template <>
struct ScalarTraits<float> {
  using Real = float;
  static constexpr char kLetter = 's';
};
template <>
struct ScalarTraits<double> {
  using Real = double;
  static constexpr char kLetter = 'd';
};
template <>
struct ScalarTraits<std::complex<float>> {
  using Real = float;
  static constexpr char kLetter = 'c';
};
template <>
struct ScalarTraits<std::complex<double>> {
  using Real = double;
  static constexpr char kLetter = 'z';
};

template <typename T>
using RealOf = typename ScalarTraits<T>::Real;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<T, RealOf<T>>;

/// The middle of a routine's name, "getrf", as a template's argument.
template <size_t kSize>
struct Stem {
  constexpr Stem(const char (&literal)[kSize]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < kSize; ++i) text[i] = literal[i];
  }
  char text[kSize];
};

/// Calls the routine of T: "sgetrf_" for float and "getrf". Looked up once. Errors: as FindSymbol.
template <typename T, Stem kStem, typename... Arguments>
Status Call(Arguments... arguments) {
  static const auto* const found =
      new Result<void*>(FindSymbol(ScalarTraits<T>::kLetter + std::string(kStem.text) + "_"));
  if (!found->ok()) return found->status();
  reinterpret_cast<void (*)(Arguments...)>(found->value())(arguments...);
  return OkStatus();
}

/// Asks `call(i, work, lwork, info)` for the workspace that it wants, and runs it for each of `count` matrices. `info`:
/// where LAPACK's answers go; null if the program does not look at them, and Internal is returned for the first
/// failure.
template <typename T, typename Function>
Status CallEach(const Frame& frame, int64_t count, const Batch<Int>* info, const Function& call) {
  Int query = -1, own = 0;
  T size{};
  CALLOUT_RETURN_IF_ERROR(call(0, &size, &query, &own));
  std::vector<T> work = Workspace(size);
  Int lwork = static_cast<Int>(work.size());
  for (int64_t i = 0; i < count && own == 0; ++i) {
    CALLOUT_RETURN_IF_ERROR(call(i, work.data(), &lwork, info != nullptr ? info->at(i) : &own));
  }
  return own == 0 ? OkStatus() : frame.Refused(own);
}

inline constexpr size_t kOne = 1;  // the length of a flag

}  // namespace callout::internal::lapack
