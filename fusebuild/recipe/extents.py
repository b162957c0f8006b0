"""The arithmetic of sizes: what bodies and expectations make of symbols and integers."""

from __future__ import annotations

import ast

from fusebuild.ir.formula import Formula, difference, product, total

ACCEPTED = "extents are made with +, -, * and // by a number above 0"


def combined(operator: ast.operator, left: Formula, right: Formula) -> Formula | None:
    """The sum, the difference, the product or the quotient (rounded down) of two sizes; None for other operators, and
    for quotients by what is no number above 0."""
    match operator:
        case ast.Add():
            return total([left, right])
        case ast.Sub():
            return difference(left, right)
        case ast.Mult():
            return product([left, right])
        case ast.FloorDiv() if isinstance(right, int) and right > 0:
            return left // right if isinstance(left, int) else ("floor_div", left, right)
    return None
