"""Runs one client on one case after another, in a home of its own and without a network.

Started by `run.py`, where possible inside namespaces (`unshare -nm`): then the home is in memory,
under a `/home` of its own, and loopback is the only network. Reads one job per line from stdin,
writes one answer per line to stdout. What must stay true: a job finds nothing that an earlier job
left, and the client sees no variable of the caller's environment.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from observe.api import Api  # noqa: E402

KEY = "sk-ant-observe-not-a-key"
README = "# Demo\n\nA small widget counter.\n"


def environment(home, url):
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "USER": "dev",
        "SHELL": "/bin/bash", "TERM": "dumb", "LANG": "C.UTF-8", "TZ": "UTC",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_BUG_COMMAND": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "IS_SANDBOX": "1",  # root may skip permissions
        # Node 22 and later need a third less time per start; older ones do not know it.
        "NODE_COMPILE_CACHE": str(home.parent / "compiled"),
    }


def slug(path):
    """The project folder's name of a short, plain path."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in str(path))


def prepare(home, cwd, job):
    """A new home with the planted session."""
    shutil.rmtree(home, ignore_errors=True)
    cwd.mkdir(parents=True)
    (cwd / "README.md").write_text(README)
    config = home / ".claude"
    config.mkdir()
    # The oldest versions need a list of tools.
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True,
               "allowedTools": []}
    state = json.dumps({"hasCompletedOnboarding": True, "projects": {str(cwd): project},
                        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []}})
    for folder in (home, config):
        (folder / ".claude.json").write_text(state)
    target = config / "projects" / slug(cwd)
    target.mkdir(parents=True)
    source = Path(job["file"])
    data = source.read_bytes()[:job["cut"]]
    (target / f"{job['session']}.jsonl").write_bytes(data)
    beside = source.with_suffix("")  # what the session keeps in a folder of its own
    if beside.is_dir():
        shutil.copytree(beside, target / job["session"])
    return data


def end(process):
    """Ends what we started, and what that started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def used(process):
    """Seconds of processor time that the client has used, if the system says so."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0


def delayed(process):
    """Seconds in which the client was ready to work and had no processor, if the system says so."""
    try:
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0


def wait(process, cpu, wall):
    """The exit code; `timeout` if the client works too long, or does nothing for too long. Not by
    the clock: time in which both are stopped, or other work has all processors, does not count."""
    seconds = 0
    while seconds - delayed(process) < wall:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            seconds += 1
            if used(process) > cpu:
                break
    end(process)
    process.wait()
    return "timeout"


def tail(file):
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 2000, 0))
    return file.read().decode("utf-8", "replace")


def run(job, home, cwd, api):
    data = prepare(home, cwd, job)
    api.taken()
    argv = [*job["client"], "-p", "--dangerously-skip-permissions", "--resume", job["session"],
            *job.get("args", []), job["prompt"]]
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        variables = {**environment(home, api.url), **job.get("env", {})}
        process = subprocess.Popen(argv, cwd=cwd, env=variables, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err, start_new_session=True)
        code = wait(process, job["cpu"], job["wall"])
        end(process)
        said = {"stdout": tail(out), "stderr": tail(err)}
    wall = round(time.monotonic() - started, 3)
    return {"case": job["case"], "code": code, "seconds": wall, **said,
            "cut": len(data), "requests": api.taken()}


def main():
    scratch = Path(sys.argv[1])
    if sys.argv[2:] == ["--private"]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "observe", "/home"], check=True)
        scratch = Path("/home")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the case that is running is finished first
    home = scratch / "dev"
    api = Api()
    try:
        for line in sys.stdin:
            print(json.dumps(run(json.loads(line), home, home / "demo", api)), flush=True)
    except BrokenPipeError:  # nobody listens any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
