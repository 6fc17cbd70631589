"""The image of the Dockerfile, built from a bare Debian root, and containers of it.

image = Image(folder)                               # debootstrap and buildah, about two minutes
container = Container(image, volume)                # runc, as the image says: its user, its words
container = Container(image, volume, "token", "list")
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DEBIAN = "trixie"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
WANTED = "REASONBANK_TEST_CONTAINERS"
LESSON = {"title": "Retry uploads", "description": "When an upload breaks off half-way",
          "content": "Wait longer each time, and resume where it broke.",
          "outcome": "success"}  # fmt: skip
CLIENT = """
import json, sys
from urllib.request import Request, urlopen
token, port, path, body = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
request = Request(f"http://127.0.0.1:{port}/api/v1/{path}", body.encode() or None, headers)
print(urlopen(request, timeout=60).read().decode())
"""


def obstacle() -> str | None:
    """Why no image can be built here; None if one can."""
    if not os.environ.get(WANTED):
        return "takes three minutes: `make container-check` builds the image and runs this"
    if os.geteuid() != 0:
        return "only root may make a Debian root and mount it"
    if missing := [each for each in ("buildah", "debootstrap", "runc") if not shutil.which(each)]:
        return f"not installed: {', '.join(missing)}; `apt-get install` them"
    with tempfile.TemporaryDirectory() as folder:
        for words in (
            ("debootstrap", "--print-debs", DEBIAN, f"{folder}/root"),
            (sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, "click"),
        ):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"packages cannot be had ({words[0]}): {done.stderr[-300:]}"
    return None


class Image:
    """``config`` is what the image says of itself, ``root`` the folder of its files."""

    def __init__(self, folder: Path, extras: str = "postgres") -> None:
        self.folder = folder
        # In memory, about 2 GB, and as much again for Chroma's server: on a disk, thousands of
        # small files are waited for one by one.
        run("mount", "-t", "tmpfs", "-o", "size=6g,mode=0755", "tmpfs", str(folder))
        try:
            self._build(extras)
        except BaseException:
            self.remove()
            raise

    def _build(self, extras: str) -> None:
        folder = self.folder
        self._buildah = [
            "buildah", "--root", str(folder / "store"), "--runroot", str(folder / "run"),
            "--storage-driver", "vfs",
        ]  # fmt: skip
        self._make_base()
        self._do(
            "build", "--quiet", "--isolation", "chroot", "--format", "docker",
            "--build-arg", "BASE=localhost/base", "--build-arg", f"EXTRAS={extras}",
            "--tag", "localhost/reasonbank", str(ROOT),
        )  # fmt: skip
        about = json.loads(self._do("inspect", "--type", "image", "localhost/reasonbank"))
        self.config: dict[str, Any] = about["Docker"]["config"]
        self.root = Path(self._do("mount", self._do("from", "localhost/reasonbank")))

    def _make_base(self) -> None:
        container = self._do("from", "scratch")
        root = self._do("mount", container)
        run(
            "debootstrap", "--variant=minbase", "--include=ca-certificates,python3,python3-venv",
            DEBIAN, root,
        )  # fmt: skip
        # Whom this machine trusts, the image trusts while it is built: there may be a mirror.
        shutil.copy(CERTIFICATES, f"{root}{CERTIFICATES}")
        self._do("commit", "--quiet", "--disable-compression", "--rm", container, "localhost/base")

    def _do(self, *words: str) -> str:
        return run(*self._buildah, *words).strip()

    def remove(self) -> None:
        run("umount", str(self.folder))  # The driver vfs copies files, and mounts nothing itself.


class Container:
    """One that runs as the image says, on a root that cannot be written and without rights.

    Its network is its own, loopback alone, unless ``shares_network``.
    """

    number = 0

    def __init__(
        self,
        image: Image,
        volume: Path,
        *arguments: str,
        user: str | None = None,
        environment: dict[str, str] | None = None,
        shares_network: bool = False,
    ) -> None:
        said = image.config
        self._stop_signal = said["StopSignal"]
        self._health: list[str] = said["Healthcheck"]["Test"][1:]
        Container.number += 1
        self.name = f"reasonbank-test-{os.getpid()}-{Container.number}"
        bundle = image.folder / self.name
        bundle.mkdir()
        self._runc = ["runc", "--root", str(image.folder / "runc")]
        run(*self._runc, "spec", "--bundle", str(bundle))
        spec = json.loads((bundle / "config.json").read_text())
        spec["root"] = {"path": str(image.root), "readonly": True}
        uid, gid = map(int, (user or said["User"]).split(":"))
        more = [f"{name}={value}" for name, value in (environment or {}).items()]
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": [*said["Entrypoint"], *(arguments or said["Cmd"])],
            "env": [*said["Env"], *more],
            "cwd": said["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        }
        volume.mkdir(exist_ok=True)
        os.chown(volume, uid, gid)
        options = ["nosuid", "nodev", "mode=1777"]
        spec["mounts"] += [
            {"destination": next(iter(said["Volumes"])), "type": "bind", "source": str(volume),
             "options": ["bind", "rw"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": options},
        ]  # fmt: skip
        if shares_network:
            spaces = spec["linux"]["namespaces"]
            spec["linux"]["namespaces"] = [each for each in spaces if each["type"] != "network"]
        (bundle / "config.json").write_text(json.dumps(spec))
        self._process = subprocess.Popen(
            [*self._runc, "run", "--bundle", str(bundle), self.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        # Until then there is nothing to be stopped or looked into.
        while self._process.poll() is None and self._state() not in ("running", "stopped"):
            time.sleep(0.02)

    def _state(self) -> str:
        done = subprocess.run(
            [*self._runc, "state", self.name], capture_output=True, text=True, check=False
        )
        return str(json.loads(done.stdout)["status"]) if done.returncode == 0 else ""

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            run(*self._runc, "kill", self.name, "KILL")
            self._process.communicate(timeout=60)

    def first_line(self) -> str:
        """Comes when a server can be called; empty if it ended before that."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command inside, as the container's user."""
        return subprocess.run(
            [*self._runc, "exec", self.name, *words], capture_output=True, text=True, check=False
        )

    def is_healthy(self) -> bool:
        return self.execute(*self._health).returncode == 0

    def stop(self) -> tuple[int, str, str]:
        """As an engine stops it: the exit code, and what it printed since."""
        run(*self._runc, "kill", self.name, self._stop_signal)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        printed, logged = self._process.communicate(timeout=60)
        return self._process.returncode, printed, logged


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
