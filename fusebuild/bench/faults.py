"""What goes wrong with some cases while others are measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from fusebuild.bench.contenders import reason
from fusebuild.bench.device import Device
from fusebuild.errors import OutOfMemoryError, VerificationError


@dataclass(frozen=True, slots=True)
class Faults:
    """The cases that were not measured, in words: results were ``wrong``, or whatever else was raised; a case was
    ``too_large`` for the memory of the device."""

    wrong: list[str] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)

    @contextmanager
    def wrong_kept(self) -> Iterator[None]:
        """Keep that results are wrong, and go on. Anything else is raised."""
        try:
            yield
        except VerificationError as error:
            self.wrong.append(str(error))

    @contextmanager
    def all_kept(self, name: str) -> Iterator[None]:
        """Keep whatever is raised for the case ``name`` of a sweep, and go on: nobody chose it, and a sweep has others
        to measure."""
        try:
            with self.wrong_kept():
                yield
        except OutOfMemoryError as error:
            self.too_large.append(reason(error))
        except Exception as error:  # whatever the executor or torch raises
            self.wrong.append(f"{name}: {reason(error)}")


def release(device: Device) -> None:
    """Give memory back that a case of ``device`` held. What a device raises that is of no use any more, the next case
    says."""
    with suppress(Exception):
        device.release()
