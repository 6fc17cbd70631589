"""Where a server is, from a URL; and the same without the password, to be shown.

    postgresql://user:password@host:port/database?sslmode=require&schema=reasonbank

What follows the question mark goes to the server's client library, but for ``schema``, the place
in the database where the bank's tables are. libpq is never given the URL itself: where it does not
understand one, it says so with parts of it, and the password may be among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from reasonbank.errors import InvalidSetting

SCHEMA = "reasonbank"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OPTIONS = re.compile(r"\?(?=[a-z_]{1,63}=)")
# What is said by the program itself, and what another part of it takes.
_OURS = ("schema", "index")


@dataclass(frozen=True, slots=True)
class Address:
    """``options`` are libpq's, the password among them: never shown."""

    options: Mapping[str, str] = field(repr=False)
    schema: str
    shown: str


def address_of(url: str) -> Address:
    _, _, rest = url.partition("://")
    who, place, query = _parts(rest)
    user, _, password = who.partition(":")
    host, _, database = place.partition("/")
    name, port = _host_and_port(host)
    given = {"user": user, "password": password, "host": name, "port": port, "dbname": database}
    options = {key: unquote(value) for key, value in given.items() if value}
    asked = _asked(query)
    schema = asked.get("schema", SCHEMA)
    if not _NAME.fullmatch(schema):
        raise InvalidSetting("url", "schema must be small letters, digits and _, a letter first")
    options |= {key: value for key, value in asked.items() if key not in _OURS}
    return Address(options, schema, _shown(options, schema))


def _parts(rest: str) -> tuple[str, str, str]:
    """User and password; host and database; what follows the question mark.

    A password that was not escaped may have any of the signs that divide a URL: up to the last @
    before the options it is taken as it is.
    """
    found = _OPTIONS.search(rest)
    who, _, place = rest[: found.start() if found else None].rpartition("@")
    place, _, more = place.partition("?")
    return who, place, rest[found.start() + 1 :] if found else more


def _host_and_port(host: str) -> tuple[str, str]:
    if host.startswith("["):  # An IPv6 address has colons of its own.
        name, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    if port and not port.isdecimal():
        raise InvalidSetting(
            "url",
            "the port is not a number; use postgresql://user:password@host:5432/database, with "
            "/ ? # @ : and % of the password percent-encoded (%2F %3F %23 %40 %3A %25)",
        )
    return name, port


def _asked(query: str) -> dict[str, str]:
    asked: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if not _NAME.fullmatch(key):
            raise InvalidSetting("url", "has an option that is no name, after its question mark")
        asked[key] = value
    return asked


def _shown(options: Mapping[str, str], schema: str) -> str:
    host = options.get("host", "")
    port = f":{options['port']}" if "port" in options else ""
    who = f"{options['user']}@" if "user" in options else ""
    where = f"{who}{'' if host.startswith('/') else host}{port}/{options.get('dbname', '')}"
    more = "" if schema == SCHEMA else f"?schema={schema}"
    return f"postgresql://{where}{more}"
