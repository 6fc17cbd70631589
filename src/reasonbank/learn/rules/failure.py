"""What went wrong, in words that fit the next time too."""

from __future__ import annotations

from dataclasses import dataclass

from reasonbank.safety.patterns import brief, compile

LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``message`` is what was printed; ``pattern`` its stable part, the same on every machine."""

    type: str
    message: str
    pattern: str


# The most telling first. `type` names the group or gives the name; where a tool reports many
# errors, compilers mean the first and stack traces the last.
_FIRST, _LAST = "first", "last"
_KINDS: tuple[tuple[str, str | None, str], ...] = (
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
    (r"(?P<text>(?:[\w./-]+: )?(?:line \d+: )?[\w./-]+: (?:command )?not found)\s*$", "CommandNotFound", _FIRST),
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
        return Failure(type=type[:80], message=message, pattern=stable(f"{type}: {message}"))
    return None


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
