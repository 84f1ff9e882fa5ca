"""What the engine routes by, held against the layout: every entry must be a slot of its expert, and where a static table was
admitted, the slot that this table says."""
import torch

from .group import InstallError

NOT_SHOWN = "what the engine routes by was not shown: give `routing`, or name it in the adapter"


def routing_rows(layers, routing):
    """Per layer what this rank routes by, int64 [E, n] on the host, -1 where there is no candidate; None where nobody says.

    routing   None (the adapter names it, or nobody does), a tensor, or a function that gives one: physical slots [L, E], or
              candidates [L, E, n], rows of the layout
    """
    if routing is None:
        rows = [layer.routing for layer in layers]
        if any(row is None for row in rows):
            return None
    else:
        table = routing() if callable(routing) else routing
        if table.dim() not in (2, 3):
            raise InstallError(f"routing is {list(table.shape)}: physical slots [L, E], or candidates [L, E, n]")
        last = max(layer.row for layer in layers)
        if table.shape[0] <= last:
            raise InstallError(f"routing has {table.shape[0]} rows, the layout needs row {last}")
        rows = [table[layer.row] for layer in layers]
    rows = [row.detach().to("cpu", torch.int64) for row in rows]
    return [row.unsqueeze(1) if row.dim() == 1 else row for row in rows]


def require_routing(layers, rows, layout, table, rank):
    """Raises InstallError with the first entry that is wrong. `table` int32 [R, L, E] or None."""
    for layer, row in zip(layers, rows):
        if row.dim() != 2 or row.shape[0] != layout.experts:
            raise InstallError(f"layer {layer.layer}: routing is {list(row.shape)}, the layout has {layout.experts} experts")
        slots = layout.row(layer.row)
        for expert, candidates in enumerate(row.tolist()):
            present = [slot for slot in candidates if slot != -1]
            if not present:
                raise InstallError(f"layer {layer.layer}: expert {expert} is routed nowhere")
            for slot in present:
                if not 0 <= slot < len(slots) or slots[slot] != expert:
                    holds = f"holds expert {slots[slot]}" if 0 <= slot < len(slots) else "is no slot"
                    raise InstallError(f"layer {layer.layer}: expert {expert} is routed to slot {slot}, which {holds}")
            if table is not None and set(present) != {int(table[rank, layer.row, expert])}:
                raise InstallError(f"layer {layer.layer}: expert {expert} is routed to {' or '.join(map(str, present))}, the "
                                   f"admitted table of rank {rank} says slot {int(table[rank, layer.row, expert])}")
