"""What servers write to standard error: a line for each thing worth knowing. For people who look
on it is a sentence, for what collects logs it is JSON.

No memory, no question, no secret and no token gets into a log. Our own messages hold none;
what other packages say may quote anything, so only the fixed part of it is kept; and of an
error that nobody expected, its kind and where it happened, but not its text.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reasonbank.safety.scrub import clean
from reasonbank.settings import Settings
from reasonbank.surfaces.show.fitting import clean as visible

if TYPE_CHECKING:
    from reasonbank.bank import Bank

_log = logging.getLogger("reasonbank")
# These say what they do, at a level where nobody asked.
_TALKATIVE = (
    "mcp", "httpx", "httpx2", "httpcore", "httpcore2", "urllib3", "openai", "anthropic", "asyncio",
    "opentelemetry",
)  # fmt: skip


def set_up(settings: Settings) -> None:
    """From now on every logger of this process writes as the settings say, and nothing else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(settings.log.format))
    if isinstance(handler.formatter, _Sentence):
        handler.addFilter(_worth_a_sentence)
    level = settings.log.level.upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name in _TALKATIVE:
        # At INFO the MCP SDK logs the text of tool errors, and ours quote what a caller sent.
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def embeds(bank: Bank) -> None:
    """For who serves or works for long: embed in the quickest way there is, and say which."""
    from reasonbank.embed.port import told
    from reasonbank.opening import quicken

    quicken(bank.store)
    _log.info("embeds with %s", told(bank.store.indexing.embedder))


def unexpected(what: str, error: BaseException) -> str:
    """Log where an error of ours happened; return what to tell the caller."""
    kind = type(error).__name__
    _log.error("%s: unexpected %s at %s", what, kind, where(error))
    return (
        f"an unexpected error ({kind}) in the server; its log says where. Other calls still "
        "work; if this one fails again, run `reasonbank doctor`"
    )


def where(error: BaseException) -> str:
    """The innermost frame first."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames))


def _formatter(form: str) -> logging.Formatter:
    if form == "auto":
        return _Sentence() if sys.stderr.isatty() else _Json()
    return _Json() if form == "json" else _Text()


def _worth_a_sentence(record: logging.LogRecord) -> bool:
    """Who starts a server is told where it is; the steps of the machinery are for logs."""
    return record.name != "uvicorn.error" or record.levelno >= logging.WARNING


class _Sentence(logging.Formatter):
    """When, by the clock on the wall, and what; how bad it is only where it is."""

    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        bad = record.levelno >= logging.WARNING
        lead = f"{facts['level'].capitalize()}: " if bad else ""
        told = " ".join(facts[name] for name in ("error", "where") if name in facts)
        ours = record.name.partition(".")[0] in ("reasonbank", "uvicorn")
        by = "" if ours else f" ({record.name})"
        return visible(f"{when}  {lead}{facts['message']}{by}{f': {told}' if told else ''}")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(str(value) for value in _facts(record).values())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_facts(record), ensure_ascii=False)


def _facts(record: logging.LogRecord) -> dict[str, str]:
    facts = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": clean(_message(record)),
    }
    if record.exc_info and (error := record.exc_info[1]):
        facts |= {"error": type(error).__name__, "where": where(error)}
    return facts


def _message(record: logging.LogRecord) -> str:
    if record.name == "uvicorn.access" and isinstance(record.args, tuple) and len(record.args) == 5:
        client, method, path, _, status = record.args
        return f"{client} {method} {str(path).partition('?')[0]} {status}"
    if record.name.partition(".")[0] == "reasonbank" or record.name == "uvicorn.error":
        return record.getMessage()
    # A message without arguments may have been put together from anything.
    return str(record.msg) if record.args else f"from {record.module}:{record.lineno}"
