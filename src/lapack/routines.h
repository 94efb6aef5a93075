// SPDX-License-Identifier: Apache-2.0
//
// LAPACK's routines as C++ sees them: Fortran passes everything by address, and behind the arguments the lengths of the
// character ones (gfortran's convention; libraries that do not read them are not harmed by them).
#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <type_traits>

#include "lapack/frame.h"
#include "lapack/library.h"

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

inline constexpr size_t kOne = 1;  // the length of a flag

}  // namespace callout::internal::lapack
