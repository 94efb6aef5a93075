# SPDX-License-Identifier: Apache-2.0
"""Everything that touches private names of JAX and jaxlib, and nothing else does.

Each use says why the public API does not do, and has a fall-back where one makes sense: a JAX that moved a name must not
break `import callout`. Names that were not found are listed in `MISSING`, which `python -m callout.doctor` prints.
"""

from .clients import PRINT_PLUGIN_VERSION as PRINT_PLUGIN_VERSION
from .clients import attach_transfers as attach_transfers
from .clients import dumps as dumps
from .clients import host_callback_handler as host_callback_handler
from .clients import put_on_device as put_on_device
from .devices import cpu_device as cpu_device
from .devices import default_device as default_device
from .devices import devices_in_use as devices_in_use
from .devices import first_ordinal as first_ordinal
from .devices import jit_is_disabled as jit_is_disabled
from .devices import local_devices as local_devices
from .devices import ordinal_of as ordinal_of
from .devices import uses_shardy as uses_shardy
from .devices import x64_enabled as x64_enabled
from .dispatch import dispatch_registry as dispatch_registry
from .dispatch import fast_path_decision as fast_path_decision
from .dispatch import jitted_function_maker as jitted_function_maker
from .dispatch import local_devices_of as local_devices_of
from .dispatch import without_effects as without_effects
from .eager import happens_now as happens_now
from .effects import Effect as Effect
from .effects import io_effects as io_effects
from .effects import is_refused_in_vmap as is_refused_in_vmap
from .effects import is_state_effect as is_state_effect
from .effects import register_effect as register_effect
from .equations import abstract_token as abstract_token
from .equations import bind_again as bind_again
from .equations import count_lanes as count_lanes
from .equations import custom_transpose_rule as custom_transpose_rule
from .equations import instantiate_cotangent as instantiate_cotangent
from .equations import is_variable as is_variable
from .equations import register_remat_rule as register_remat_rule
from .equations import scan_counts as scan_counts
from .lowering import extent_for as extent_for
from .lowering import lower_each_by_itself as lower_each_by_itself
from .lowering import lower_for_each as lower_for_each
from .lowering import lowering_rules as lowering_rules
from .lowering import module_maker as module_maker
from .lowering import refined as refined
from .lowering import require_devices as require_devices
from .lowering import symbols_of as symbols_of
from .lowering import with_vjps as with_vjps
from .partitioners import has_partitioner as has_partitioner
from .partitioners import register_partitioner as register_partitioner
from .partitioners import replicated_sharding as replicated_sharding
from .partitioners import tuple_sharding as tuple_sharding
from .shards import array_type as array_type
from .shards import checked_axes as checked_axes
from .shards import manual_devices as manual_devices
from .shards import shard_map_p as shard_map_p
from .shards import varying as varying
from .shards import varying_axes as varying_axes
from .source_lines import context_of as context_of
from .source_lines import frames_of as frames_of
from .source_lines import hide_frames as hide_frames
from .source_lines import inside_jax_callback as inside_jax_callback
from .source_lines import is_of_jax as is_of_jax
from .source_lines import own_lines as own_lines
from .source_lines import source_file as source_file
from .tokens import own_ordered_effects as own_ordered_effects
from .tokens import runtime_token_set as runtime_token_set
from .tokens import token_devices as token_devices
from .tokens import wait_for_all_effects as wait_for_all_effects
from .tokens import wait_for_order as wait_for_order
from .versions import CALLBACK_PLATFORMS as CALLBACK_PLATFORMS
from .versions import JAX_VERSION as JAX_VERSION
from .versions import MISSING as MISSING
from .versions import NEWEST_TESTED as NEWEST_TESTED
from .versions import NEWEST_TESTED_PYTHON as NEWEST_TESTED_PYTHON
from .versions import OLDEST_TESTED as OLDEST_TESTED
from .versions import warn_if_untested as warn_if_untested
