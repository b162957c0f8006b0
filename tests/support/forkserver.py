"""Commands of Python that start at once: each is a fork of a process that has imported what takes seconds to import.

:func:`commands` is a folder with ``fusebuild`` and ``python``, for the front of ``PATH``. They do what those of the
environment do, with the arguments, folder, variables and open files that they are given: they send all of it to a
server, which this file is when it is run, and end as the child ends that the server forks. What has to begin with a new
process, such as a count of imports or ``PYTHONHASHSEED``, needs the real ones.
"""

from __future__ import annotations

import array
import atexit
import importlib
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

IMPORTED = (
    "fusebuild.api", "fusebuild.cli.main", "fusebuild.definition.script",
    "fusebuild.freshness.check", "fusebuild.freshness.incremental", "fusebuild.freshness.rebuild",
    "fusebuild.oracle.verification", "fusebuild.pipeline", "fusebuild.recipe.schema", "fusebuild.report.diff",
    "fusebuild.report.inspection", "fusebuild.tuning.tune", "torch",
)  # fmt: skip
"""What verbs and scripts import when they run."""

CLIENT = """\
#!{python} -IS
import _socket, marshal, os, sys
files = []
for number in (0, 1, 2):
    try:
        os.fstat(number)
        files.append(number)
    except OSError:
        pass
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
wanted = marshal.dumps((os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ), files))
held = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
server.sendmsg([len(wanted).to_bytes(8, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, held)] if files else [])
server.sendall(wanted)
answer = server.recv(8)
if len(answer) != 8:
    sys.exit("the server of forks has not answered")
status = int.from_bytes(answer, "little", signed=True)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@cache
def commands() -> Path:
    """A folder with ``fusebuild`` and ``python``. Their server ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="forkserver-"))
    address = str(folder / "socket")
    server = subprocess.Popen([sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(_end, server, folder)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    for name in ("fusebuild", "python"):
        command = folder / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(CLIENT.format(python=sys.executable, address=address))
        command.chmod(0o755)
    return folder / "bin"


def _end(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.communicate()
    shutil.rmtree(folder)


def serve(address: str) -> None:
    """Fork for each connection until stdin is closed."""
    del sys.path[0]
    for module in IMPORTED:
        importlib.import_module(module)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that no child waits to be asked how it ended
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> NoReturn:
    """Run what the client asks for in a child, and say how that ended."""
    length, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_LEN(3 * 4))
    held = array.array("i", ancillary[0][2] if ancillary else b"")
    message = b""
    while len(message) < int.from_bytes(length, "little"):
        message += connection.recv(1 << 20)
    program, arguments, folder, environ, files = marshal.loads(message)
    child = os.fork()
    if child:
        for file in held:
            os.close(file)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(status.to_bytes(8, "little", signed=True))
        os._exit(0)
    connection.close()
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    _take_streams(dict(zip(files, held, strict=True)))
    os._exit(_ended(program, arguments))


def _take_streams(held: dict[int, int]) -> None:
    """Make the streams of this process what those of a Python are that starts with the files ``held`` open."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream: Any = None
        if number in held:
            os.dup2(held[number], number)
            os.close(held[number])
            stream = open(  # noqa: SIM115
                number, "w" if number else "r", closefd=False, encoding="utf-8",
                errors="backslashreplace" if number == 2 else "strict",
            )  # fmt: skip
            if number == 2 or os.isatty(number):
                stream.reconfigure(line_buffering=True)
        else:
            os.close(number)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _ended(program: str, arguments: list[str]) -> int:
    """The exit code of ``program``. What Python does beyond this when it ends takes half a second once torch is there:
    it takes apart all that was imported."""
    try:
        try:
            _run(program, arguments)
            code: object = 0
        finally:
            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:
        beyond = error.__traceback__
        while beyond is not None and beyond.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
            beyond = beyond.tb_next  # what the server called first is of no interest
        traceback.print_exception(error.with_traceback(beyond))
        return 1
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _run(program: str, arguments: list[str]) -> None:
    """What ``program`` does with ``arguments``."""
    from fusebuild.cli.main import main

    sys.argv = [program, *arguments]
    if program == "fusebuild":
        main()
        return
    match arguments:
        case ["-c", code, *rest]:
            sys.argv, sys.path[:0] = ["-c", *rest], [""]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [script, *_] if not script.startswith("-"):
            sys.argv, sys.path[:0] = arguments, [str(Path(script).resolve().parent)]
            runpy.run_path(script, run_name="__main__")
        case _:
            os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    serve(sys.argv[1])
