"""The plain hook: counts what any router module chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from .recorder import Recorder


def attach(recorder: Recorder, routers: Mapping[int, torch.nn.Module],
           ids_of: Callable[[object], torch.Tensor] = lambda output: output) -> list:
    """Counts the choices of each router module after its forward; returns the hook handles, whose remove() ends it.

    routers  layer row of the window -> module whose forward yields the choice
    ids_of   from the module's output to ids [tokens, k]: physical slots under the recorder's layout. A router that yields
             logical experts is recorded with the identity layout (one slot an expert).

    The caller ends each pass with recorder.append().
    """

    def count(layer: int):
        return lambda module, inputs, output: recorder.record(layer, ids_of(output))

    return [module.register_forward_hook(count(layer)) for layer, module in routers.items()]
