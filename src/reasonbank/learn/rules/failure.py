"""What went wrong, in words that fit the next time too."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.safety.patterns import brief, compile

LONGEST_MESSAGE = 300
LONGEST_STACK = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``message`` is what was printed; ``pattern`` its stable part, the same on every machine.

    ``stack`` is the stack trace, where one was printed.
    """

    type: str
    message: str
    pattern: str
    stack: str | None = None

    @property
    def vague(self) -> bool:
        """Whether the type alone says little."""
        return self.type in VAGUE

    @property
    def only_a_test(self) -> bool:
        return self.type in ("AssertionError", "TestFailure")


# The most telling first. `type` names the group or gives the name; where a tool reports many
# errors, compilers mean the first and stack traces the last.
_FIRST, _LAST = "first", "last"
_KINDS: tuple[tuple[str, str | None, str], ...] = (
    # An interpreter that names what failed within
    (r"\bdue to:? (?P<type>[A-Z]\w*(?:Error|Exception)): (?P<text>.*)", None, _LAST),
    # A name of its own: Python, JavaScript, Java, Ruby, .NET
    (r"^E\s{3,}(?P<type>[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Timeout))(?::\s*(?P<text>.*))?$", None, _FIRST),
    (r"^(?:Uncaught |Unhandled |Caused by: )?(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|NotFound))(?: \[(?P<code>\w+)\])?(?::\s*(?P<text>.*))?$", None, _LAST),
    (r"^Exception in thread \"[^\"]*\" (?P<type>[\w.$]+)(?::\s*(?P<text>.*))?", None, _LAST),
    # Compilers and checkers
    (r"^error\[(?P<type>E\d+)\]: (?P<text>.*)", None, _FIRST),
    (r"(?:^|: |- )error (?P<type>TS\d+): (?P<text>.*)", None, _FIRST),
    (r"^\S+:\d+(?::\d+)?: (?:fatal )?error: (?P<text>.*?)(?:\s+\[(?P<type>[\w-]+)\])?$", "CompileError", _FIRST),
    (r"undefined reference to (?P<text>.*)", "LinkError", _FIRST),
    (r"^\S+\.go:\d+:\d+: (?P<text>.*)", "CompileError", _FIRST),
    (r"^\s*\S+:\d+:\d+:? (?P<type>[A-Z]{1,4}\d{2,4}) (?P<text>.*)", None, _FIRST),
    (r"^\s+\d+:\d+\s+error\s+(?P<text>.*?)\s{2,}(?P<type>[\w@/-]+)$", None, _FIRST),
    # Package managers
    (r"^npm (?:ERR!|error) code (?P<type>E\w+)", None, _FIRST),
    (r"^(?:\s*)(?P<type>ERR_PNPM_\w+)\s+(?P<text>.*)", None, _FIRST),
    (r"^ERROR: (?P<text>(?:Could not find a version|No matching distribution|ResolutionImpossible|Cannot install).*)", "ResolutionError", _FIRST),
    (r"^error: (?P<type>externally-managed-environment)", None, _FIRST),
    (r"^E: (?P<text>.*)", "AptError", _FIRST),
    # Shell and system
    (r"(?P<text>(?:[\w./-]+: )?(?:(?:line )?\d+: )?[\w./-]+: (?:command )?not found)\s*$", "CommandNotFound", _FIRST),
    (r"(?P<text>[^\n]{0,120}: No such file or directory)", "FileNotFound", _FIRST),
    (r"(?P<text>[^\n]{0,160}\b[Pp]ermission denied\b[^\n]{0,80})", "PermissionDenied", _FIRST),
    (r"(?P<text>[^\n]{0,120}(?:EADDRINUSE|[Aa]ddress already in use|port is already allocated)[^\n]{0,80})", "AddressInUse", _FIRST),
    (r"(?P<text>[^\n]{0,120}(?:ECONNREFUSED|[Cc]onnection refused)[^\n]{0,80})", "ConnectionRefused", _FIRST),
    (r"(?P<text>[^\n]{0,120}No space left on device)", "DiskFull", _FIRST),
    (r"^(?P<type>Segmentation fault|Killed|Illegal instruction|Bus error)\b(?P<text>.*)", None, _FIRST),
    # Tools
    (r"^\s*! \[(?:remote )?rejected\]\s+(?P<text>.*)", "PushRejected", _FIRST),
    (r"^(?:fatal|FATAL): (?P<text>.*)", "fatal", _FIRST),
    (r"^(?:docker: )?Error response from daemon: (?P<text>.*)", "DockerError", _FIRST),
    (r"^Error from server \((?P<type>\w+)\): (?P<text>.*)", None, _FIRST),
    (r"^(?:psql:.*|.*\b)?ERROR:\s+(?P<text>.*)", "error", _FIRST),
    (r"^\[ERROR\]\s+(?:[Ee]rror: )?(?P<text>[^\n]*[a-z][^\n]*)", "error", _FIRST),
    (r"^(?:E\s+)?(?P<type>[A-Z][a-z]+(?:[A-Z][a-z]+)+): (?P<text>.+)", None, _FIRST),
    (r"^\* What went wrong:\n(?P<text>.*)", "BuildFailed", _FIRST),
    (r"^panic: (?P<text>.*)", "panic", _FIRST),
    (r"thread '[^']*' (?:\(\d+\) )?panicked at (?P<text>.*)", "panic", _FIRST),
    (r"^(?:[\w./-]+: )?[Ee]rror(?: \[(?P<type>[A-Z_]+)\])?: (?P<text>.*)", "error", _FIRST),
    (r"^\S[\w./-]*: error: (?P<text>.*)", "UsageError", _FIRST),
    (r"(?P<text>[^\n]{0,80}\b(?:unrecognized|unknown|invalid|illegal) (?:option|argument|flag|command)s?\b[^\n]{0,120})", "UsageError", _FIRST),
    # Only that a test failed
    (r"^E\s{3,}(?P<text>assert\b.*)", "AssertionError", _FIRST),
    (r"^\s*--- FAIL: (?P<text>\w+)", "TestFailure", _FIRST),
    (r"^(?:FAILED|FAIL)[ :]+(?P<text>\S.*)", "TestFailure", _FIRST),
)  # fmt: skip
_PATTERNS = tuple((compile(f"(?m){p}"), name, which) for p, name, which in _KINDS)


VAGUE = frozenset(
    {"error", "fatal", "CommandFailed", "TestFailure", "AssertionError", "UsageError"}
)


def failure_of(output: str) -> Failure | None:
    """The error in what a command printed; None where there is none that one could name."""
    for pattern, name, which in _PATTERNS:
        found = list(pattern.finditer(output[-8_000:]))
        if not found:
            continue
        match = found[0] if which == _FIRST else found[-1]
        parts = match.groupdict()
        type = (parts.get("code") or parts.get("type") or name or "error").rpartition(".")[2]
        text = (parts.get("text") or "").strip() or _next_line(output, match[0])
        message = " ".join(text.split())[:LONGEST_MESSAGE]
        return _named(type, message, output)
    return None


def _named(type: str, message: str, output: str) -> Failure:
    return Failure(
        type=type[:80],
        message=message,
        pattern=stable(f"{type}: {message}"),
        stack=stack_of(output),
    )


# What tools say in words of their own, and what to call it.
_SAID = tuple(
    (compile(f"(?i)\\b(?:{words})"), name)
    for words, name in (
        (r"no space left|disk full|quota exceeded|enospc", "DiskFull"),
        (r"certificate|x509|ssl:|tls:", "CertificateError"),
        (r"denied|forbidden|unauthori[sz]ed|not authori[sz]ed|not logged in|authenticat|credentials|expired|"
         r"not permitted|eacces|eperm", "AccessDenied"),
        (r"cannot connect|can't connect|could not connect|unable to connect|failed to connect|refused|"
         r"unreachable|could not resolve host|not running", "ConnectionFailed"),
        (r"timed out|timeout|deadline exceeded", "Timeout"),
        (r"locked|lock file|state lock|another process", "Locked"),
        (r"out of date|outdated|changed significantly|not in sync|inconsistent|stale|pending", "OutOfDate"),
        (r"conflict", "Conflict"),
        (r"unsupported|incompatible|requires? (?:a )?\S+ version|version mismatch|too old", "VersionMismatch"),
        (r"not found|no such|missing|could not find|couldn't find|cannot find|can't find|does not exist|"
         r"doesn't exist|not installed|undefined|not set|unset", "NotFound"),
    )
)  # fmt: skip
_TELLING = compile(
    r"(?i)\b(?:error|fail(?:ed|ure|s)?|fatal|cannot|can't|could ?n[o']t|unable|no(?:t| such| longer)|denied|"
    r"refused|missing|invalid|unknown|un(?:supported|expected|defined|authori[sz]ed)|doesn't|isn't|required|"
    r"unbound|has changed|too (?:low|old|large|many|long)|expired|timed out|forbidden|conflict\w*|exceeded|corrupt\w*|mismatch|already|locked|abort\w*|"
    r"out of (?:date|memory)|outdated|must|illegal|bad|wrong|emerg)\b"
)
_PASSED_ON = compile(
    r"^(?:make(?:\[\d+\])?: \*\*\*|npm (?:ERR!|error) (?:code \d|errno|path|command|A complete log|Lifecycle)|"
    r"error Command failed|ELIFECYCLE|\s*ELIFECYCLE|info Visit|FAILURE: Build failed|\[ERROR\] ->|Exit code)"
)
_DECORATION = compile(r"^(?:[\s*>✗✖×!@-]|\[\w+\] |npm (?:ERR!|error) )+")


def complaint_of(output: str) -> Failure | None:
    """The line in which a command that failed says why, in whatever words it has."""
    if named := failure_of(output):
        return named
    lines = [line for line in output[-8_000:].splitlines() if len(line.split()) > 1]
    # What a runner says about the failure of what it ran comes last, if there is nothing else.
    lines = [line for line in lines if not _PASSED_ON.match(line[:1_000])] or lines
    telling = [line for line in lines if _TELLING.search(line[:1_000])]
    if not lines:
        return None
    # A warning beside it is not why it failed.
    telling.sort(key=lambda line: "warning" in line[:40].lower())
    line = _DECORATION.sub("", (telling or lines[-1:])[0][:1_000])
    line = line[max(0, line.find("curl: (")) :]  # It draws a meter on the same line.
    message = " ".join(line.split())[:LONGEST_MESSAGE]
    name = next((name for pattern, name in _SAID if pattern.search(message)), "CommandFailed")
    return _named(name, message, output) if message else None


_STACK_BEGINS = ("Traceback (most recent call last)", "goroutine ", "stack backtrace:")
_FRAME = compile(r"^\s+(?:at |from |#\d|\d+: )\S")


def stack_of(output: str) -> str | None:
    """The last stack trace of what was printed, its end kept where it is long."""
    lines = output[-16_000:].splitlines()
    begins = [n for n, line in enumerate(lines) if line.lstrip().startswith(_STACK_BEGINS)]
    if begins:
        return _ending(lines[begins[-1] : _end_of_stack(lines, begins[-1])])
    frames = [n for n, line in enumerate(lines) if _FRAME.match(line[:500])]
    if len(frames) < 2:
        return None
    first = frames[0]
    last = first
    while last + 1 < len(lines) and _FRAME.match(lines[last + 1][:500]):
        last += 1
    return _ending(lines[max(0, first - 1) : last + 1]) if last > first else None


def _end_of_stack(lines: list[str], first: int) -> int:
    """After what is indented comes the line that names the error; then something else."""
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if line and not line[0].isspace():
            return number + 1
    return len(lines)


def _ending(lines: list[str]) -> str:
    told = "\n".join(line.rstrip() for line in lines)
    return told if len(told) <= LONGEST_STACK else "…" + told[1 - LONGEST_STACK :]


_NPM = compile(r"^npm (?:ERR!|error)\s*")


def _next_line(output: str, line: str) -> str:
    """npm and its like say what is wrong on the line after its code."""
    rest = output.partition(line)[2].strip().partition("\n")[0]
    return _NPM.sub("", rest)


_UNSTABLE = (
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
    (r"\b0x[0-9a-fA-F]+\b", "<address>"),
    (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<hash>"),
    (r"\bhttps?://[^\s'\"<>)]+", "<url>"),
    (r"(?:(?<=^)|(?<=[\s'\"(=:\[]))(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])*[\w.@+-]*(?::\d+){0,2}", "<path>"),
    (r"\b(?:[\w.@+-]+/){2,}[\w.@+-]+(?::\d+){0,2}", "<path>"),
    (r"(?<![\w.])\d+(?:\.\d+)*(?:\s?(?:ms|s|MB|KB|GB|kB|%))?(?![\w])", "<n>"),
)  # fmt: skip
_STABLE = tuple((brief(pattern, 1_000), mark) for pattern, mark in _UNSTABLE)


def stable(text: str) -> str:
    """``text`` without what differs from run to run: paths, numbers, hashes, times."""
    text = text[:1_000]
    for pattern, mark in _STABLE:
        text = pattern.sub(mark, text)
    return " ".join(text.split())
