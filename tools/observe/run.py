"""Asks a client version about cases, and keeps every answer.

Answers are in `target/observe/answers/VERSION/CASE.json`. What must stay true: an answer counts
only for the bytes that the client was given (`digest`), so a changed case is asked again; an answer
is written whole or not at all, so that the run can be interrupted at any time.
"""
import fcntl
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from . import clients
from .published import HOME

ANSWERS = HOME / "answers"
WORKER = Path(__file__).with_name("worker.py")
# A client hangs if it works for so long, or waits for so long. Other work on the machine must not
# look like that, so the second is long.
CPU_SECONDS, WALL_SECONDS = 25, 240


def path_of(version, case):
    return ANSWERS / version / f"{case.name}.json"


def known(version, case):
    """The answer that is kept, if the case is still the same."""
    try:
        answer = json.loads(path_of(version, case).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return answer if answer.get("digest") == case.digest() else None


def keep(version, case, answer):
    path = path_of(version, case)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part{os.getpid()}-{threading.get_ident()}")
    part.write_text(json.dumps(answer, indent=1))
    part.replace(path)


def can_be_private():
    """Whether a client can have a network and a `/home` of its own: that takes root on Linux."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    probe = ["unshare", "-nm", "sh", "-c", "ip link set lo up && mount -t tmpfs observe /home"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


class Worker:
    """A process that runs cases one after another."""

    def __init__(self, private):
        self.scratch = tempfile.mkdtemp(prefix="observe-")
        argv = [sys.executable, "-B", str(WORKER), self.scratch]
        if private:
            argv = ["unshare", "-nm", *argv, "--private"]
        nice = ["nice", "-n", "19"] if shutil.which("nice") else []
        self.process = subprocess.Popen([*nice, *argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended on {job['case']}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


@contextmanager
def alone(show):
    """Only one run at a time has clients on disk."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            show("another run is asking a client; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ask(version, cases, workers=2, show=print):
    """Answers of this version to these cases; asks for those that are not kept yet."""
    answers = {case.name: known(version, case) for case in cases}
    if all(answers.values()):
        return answers
    with alone(show):
        return ask_missing(version, cases, workers, show)


def ask_missing(version, cases, workers, show):
    answers = {case.name: known(version, case) for case in cases}
    missing = [case for case in cases if answers[case.name] is None]
    if not missing:
        return answers
    begun = time.monotonic()
    command = clients.install(version)
    show(f"{version}: installed in {time.monotonic() - begun:.0f} s, "
         f"{len(missing)} of {len(cases)} cases to ask")
    private = can_be_private()
    if not private:
        show("  without namespaces (needs root on Linux): only the variables keep the client "
             "from the network")
    waiting, done, failed = queue.Queue(), [], []
    for case in missing:
        waiting.put(case)

    def work():
        worker = Worker(private)
        try:
            while not failed:
                case = waiting.get_nowait()
                job = {"case": case.name, "client": command, "file": str(case.file.resolve()),
                       "cut": case.cut, "session": case.session, "prompt": case.prompt,
                       "cpu": CPU_SECONDS, "wall": WALL_SECONDS}
                answer = {"version": version, "digest": case.digest(), **worker.ask(job)}
                # The scripted API always answers: only a machine that does too much is too slow.
                if "Request timed out" in answer.get("stdout", ""):
                    raise RuntimeError(f"{version}: {case.name} got no answer in time: do less "
                                       "on this machine meanwhile, and ask again")
                keep(version, case, answer)
                answers[case.name] = answer
                done.append(answer["seconds"])
                if len(done) % 25 == 0:
                    rate = (time.monotonic() - begun) / len(done)
                    show(f"  {len(done)} of {len(missing)}, {rate:.2f} s each")
        except queue.Empty:
            pass
        except Exception as error:  # reported by the caller's thread
            failed.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(min(workers, len(missing)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt as error:
        show("interrupted; finishing the cases that are running")
        failed.append(error)
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
    return answers
