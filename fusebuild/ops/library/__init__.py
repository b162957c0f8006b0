"""The composites that ship with fusebuild: what ``torch`` and ``torch.nn.functional`` have functions for, made of ops.

Each is recorded in place, in the types of its operands, as a recipe's own composite is. All of them compute half and
bfloat16 in float, and give that; formulas are those of torch's documentation, in the form that stays exact where
numbers are large.
"""

from fusebuild.ops.library import activations, losses, normalizations, shapes
from fusebuild.ops.library.composite import LIBRARY, LibraryComposite

__all__ = ["LIBRARY", "LibraryComposite", "activations", "losses", "normalizations", "shapes"]
