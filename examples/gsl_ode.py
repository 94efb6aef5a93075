# SPDX-License-Identifier: Apache-2.0
"""Uses a solver of a C library inside jit: GSL's adaptive Runge-Kutta method, one lane of a vmap on each core.

Needs the GNU Scientific Library (Debian: libgsl-dev). Usage: python examples/gsl_ode.py
"""

import callout
import jax
import jax.numpy as jnp
import numpy as np

SOURCE = """
#include <gsl/gsl_errno.h>
#include <gsl/gsl_odeiv2.h>

#include "callout/kernel.h"

// Prey and predator (Lotka-Volterra): x' = x (a - b y), y' = y (d x - c).
static int derivatives(double, const double y[], double dydt[], void* parameters) {
  const auto* p = static_cast<const double*>(parameters);
  dydt[0] = y[0] * (p[0] - p[1] * y[1]);
  dydt[1] = y[1] * (p[3] * y[0] - p[2]);
  return GSL_SUCCESS;
}

callout::Error orbit(callout::In<double, 1> parameters, callout::In<double, 1> times,
                     callout::Attr<"tolerance", double> tolerance, callout::Out<double, 2> states) {
  static const auto quiet = gsl_set_error_handler_off();
  (void)quiet;
  if (parameters.size() != 4) return callout::Error("expected four parameters");
  gsl_odeiv2_system system = {derivatives, nullptr, 2, const_cast<double*>(parameters.data())};
  gsl_odeiv2_driver* driver = gsl_odeiv2_driver_alloc_y_new(&system, gsl_odeiv2_step_rkf45, 1e-3, tolerance, tolerance);
  if (driver == nullptr) return callout::Error("GSL has no memory");
  double t = 0, y[2] = {1, 1};
  int status = GSL_SUCCESS;
  for (int64_t i = 0; i < times.size() && status == GSL_SUCCESS; ++i) {
    status = gsl_odeiv2_driver_apply(driver, &t, times[i], y);
    states(i, 0) = y[0];
    states(i, 1) = y[1];
  }
  gsl_odeiv2_driver_free(driver);
  return status == GSL_SUCCESS ? callout::Error() : callout::Error(gsl_strerror(status));
}
CALLOUT_KERNEL(orbit);
"""

jax.config.update("jax_enable_x64", True)


def main() -> None:
    module = callout.cpp.load_inline(SOURCE, name="gsl_ode", flags=["-lgsl", "-lgslcblas"])
    orbit = module.orbit.options(
        out=lambda parameters, times, tolerance: jax.ShapeDtypeStruct((times.size, 2), parameters.dtype),
        vmap_method="parallel",
    )
    times = jnp.linspace(0, 30, 301)
    rates = jnp.linspace(0.5, 1.5, 64)
    parameters = jnp.stack([rates, jnp.full(64, 0.8), jnp.full(64, 1.2), jnp.full(64, 0.6)], axis=1)

    @jax.jit
    def spread(parameters):
        """Returns the spread of the quantity that each orbit conserves."""
        states = jax.vmap(lambda p: orbit(p, times, tolerance=1e-10))(parameters)
        a, b, c, d = (column[:, None] for column in parameters.T)
        x, y = states[..., 0], states[..., 1]
        conserved = d * x - c * jnp.log(x) + b * y - a * jnp.log(y)
        return conserved.max(axis=1) - conserved.min(axis=1)

    drift = np.asarray(spread(parameters))
    print(f"64 orbits; what each conserves drifts by at most {drift.max():.1e}")
    assert drift.max() < 1e-6

    try:
        with callout.reraise():
            jax.jit(lambda p: orbit(p, times, tolerance=1e-10))(jnp.ones(3)).block_until_ready()
    except callout.CallbackError as error:
        print(error)


if __name__ == "__main__":
    main()
