"""What torch.compile sees of a plan that is called as it is, not as an operator: a call to leave alone.

Otherwise it would compile the Python of that call, again for each new shape, and find nothing in it that it knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def left_alone(function: F) -> F:
    """``function``, at which torch.compile breaks its graph. It does what ``torch._dynamo.disable`` would, which takes
    a wrapper's time in every call and seconds to import; nothing where torch is not in use, or has not got this way."""
    frames: Any = getattr(getattr(sys.modules.get("torch._C"), "_dynamo", None), "eval_frame", None)
    if not hasattr(frames, "_FrameExecStrategy"):
        return function
    skip = frames._FrameAction.SKIP
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function
