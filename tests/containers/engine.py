"""Podman and podman-compose, in namespaces that end with them: nothing of this machine is touched.

engine = Engine(image, folder)                      # of the image that is there, and a copy of
engine.compose("up", "--detach", "reasonbank")      # what a person checks out
engine.call(token, "memories", LESSON)              # at the port that Compose published
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.containers.image import CLIENT, ROOT, Image, run

COMPOSE = Path(sys.executable).with_name("podman-compose")
HELPERS = "/usr/lib/podman:/usr/libexec/podman"  # where Podman looks for what makes its networks
PORT = 18321
ISOLATED = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child")
# It ends when nobody holds its standard input any more, and whatever runs in it ends with it. The
# first line is its number outside, which it finds before it has a /proc of its own.
HOLD = """
read -r number rest < /proc/self/stat
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
ip link set lo up
echo "$number"
cat > /dev/null
"""
# What a person has set is not what is tested.
OTHERS = ("REASONBANK_", "COMPOSE_", "PUBLISH_", "POSTGRES_", "CONTAINERS_", "CONTAINER_",
          "BUILDAH_", "NETAVARK_")  # fmt: skip
# More than this machine allows itself would be refused.
SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
static_dir = "{folder}/store/libpod"
tmp_dir = "{folder}/run/libpod"
volume_path = "{folder}/store/volumes"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""
STORE = """
[storage]
driver = "vfs"
graphroot = "{folder}/store"
runroot = "{folder}/run"
"""


def obstacle() -> str | None:
    """Why Podman cannot start what Compose says here; None if it can."""
    path = f"{os.environ['PATH']}:{HELPERS}"
    wanted = ("podman", "runc", "ip", "iptables", "netavark", "aardvark-dns")
    missing = [each for each in wanted if not shutil.which(each, path=path)]
    if missing:
        return f"not installed: {', '.join(missing)}; `apt-get install` them"
    if not COMPOSE.exists():
        return "podman-compose is not installed: `make install`"
    words = [*ISOLATED, "iptables", "--table", "nat", "--list"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"no network can be made: {done.stderr[-300:]}" if done.returncode else None


class Engine:
    def __init__(self, image: Image, checkout: Path) -> None:
        self.checkout = checkout
        self.project = f"reasonbank-test-{os.getpid()}"
        copy_what_is_built_from(checkout)
        for name, text in (("containers.conf", SETTINGS), ("storage.conf", STORE)):
            (image.folder / name).write_text(text.format(folder=image.folder))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        self._environment = kept | {
            "CONTAINERS_CONF": str(image.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(image.folder / "storage.conf"),
            "COMPOSE_PROJECT_NAME": self.project,
            "REASONBANK_BASE": "localhost/base",
            "PUBLISH_PORT": str(PORT),
        }
        self._namespaces = subprocess.Popen(
            [*ISOLATED, "sh", "-euc", HOLD],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._namespaces.stdout is not None
        number = self._namespaces.stdout.readline().strip()
        assert number, "there are no namespaces for the engine"
        self._inside = [
            "nsenter", "--target", number, "--net", "--mount", "--pid",
            "env", f"--chdir={checkout}",
        ]  # fmt: skip

    def build(self, *words: str) -> None:
        """With this machine's network, because packages come from outside."""
        # In the format of Docker an image says how its health is found out.
        more = {
            "BUILDAH_FORMAT": "docker",
            "BUILDAH_ISOLATION": "chroot",
            "BUILDAH_LAYERS": "false",
        }
        done = subprocess.run(
            [str(COMPOSE), *words], cwd=self.checkout, env=self._environment | more,
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    def compose(self, *words: str) -> str:
        return self._do(str(COMPOSE), *words)

    def podman(self, *words: str) -> str:
        return self._do("podman", *words)

    def about(self, service: str) -> dict[str, Any]:
        """What Podman says of its container."""
        found: dict[str, Any] = json.loads(self.podman("inspect", self._name(service)))[0]
        return found

    def _name(self, service: str) -> str:
        return f"{self.project}_{service}_1"

    def becomes_healthy(self, service: str) -> bool:
        """Asked as the image or Compose says; a timer of systemd would do so, but there is none."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            self._done("podman", "healthcheck", "run", self._name(service))
            if self.about(service)["State"]["Health"]["Status"] == "healthy":
                return True
            time.sleep(0.1)
        return False

    def call(self, token: str, path: str, body: object = None) -> Any:
        words = (token, str(PORT), path, json.dumps(body) if body else "")
        return json.loads(self._do(sys.executable, "-c", CLIENT, *words))

    def _do(self, *words: str) -> str:
        done = self._done(*words)
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._inside, *words], env=self._environment, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False, timeout=120,
        )  # fmt: skip

    def remove(self) -> None:
        """Orderly, because of the control groups; whatever is left ends with the namespaces."""
        try:
            for _ in range(2):  # A container that another one needs goes after it.
                self._done("podman", "rm", "--all", "--force", "--volumes")
        finally:
            self._namespaces.communicate(timeout=60)


def copy_what_is_built_from(folder: Path) -> None:
    """Without what a person has beside it: .env, reasonbank.env."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line[1:] for line in lines if line.startswith("!")]
    names = [".dockerignore", "Dockerfile", "compose.yaml", *sent]
    run("cp", "--recursive", *(str(ROOT / name) for name in names), str(folder))
