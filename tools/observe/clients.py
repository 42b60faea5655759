"""Installs a client version, one at a time: the newer ones have several hundred megabytes.

What must stay true: nothing of a version is run while it is installed (`--ignore-scripts`), and a
broken installation is never taken for a whole one.
"""
import platform
import shutil
import subprocess

from .published import HOME, PACKAGE

CLIENTS = HOME / "clients"


def command(folder):
    """How to start the client in that folder: newer ones are a program, older ones a script."""
    modules = folder / "node_modules/@anthropic-ai"
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(
        platform.machine(), platform.machine())
    binary = modules / f"claude-code-{platform.system().lower()}-{machine}/claude"
    script = modules / "claude-code/cli.js"
    if binary.is_file():
        return [str(binary)]
    return [shutil.which("node") or "node", str(script)] if script.is_file() else None


def install(version):
    """The command that starts this version, and no other version on disk."""
    folder = CLIENTS / version
    whole = folder / "installed"
    for other in CLIENTS.iterdir() if CLIENTS.is_dir() else []:
        if other != folder or not whole.is_file():
            shutil.rmtree(other, ignore_errors=True)
    if not whole.is_file():
        folder.mkdir(parents=True)
        cache = CLIENTS / "npm-cache"
        run = subprocess.run(
            ["npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts",
             "--cache", str(cache), "--prefix", str(folder), f"{PACKAGE}@{version}"],
            capture_output=True, text=True, check=False)
        shutil.rmtree(cache, ignore_errors=True)
        if run.returncode != 0 or not command(folder):
            shutil.rmtree(folder, ignore_errors=True)
            raise RuntimeError(f"npm could not install {version}: {run.stderr.strip()[-300:]}")
        whole.touch()
    return command(folder)
