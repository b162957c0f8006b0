"""Targets: what a plan is scheduled and compiled for. Adding a target touches this file alone.

Limits are from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; bandwidths are the
vendor's data sheets for the part named, and only steer heuristics and cost: nothing measured is derived from them.
The bytes of a kernel's parameters are from "Kernel Parameters" there: 32,764 from sm_70 and CUDA 12.1 on, 4,096 before,
which no target here has.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.artifact.architecture import architecture_of
from fusebuild.errors import UsageError, nearest
from fusebuild.system.named import by_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU architecture, or the CPU that runs the same rendered kernels for testing: ``host``, and
    ``host-asan`` under AddressSanitizer and UBSan.

    ``shared_bytes`` is the most shared memory one block may use, ``cluster`` the most blocks that may run together and
    reach into each other's (1 where there are no clusters; 8 is what every GPU with clusters grants),
    ``parameter_bytes`` what a kernel's parameters may take, ``bandwidth`` is in bytes per second, ``launch_seconds``
    the cost of one more kernel.
    """

    name: str
    multiprocessors: int
    shared_bytes: int
    cluster: int
    registers: int
    threads_per_multiprocessor: int
    bandwidth: float
    launch_seconds: float
    compiler_flags: tuple[str, ...]
    parameter_bytes: int = 32764

    @property
    def is_host(self) -> bool:
        return self.name.startswith("host")

    @property
    def threads(self) -> int:
        """Those that all multiprocessors run at a time."""
        return self.multiprocessors * self.threads_per_multiprocessor

    @property
    def compute_capability(self) -> int:
        """90 for ``sm_90`` and ``sm_90a``; 0 for the host."""
        architecture = architecture_of(self.name)
        return 0 if architecture is None else architecture.capability


def _gpu(name: str, multiprocessors: int, shared_kib: int, threads: int, bandwidth: float) -> Target:
    architecture = architecture_of(name)
    if architecture is None:
        raise ValueError(f"'{name}' is no architecture such as sm_90, sm_90a or sm_100f")
    return Target(
        name=name,
        multiprocessors=multiprocessors,
        shared_bytes=shared_kib * 1024,
        cluster=8 if architecture.capability >= 90 else 1,
        registers=65536,
        threads_per_multiprocessor=threads,
        bandwidth=bandwidth,
        launch_seconds=3e-6,
        compiler_flags=(f"-gencode=arch=compute_{name[3:]},code={name}",),
    )


def _host(name: str, *flags: str) -> Target:
    return Target(
        name=name,
        multiprocessors=1,
        shared_bytes=96 * 1024,
        cluster=8,
        registers=65536,
        threads_per_multiprocessor=1024,
        bandwidth=1e10,
        launch_seconds=1e-6,
        compiler_flags=flags,
    )


TARGETS: dict[str, Target] = by_name(
    (
        _gpu("sm_80", 108, 163, 2048, 2.0e12),  # A100 80 GB
        _gpu("sm_86", 84, 99, 1536, 0.77e12),  # A40
        _gpu("sm_89", 142, 99, 1536, 0.86e12),  # L40S
        _gpu("sm_90", 132, 227, 2048, 4.8e12),  # H200
        _gpu("sm_100", 148, 227, 2048, 8.0e12),  # B200
        _gpu("sm_120", 188, 99, 1536, 1.8e12),  # RTX PRO 6000 Blackwell
        _host("host", "-Og"),  # compiles in three quarters of the time of -O1, and small cases run as fast
        _host(
            "host-asan",
            "-Og",  # compiles in two thirds of the time of -O1, and small cases run as fast
            "-g1",
            "-fno-omit-frame-pointer",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
        ),
    )
)


def find_target(name: str) -> Target:
    """The target called ``name``; raises :class:`UsageError` naming the nearest one."""
    if name not in TARGETS:
        hint = nearest(name, TARGETS)
        known = ", ".join(TARGETS)
        raise UsageError(f"unknown target '{name}'{'; ' + hint if hint else ''} (known: {known})")
    return TARGETS[name]
