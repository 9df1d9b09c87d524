"""Sums of products of a few rows with any number of panels, for attention: the tile in a loop."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zeroulp.model.kernels.tile import emit_tile, places
from zeroulp.model.kernels.vectors import LANES

MOST_ROWS = 6
"""As in a product of many rows: twelve AVX2 registers of sums, which hide each other's latency."""

_ABREAST = {1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1}
"""How many panels a tile of some rows takes at once, for the same reason."""


@intrinsic(prefer_literal=True)
def rows_by_panels(
    typing: Any,
    resume: Any,
    rows: Any,
    panels: Any,
    x: Any,
    x_at: Any,
    x_step: Any,
    x_k: Any,
    w: Any,
    w_at: Any,
    w_step: Any,
    w_panel: Any,
    depth: Any,
    y: Any,
    y_at: Any,
    y_step: Any,
) -> Any:
    """Compute ``panels`` panels of sums for one to MOST_ROWS rows; arguments as of ``tile``.

    ``resume`` is a literal.
    """
    resumed = bool(resume.literal_value)
    n = types.intp
    signature = types.void(resume, n, n, x, n, n, n, w, n, n, n, n, y, n, n)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        rows_, panels_, x_, x_at_, x_step_, x_k_, w_, w_at_, w_step_, w_panel_, depth_, y_, y_at_, y_step_ = (
            args[1:]
        )
        data = [context.make_array(t)(context, builder, v).data for t, v in ((x, x_), (w, w_), (y, y_))]

        def tiles(height: int, abreast: int, first: ir.Value, last: ir.Value) -> None:
            step = panels_.type(abreast)
            with cgutils.for_range_slice(builder, first, last, step) as (panel, _):
                w_place = builder.add(w_at_, builder.mul(panel, w_panel_))
                y_place = builder.add(y_at_, builder.mul(panel, panel.type(LANES)))
                x_rows = places(builder, data[0], x_at_, x_step_, height)
                w_starts = places(builder, data[1], w_place, w_panel_, abreast)
                y_rows = places(builder, data[2], y_place, y_step_, height)
                emit_tile(builder, w.dtype, resumed, x_rows, x_k_, w_starts, w_step_, depth_, y_rows)

        end = builder.append_basic_block("end")
        switch = builder.switch(rows_, end)
        for height, abreast in _ABREAST.items():
            case = builder.append_basic_block(f"rows{height}")
            switch.add_case(rows_.type(height), case)
            builder.position_at_end(case)
            whole = builder.sub(panels_, builder.srem(panels_, panels_.type(abreast)))
            tiles(height, abreast, panels_.type(0), whole)
            if abreast > 1:
                tiles(height, 1, whole, panels_)
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return signature, codegen
