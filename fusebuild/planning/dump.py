"""``--dump DIR``: every intermediate of the walk as a file, for people and bug reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fusebuild.artifact.plan import Plan, encode
from fusebuild.errors import UsageError, one_line
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.kernels.render import Kernel
from fusebuild.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """Writes into ``folder``; a dump without a folder writes nothing.

    Raises :class:`UsageError` where a file cannot be written.
    """

    folder: Path | None
    _counter: list[int] = field(default_factory=lambda: [0])

    @classmethod
    def of(cls, recipe: Recipe, dump: Path | None) -> Dump:
        """The dump of ``recipe``: the folder of its name in the folder ``dump``."""
        return cls(folder=dump / recipe.fusion.name if dump else None)

    def fusion(self, name: str, fusion: Fusion) -> None:
        """``<name>.txt``: the printed Fusion."""
        self._write(f"{name}.txt", print_fusion(fusion).encode())

    def after_pass(self, name: str, fusion: Fusion) -> None:
        """``NN-<pass>.txt``, numbered from 01 in the order of the passes."""
        self._counter[0] += 1
        self.fusion(f"{self._counter[0]:02}-{name}", fusion)

    def plan(self, plan: Plan, kernels: Mapping[str, Mapping[str, Kernel]]) -> None:
        """``plan.json`` and every kernel as ``kernels/<name>.cu``."""
        self._write("plan.json", encode(plan))
        for by_name in kernels.values():
            for name, kernel in by_name.items():
                self._write(f"kernels/{name}.cu", kernel.text.encode())

    def _write(self, name: str, data: bytes) -> None:
        if self.folder is None:
            return
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise UsageError(f"cannot write {one_line(path)}: {error.strerror}") from None
