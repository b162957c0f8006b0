"""Work that forked processes share: the results, the errors and the ends are those of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.places import ROOT

START = """
import os, signal, sys, threading, time
from pathlib import Path
from fusebuild.errors import UsageError
from fusebuild.system.processes import mapped
parent = os.getpid()
"""


def run(code: str) -> str:
    """What a process prints that runs ``code`` and has neither torch nor threads, as the command line has not."""
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_results_come_in_order_from_other_processes() -> None:
    assert run("""
def work(item):
    time.sleep(0.2 if item == 0 else 0.01)
    return item * item, os.getpid()
results = mapped(work, range(9), processes=3)
print([square for square, _ in results], parent in {pid for _, pid in results})
""") == f"{[item * item for item in range(9)]} False\n"  # fmt: skip


def test_one_process_or_one_item_needs_no_other() -> None:
    assert run("""
print(mapped(lambda item: os.getpid() == parent, [1, 2], processes=1))
print(mapped(lambda item: os.getpid() == parent, [1], processes=8), mapped(str, [], processes=8))
""") == "[True, True]\n[True] []\n"  # fmt: skip


def test_a_process_with_threads_is_not_forked() -> None:
    assert run("""
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
print(mapped(lambda item: os.getpid() == parent, [1, 2], processes=2))
over.set()
thread.join()
""") == "[True, True]\n"  # fmt: skip


def test_the_first_error_is_raised_as_it_is() -> None:
    assert run("""
class Located(UsageError):
    def __init__(self, place, *, hint):
        super().__init__(f"{place}: {hint}")
        self.place = place
def work(item):
    if item % 3 == 2:
        raise Located(item, hint="no")
    return item
try:
    mapped(work, range(9), processes=2)
except Located as error:
    print(error, error.place)
""") == "2: no 2\n"  # fmt: skip


def test_what_a_killed_one_left_is_done_here() -> None:
    assert run("""
def work(item):
    if os.getpid() != parent and item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return item
print(mapped(work, [0, 1, 2], processes=2))
""") == "[0, 1, 2]\n"  # fmt: skip


def test_they_end_with_their_parent(tmp_path: Path) -> None:
    code = """
def work(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)
mapped(work, [sys.argv[1]] * 2, processes=2)
"""
    parent = subprocess.Popen([sys.executable, "-c", START + code, tmp_path], cwd=ROOT)
    await_that(lambda: len(list(tmp_path.iterdir())) == 2)
    parent.kill()
    parent.wait()
    await_that(lambda: not any(is_running(int(path.name)) for path in tmp_path.iterdir()))


def test_an_interrupt_is_heard_once(tmp_path: Path) -> None:
    code = """
def work(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(0.5)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background starts programs without it
mapped(work, [sys.argv[1]] * 100, processes=2)
"""
    parent = subprocess.Popen([sys.executable, "-c", START + code, tmp_path], cwd=ROOT, stderr=subprocess.PIPE,
                              text=True, start_new_session=True)  # fmt: skip
    await_that(lambda: len(list(tmp_path.iterdir())) == 2)
    os.killpg(parent.pid, signal.SIGINT)
    _, said = parent.communicate(timeout=30)
    assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1
    assert not any(is_running(int(path.name)) for path in tmp_path.iterdir())


@pytest.mark.parametrize("when", ["before", "after_in_parent"])
def test_an_interrupt_while_it_forks_is_not_lost(when: str) -> None:
    """What is raised in a hook around a fork is printed and dropped."""
    assert run(f"""
signal.signal(signal.SIGINT, signal.default_int_handler)
sent = []
def interrupt():
    if not sent:
        sent.append(True)
        os.kill(parent, signal.SIGINT)
os.register_at_fork({when}=interrupt)
try:
    mapped(abs, range(9), processes=2)
except KeyboardInterrupt:
    print("aborted", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
""") == "aborted set()\n"  # fmt: skip


def test_recipes_are_planned_as_in_one_process() -> None:
    assert run("""
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
paths = [Path("recipes", f"{name}.yaml") for name in ("softmax", "mlp", "silu_mul", "layernorm_backward")]
forks = []
os.register_at_fork(before=lambda: forks.append(1))
def planned(jobs):
    report = compile_recipes(paths, [TARGETS["sm_90"]], Path("nowhere"), jobs=jobs, dry_run=True)
    return [each.planned for each in report.artifacts]
print(planned(1) == planned(2), len(forks))
""") == "True 2\n"  # fmt: skip


def is_running(process: int) -> bool:
    """Whether it is there, and no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_that(happens) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)
