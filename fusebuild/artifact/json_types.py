"""Types of fields that several reports have."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

FormulaText = Annotated[str, Meta(description="arithmetic on sizes, such as 4*M*N")]
Bytes = Annotated[int | None, Meta(description="bytes at the sizes of the case; null where it does not give them all")]
Fid = Annotated[int, Meta(description="a value's number in the plan")]
Sizes = Annotated[dict[str, int], Meta(description="a size for each symbol")]
Milliseconds = Annotated[float, Meta(description="milliseconds on the device, the median")]
