"""The installed PostgreSQL server -> a cluster of its own in a temporary folder, on a free port of the loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin")
USER = "ablate"


class Cluster:
    """A running server; `address` names a database in it, with a password."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._binaries = folder, find_binaries()
        self._account = _unprivileged()
        self.password, self.port = secrets.token_hex(8), _free_port()
        self.address = f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/postgres"
        if self._account:
            shutil.chown(folder, self._account)
        secret = folder / "password"
        secret.write_text(self.password, encoding="utf-8")
        if self._account:
            shutil.chown(secret, self._account)
        data = ["-D", str(folder / "data"), "-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8"]
        self._run([str(self._binaries / "initdb"), *data, "--no-sync", "--locale=C"])
        self._server: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder), "-F"]
        with (self._folder / "server.txt").open("ab") as output:
            self._server = subprocess.Popen(
                self._as_account([str(self._binaries / "postgres"), "-D", str(self._folder / "data"), *options]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "server.txt").read_text(encoding="utf-8"))
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server at once, its connections with it."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGINT)  # "fast": connections are ended
            self._server.wait(60)
            self._server = None

    def _answers(self) -> bool:
        command = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def _run(self, command: Sequence[str]) -> None:
        subprocess.run(self._as_account(command), check=True, stdout=subprocess.DEVNULL, cwd=self._folder)

    def _as_account(self, command: Sequence[str]) -> list[str]:
        return ["runuser", "-u", self._account, "--", *command] if self._account else list(command)


@contextlib.contextmanager
def start_cluster() -> Iterator[str]:
    """A cluster for as long as the context lasts; gives the address of a database in it."""
    with running_cluster() as cluster:
        yield cluster.address


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """As `start_cluster`, for whoever stops and starts it in between."""
    with tempfile.TemporaryDirectory(prefix="ablate-postgresql-", dir="/tmp") as name:
        cluster = Cluster(Path(name))
        try:
            yield cluster
        finally:
            cluster.stop()


def find_binaries() -> Path:
    """Folder of the newest installed server.

    Raises:
        FileNotFoundError: there is none.
    """
    folders = (folder for place in PLACES for folder in sorted(Path("/").glob(place.lstrip("/"))))
    found = [folder for folder in folders if (folder / "initdb").exists()]
    if not found:
        on_path = shutil.which("initdb")
        if on_path is None:
            raise FileNotFoundError("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
        return Path(on_path).parent
    return found[-1]


def _unprivileged() -> str:
    """Account for the server, which refuses to run as root; empty when this process is not root."""
    if os.geteuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return name
    raise RuntimeError("PostgreSQL does not run as root and there is no account postgres or nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
