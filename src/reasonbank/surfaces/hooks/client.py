"""What an agent starts at each moment of a session, `reasonbank hook EVENT --agent NAME`.

It asks a process that has the bank open, over a private socket, and prints the answer; where
there is none, a child of its own looks into the bank. Whatever goes wrong: it is silent, ends
with 0, and in time.

An agent waits for it, so nothing is imported here that Python has not loaded before anyway.
"""

from time import monotonic

BEGUN = monotonic()

import os  # noqa: E402
import sys  # noqa: E402

SECONDS = 1.5
"""The promise: no call takes longer, counted from its first line."""
ENOUGH = 1.1
"""Then it gives up: on a busy machine it takes a while to be heard."""
HELLO_SECONDS = 0.3
"""A server that does not even say that it is there stands still."""
MOST_SILENT = 2
"""So many servers that stand still are waited for."""
CHILD_SECONDS = 10
"""A child that hands a session over may go on for so long without its parent."""
MOST_BYTES = 16_000_000
"""Of what the agent tells; more is passed over."""
LENGTH = 4
HERE, MINE, OTHERS = b"+", b"=", b"-"
"""What a server says: that it listens; its answer; that it has another bank open."""
HANDING_OVER = ("turn-end", "before-compaction", "session-end")
_VARIABLES = ("REASONBANK_", "XDG_", "HOME", "LOCALAPPDATA")
_NOT_THESE = ("REASONBANK_TOKEN",)

Environment = dict[str, str]


class Call:
    """One call of a hook, as it is on the command line and in the environment."""

    def __init__(self, argv: list[str], environment: Environment, directory: str) -> None:
        self.event = self.agent = self.bank = ""
        self.environment = environment
        self.directory = directory
        self.told = b""
        self.left_behind: list[str] = []
        words = iter(argv)
        for word in words:
            name, equals, value = word.partition("=")
            if name in ("--agent", "--bank"):
                setattr(self, name[2:], value if equals else next(words, ""))
            elif not word.startswith("-") and not self.event:
                self.event = word

    def packed(self) -> bytes:
        """For a server; a token is nobody else's business."""
        told = [
            f"{name}={value}"
            for name, value in self.environment.items()
            if name.startswith(_VARIABLES) and name not in _NOT_THESE
        ]
        parts = (self.event, self.agent, self.bank, self.directory, "\0".join(told))
        return b"".join(framed(os.fsencode(part)) for part in parts) + framed(self.told)


def framed(part: bytes) -> bytes:
    return len(part).to_bytes(LENGTH, "big") + part


def main(argv: list[str] | None = None) -> None:
    """``argv`` is what stands behind ``hook``; never returns, unless help is asked for."""
    argv = sys.argv[2:] if argv is None else argv
    if "--help" in argv or "-h" in argv:
        from reasonbank.surfaces.cli.shell import main as shell

        shell(["hook", *argv])
        return
    try:
        _Hook(argv).run()
    # Nothing that happens here is the agent's business.
    except BaseException:  # noqa: BLE001
        os._exit(0)
    os._exit(0)


class _Hook:
    def __init__(self, argv: list[str]) -> None:
        self._child = 0
        self._is_late = False
        self._call = Call(argv, dict(os.environ), "")
        self._set_alarm()
        _open_all_three()
        try:
            self._call.directory = os.getcwd()
        except OSError:
            self._call.directory = self._call.environment.get("PWD", "/")

    def run(self) -> None:
        self._call.told = _read_all(0)
        if leave := self._leave():
            os.write(1, leave)
            self._beside(lambda _: note(self._call, "ok"))
            return
        path, certain = bank_path(self._call)
        if certain and not os.path.exists(path):
            self._beside(lambda _: note(self._call, "silent"))
            return
        reply = self._asked(f"{path}.hooks")
        if reply is None:
            reply = self._alone()
        while reply:
            reply = reply[os.write(1, reply) :]

    def _leave(self) -> bytes:
        """The permission for a tool of ours, where only a hook can give it: that needs no bank."""
        call = self._call
        if call.agent != "copilot-cli" or b"reasonbank-" not in call.told:
            return b""
        from reasonbank.surfaces.hooks.answering import leave

        return leave(call).encode()

    def _left(self) -> float:
        return max(0.001, BEGUN + ENOUGH - monotonic())

    def _set_alarm(self) -> None:
        import _signal  # type: ignore[import-not-found]

        self._signal = _signal
        _signal.signal(_signal.SIGALRM, self._late)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
        _signal.setitimer(_signal.ITIMER_REAL, self._left())

    def _late(self, _number: int, _frame: object) -> None:
        # A child knows by itself when it is late; on a busy machine every step takes its time.
        if self._is_late or self._child:
            os._exit(0)
        self._is_late = True
        self._signal.setitimer(self._signal.ITIMER_REAL, 0.05)
        try:
            self._beside(lambda _: note(self._call, "late"))
        finally:
            os._exit(0)

    def _asked(self, folder: str) -> bytes | None:
        """What one of the servers says, if there is one that answers; see ``door``."""
        try:
            names = os.listdir(folder)
            found = os.stat(folder)
        except OSError:
            return None
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return None
        silent = 0
        request = framed(self._call.packed())
        for name in names:
            if name.startswith(".") or silent >= MOST_SILENT:
                continue
            try:
                reply = _asked_one(folder, name, request, self._left)
            except TimeoutError:
                silent += 1
            except ConnectionRefusedError:
                self._call.left_behind.append(f"{folder}/{name}")  # Its server was killed.
            except OSError:
                pass
            else:
                if reply is not None:
                    return reply
        return None

    def _alone(self) -> bytes | None:
        """The answer of a child, which opens the bank."""

        def answer(sink: int) -> None:
            # An answer that is late is worth nothing; a session can still be handed over.
            if self._call.event not in HANDING_OVER:
                self._signal.setitimer(self._signal.ITIMER_REAL, self._left())
            try:
                note(self._call, "late")  # Until it is known to be something else.
            except OSError:
                pass
            import gc

            gc.disable()  # It would look for garbage a sixth of the time, and soon all is gone.
            from reasonbank.surfaces.hooks.alone import answer

            answer(self._call, sink)

        reader, self._child = self._beside(answer)
        found = b""
        while part := os.read(reader, 65_536):
            found += part
        reply = whole(found)
        if reply is None:
            self._beside(lambda _: note(self._call, "failed"))
        return reply

    def _beside(self, work: "Callable[[int], None]") -> tuple[int, int]:
        """Let a child do what could take long, as all does that touches a disk: whatever it hangs
        in, this process does not. What it writes can be read; it may outlive this process."""
        reader, writer = os.pipe()
        child = os.fork()
        if child:
            os.close(writer)
            return reader, child
        try:
            signal = self._signal
            signal.setitimer(signal.ITIMER_REAL, CHILD_SECONDS)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            # No agent is to wait for what it holds open.
            nothing = os.open(os.devnull, os.O_RDWR)
            for each in (0, 1, 2):
                os.dup2(nothing, each)
            os.dup2(writer, 3)
            os.closerange(4, 1024)
            work(3)
        finally:
            os._exit(0)


def _open_all_three() -> None:
    """Where an agent closed one of the standard streams, a file of ours would take its place."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _read_all(source: int) -> bytes:
    """All that the agent tells. Read to the end also where it is too much: nobody likes to write
    to who has gone."""
    parts = []
    size = 0
    while part := os.read(source, 1_048_576):
        size += len(part)
        if size <= MOST_BYTES:
            parts.append(part)
    return b"".join(parts) if size <= MOST_BYTES else b""


# Where the bank is. This is what settings.py says of it, without loading that.


def bank_path(call: Call) -> tuple[str, bool]:
    """Where the bank is, as far as can be told at a glance, and whether that is certain.

    A server looks at its own settings again, and so does who opens the bank.
    """
    url = call.bank or call.environment.get("REASONBANK_URL", "")
    certain = True
    if not url:
        url, certain = _url_of_file(call.environment)
    if not url:
        return f"{user_folder('XDG_DATA_HOME', '.local/share', call.environment)}/bank.db", certain
    return path_of(url, call), certain and url.partition("://")[0] in ("sqlite", url)


def path_of(url: str, call: Call) -> str:
    _, found, rest = url.partition("://")
    path = (rest.removeprefix("/") if found else url).partition("?index=")[0]
    if path.startswith("~/"):
        path = _home(call.environment) + path[1:]
    return os.path.join(call.directory, path)


def user_folder(variable: str, fallback: str, environment: Environment) -> str:
    if named := environment.get(variable):
        return f"{named}/reasonbank"
    home = _home(environment)
    if sys.platform == "darwin":
        return f"{home}/Library/Application Support/reasonbank"
    return f"{home}/{fallback}/reasonbank"


def _home(environment: Environment) -> str:
    if home := environment.get("HOME"):
        return home
    import pwd

    return pwd.getpwuid(os.getuid()).pw_dir


def _url_of_file(environment: Environment) -> tuple[str, bool]:
    """The `url` of the settings file, if that is written as it is mostly written."""
    folder = user_folder("XDG_CONFIG_HOME", ".config", environment)
    names = [f"{folder}/config.{ending}" for ending in ("toml", "yaml", "yml")]
    for name in [environment.get("REASONBANK_CONFIG") or names[0], *names[1:]]:
        try:
            file = os.open(name, os.O_RDONLY)
        except OSError:
            continue
        text = os.read(file, 65_536).decode("utf-8", "replace")
        os.close(file)
        for line in text.splitlines():
            key, sign, value = line.partition("=" if name.endswith("toml") else ":")
            if line.startswith("["):
                break
            if sign and key.strip() == "url":
                value = value.strip()
                quote = value[:1]
                told = value[1:].partition(quote) if quote in ("'", '"') else (value, "", "")
                return told[0], False
        return "", False
    return "", True


# A server that has the bank open.


def _asked_one(folder: str, name: str, request: bytes, left: "Callable[[], float]") -> bytes | None:
    import _socket

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(min(HELLO_SECONDS, left()))
        with_short_path(folder, name, sock.connect)
        if not is_own(sock) or sock.recv(1) != HERE:
            return None
        # One that says that it is there is believed: to ask another costs more.
        sock.settimeout(left())
        view = memoryview(request)
        while view:
            view = view[sock.send(view) :]
        found = b""
        while part := sock.recv(65_536):
            found += part
        reply = whole(found)
        return None if reply is None or reply[:1] == OTHERS else reply[1:]
    finally:
        sock.close()


LONGEST_PATH = 100


def with_short_path(folder: str, name: str, use: "Callable[[str], object]") -> None:
    """Sockets take short paths only; a longer one is named by the folder's descriptor."""
    path = f"{folder}/{name}"
    if len(os.fsencode(path)) <= LONGEST_PATH:
        use(path)
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        use(f"/proc/self/fd/{opened}/{name}")
    finally:
        os.close(opened)


def is_own(sock: "socket") -> bool:
    """Whether the other side is the same user; where that cannot be asked, the folder is ours."""
    import _socket

    if not hasattr(_socket, "SO_PEERCRED"):
        return True
    told = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(told[4:8], sys.byteorder) == os.geteuid()


def whole(found: bytes) -> bytes | None:
    """What was framed, if all of it is there."""
    length = int.from_bytes(found[:LENGTH], "big")
    return found[LENGTH:] if len(found) == LENGTH + length else None


def note(call: Call, word: str) -> None:
    """Say for `doctor` that this hook was called, and how it went; see ``fired``."""
    for name in (call.agent, call.event):
        if not name or len(name) > 40 or not name.replace("-", "").isalnum():
            return
    folder = user_folder("XDG_STATE_HOME", ".local/state", call.environment)
    place = f"{folder}/hooks/{call.agent}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        file = os.open(f"{place}/{call.event}", flags, 0o600)
    except FileNotFoundError:
        os.makedirs(place, 0o700, exist_ok=True)
        file = os.open(f"{place}/{call.event}", flags, 0o600)
    os.write(file, word.encode())
    os.close(file)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
