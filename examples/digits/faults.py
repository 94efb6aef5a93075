# SPDX-License-Identifier: Apache-2.0
"""Shows what a blank image does to a model that divides by its length: `locate_nans` and `error_if` report it."""

import warnings

import callout
import jax
import jax.numpy as jnp

from . import model

BLANK = 3


def _unit(images: jax.Array) -> jax.Array:
    lengths = jnp.linalg.norm(images, axis=1, keepdims=True)
    return images / lengths


def _loss(params: model.Params, images: jax.Array) -> jax.Array:
    return model.logits(params, _unit(images)).mean()


def _checked_loss(params: model.Params, images: jax.Array) -> jax.Array:
    images = callout.error_if(images, ~images.any(axis=1), "image {index} is blank")
    return _loss(params, images)


def reports(params: model.Params, images: jax.Array) -> list[str]:
    """Returns the reports of `locate_nans` and `error_if` for a batch with a blank image."""
    images = jnp.asarray(images[:8]).at[BLANK].set(0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        jax.block_until_ready(jax.jit(jax.value_and_grad(callout.locate_nans(_loss, infinities=False)))(params, images))
        callout.barrier_wait()  # on a GPU, reports arrive later than the results
    said = [str(each.message) for each in found if each.category is callout.NonFiniteWarning][:1]
    try:
        _checked_loss(params, images)
    except callout.CheckError as error:
        said.append(str(error).splitlines()[0])
    return said


def problems(said: list[str]) -> list[str]:
    """Returns what is missing in the reports."""
    wanted = ("return images / lengths", f"image [{BLANK}] is blank")
    if len(said) == len(wanted) and all(text in report for text, report in zip(wanted, said, strict=True)):
        return []
    return [f"a blank image gave {said}"]
