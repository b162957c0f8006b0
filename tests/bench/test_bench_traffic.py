"""What ncu prints, read: units, messages between, and everything that is not as expected. A stand-in on PATH says what
it was asked, and what the real one would."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fusebuild.bench.traffic import Traffic, TrafficError, measured_traffic, parse_traffic

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
ROW = '"{id}","901","python3.12","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(528, 1, 1)","0","9.0","Command line '
ROW += 'profiler metrics","{metric}","{unit}","{value}"'


def row(id: int, metric: str, unit: str, value: str, kernel: str = "layernorm_0") -> str:
    return ROW.format(id=id, kernel=kernel, metric=metric, unit=unit, value=value)


PRINTED = "\n".join(
    [
        "==PROF== Connected to process 901 (/usr/bin/python3.12)",
        '==PROF== Profiling "inner_outer_persistent_5e1f" - 0: 0%....50%....100% - 1 pass',
        '==PROF== Profiling "finish_9a" - 1: 0%....50%....100% - 1 pass',
        "==PROF== Disconnected from process 901",
        HEADER,
        row(0, "dram__bytes_read.sum", "Mbyte", "268.51"),
        row(0, "dram__bytes_write.sum", "Mbyte", "1,204.25", kernel="void f<(int)3, float>(float *, long)"),
        row(1, "dram__bytes_read.sum", "Kbyte", "16.38"),
        row(1, "dram__bytes_write.sum", "byte", "0"),
        "",
    ]
)


def problem(text: str) -> str:
    with pytest.raises(TrafficError) as caught:
        parse_traffic(text, "layernorm.fuse")
    return str(caught.value)


class TestParsing:
    def test_kernels_are_summed_in_bytes(self) -> None:
        assert parse_traffic(PRINTED, "x") == Traffic(bytes_read=268_526_380, bytes_written=1_204_250_000, kernels=2)

    def test_other_metrics_and_lines_between_are_passed_over(self) -> None:
        more = f"{PRINTED}==WARNING== something\n{row(2, 'gpu__time_duration.sum', 'nsecond', '100')}\n"
        assert parse_traffic(more, "x") == parse_traffic(PRINTED, "x")

    def test_no_table(self) -> None:
        text = (
            "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n==PROF== Disconnected"
        )
        assert problem(text) == (
            "layernorm.fuse: ncu printed no table: ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
        )
        assert problem("") == "layernorm.fuse: ncu printed no table: it said nothing"

    def test_no_kernels(self) -> None:
        assert problem(HEADER) == "layernorm.fuse: ncu counted reads of 0 kernels and writes of 0"

    def test_reads_without_writes(self) -> None:
        text = f"{HEADER}\n{row(0, 'dram__bytes_read.sum', 'byte', '1')}"
        assert problem(text) == "layernorm.fuse: ncu counted reads of 1 kernels and writes of 0"

    def test_a_missing_column(self) -> None:
        assert (
            problem(HEADER.replace("Metric Unit", "Unit")) == "layernorm.fuse: ncu's table has no column 'Metric Unit'"
        )

    def test_an_unknown_unit_and_a_value_that_is_no_number(self) -> None:
        for old, new, message in (
            ('"Kbyte"', '"KiB"', "unknown unit 'KiB'"),
            ('"16.38"', '"n/a"', "'n/a' is no number"),
        ):
            assert problem(PRINTED.replace(old, new)) == f"layernorm.fuse: line 8 of ncu's output: {message}"

    def test_a_row_that_is_cut_off(self) -> None:
        cut = PRINTED.replace(',"Kbyte","16.38"', "")
        assert problem(cut) == "layernorm.fuse: line 8 of ncu's output has 13 columns, not 15"


def stand_in(folder: Path, code: str) -> None:
    """An ``ncu`` in ``folder`` that runs ``code``."""
    path = folder / "ncu"
    path.write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
    path.chmod(0o755)


class TestRunning:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return tmp_path

    def test_ncu_is_asked_for_one_call_without_clock_control(self, folder: Path) -> None:
        stand_in(folder, f"open({str(folder / 'asked')!r}, 'w').write('\\n'.join(sys.argv[1:]))\nprint({PRINTED!r})")
        assert measured_traffic(folder / "layernorm.fuse", {"M": 3, "N": 5}, 7).kernels == 2
        asked = (folder / "asked").read_text().splitlines()
        assert asked[:8] == [
            "--clock-control", "none", "--target-processes", "all", "--profile-from-start", "off", "--csv", "--metrics",
        ]  # fmt: skip
        assert asked[8] == "dram__bytes_read.sum,dram__bytes_write.sum"
        assert asked[10:] == [
            "-m", "fusebuild.bench.traffic", str(folder / "layernorm.fuse"), '{"M": 3, "N": 5}', "7",
        ]  # fmt: skip

    def test_what_ncu_complains_about_is_the_message(self, folder: Path) -> None:
        complaint = "print('==PROF== Connected')\nprint('==ERROR== No permission', file=sys.stderr)"
        stand_in(folder, f"{complaint}\nsys.exit(9)")
        with pytest.raises(TrafficError, match=r"^a\.fuse: ncu ended with 9: ==ERROR== No permission$"):
            measured_traffic(folder / "a.fuse", {}, 0)

    def test_an_ncu_that_cannot_be_run(self, folder: Path) -> None:
        (folder / "ncu").write_text("#!/no/such/interpreter\n")
        (folder / "ncu").chmod(0o755)
        with pytest.raises(TrafficError, match=r"^a\.fuse: ncu could not be run: .*No such file or directory"):
            measured_traffic(folder / "a.fuse", {}, 0)

    def test_no_ncu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        with pytest.raises(TrafficError, match=r"^ncu is not on PATH$"):
            measured_traffic(Path("a.fuse"), {}, 0)
