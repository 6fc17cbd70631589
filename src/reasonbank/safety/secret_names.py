"""What a name says about its value, and whether a value can be what the name says."""

from __future__ import annotations

import math
from collections import Counter
from enum import Enum
from functools import lru_cache
from itertools import groupby, pairwise

from reasonbank.safety.patterns import compile


class Meaning(Enum):
    """How sure a name is, from the surest: a password may be weak, a key has to look random."""

    PASSWORD = "password"  # nosec B105  # a kind
    WORDS = "words"
    SECRET = "secret"  # nosec B105  # a kind
    KEY = "key"
    NOTHING = ""


_PASSWORDS = (
    "password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "contrasena", "motdepasse",
    "userpwd", "presharedkey",
)  # fmt: skip
_PASSWORD_PARTS = frozenset(
    "pwd pass pw passw psk senha rootpw bindpw storepass keypass requirepass masterauth pgpassword "
    "dbpass dbpwd mypwd sshpass wpapsk".split()
)
_WORDS = ("mnemonic", "seedphrase", "recoveryphrase", "backupphrase", "secretphrase")
_SECRETS = (
    "secret", "token", "credential", "apikey", "accesskey", "authkey", "privatekey", "encryptionkey",
    "signingkey", "masterkey", "accountkey", "servicekey", "clientkey", "appkey", "sharedkey",
    "sessionkey", "storagekey", "adminkey", "securitykey", "hmackey", "fernetkey", "licensekey",
    "validationkey", "decryptionkey", "webhookkey", "functionkey", "hostkey", "subscriptionkey",
    "consumerkey", "cookiekey", "cryptkey", "cipherkey", "deploykey", "botkey", "serverkey",
)  # fmt: skip
_SECRET_PARTS = frozenset(
    "creds cred auth authorization salt pepper bearer jwt otp totp sas".split()
)
_NO_KEYS = frozenset(
    "public primary foreign cache sort partition hash object bucket idempotency dedup dedupe routing "
    "lookup i18n group index map row item unique composite registry range query react search config "
    "setting settings message host known s3 artifact translation locale column field answer state "
    "storage hot arrow shortcut enter escape delete function modifier keyboard node step json dict".split()
)
_HARMLESS = frozenset(
    "id ids name names url uri urls endpoint type types length len size count counts limit limits "
    "expiry expires expiration expire expired in at ttl age timeout izer path paths file files "
    "filename dir folder field fields label hint placeholder policy version env var variable header "
    "headers prefix suffix format class method mode manager provider store scope scopes regex pattern "
    "validator validators hasher hashers strength min max required enabled disabled usage used budget "
    "cost rate price rotation status state index position pos page form input button title text "
    "message error errors link help arn alias ref reference kind date time number num sha256 "
    "fingerprint algorithm alg protocol callback helper tokens service server host port user username "
    "login email domain role source target option options settings changed updated created lifetime "
    "duration interval period days minutes seconds ms per total bucket ring test tests spec scanning "
    "confirmation validation encoding encoder hashing column table schema model view factory builder "
    "client handler middleware plugin module package icon color colour style width height".split()
)
_HARMLESS_ANYWHERE = frozenset(
    "public next continuation pagination sync trial tokenizer tokenize forgot placeholder csrf xsrf "
    "tooltip pad eos bos unk sep cls mask num max min".split()
)


@lru_cache(maxsize=4096)
def meaning(name: str) -> Meaning:
    parts = _parts(name)
    if not parts or parts[-1] in _HARMLESS or not _HARMLESS_ANYWHERE.isdisjoint(parts):
        return Meaning.NOTHING
    joined = "".join(parts)
    if any(word in joined for word in _PASSWORDS) or not _PASSWORD_PARTS.isdisjoint(parts):
        return Meaning.PASSWORD
    if any(word in joined for word in _WORDS):
        return Meaning.WORDS
    if parts[-1] == "key" and parts[-2:-1] and parts[-2] in _NO_KEYS:
        return Meaning.NOTHING
    if any(word in joined for word in _SECRETS) or not _SECRET_PARTS.isdisjoint(parts):
        return Meaning.NOTHING if "secretary" in joined else Meaning.SECRET
    if parts[-1] in ("key", "keys") or (len(parts) > 1 and parts[-2:] == ["key", "data"]):
        return Meaning.KEY if len(parts) > 1 or name == "?key" else Meaning.NOTHING
    return Meaning.NOTHING


def _parts(name: str) -> list[str]:
    """``dbPassword``, ``DB_PASSWORD`` and ``db.password`` are ``db``, ``password``."""
    parts: list[str] = []
    before = ""
    for at, letter in enumerate(name):
        if not letter.isalnum():
            before = ""
            continue
        after = name[at + 1 : at + 2]
        begins = not before or (
            letter.isupper() and (not before.isupper() or (after.islower() and after.isalpha()))
        )
        if begins:
            parts.append(letter.lower())
        else:
            parts[-1] += letter.lower()
        before = letter
    return parts


_PLACEHOLDERS = (
    r"(?i:(?:^|[^a-z])your|place.?holder|change.?(?:me|it|this)|redacted|\bremoved|masked|hidden\)|x{5,}|"
    r"\*{3,}|\.{3}|…|•|\bdummy|\[secret:|_here\b|-here\b|goes.?here|replace.?(?:me|this|with)|\bfake\b|"
    r"^fake|^insert|^put.your|\btodo\b|^tbd$|^n/?a$|<[a-z_ -]{2,40}>|"
    + "|".join(letter * 7 for letter in "abcdefghijklmnopqrstuvwxyz_-#")
    + ")"
)
_NO_VALUES = (
    r"(?i:^(?:null|none|nil|true|false|undefined|string|str|text|bytes|any|object|yes|no|on|off|int|"
    r"required|optional|enabled|disabled|empty|unset|default|example|sample)\b[?,;)]?$|"
    r"environ|getenv|\benv[.\[(:]|\bsecrets?\.[a-z]|^secrets?/|\bvault[:.]|^op://|^file:|^/run/|"
    r"^ENC\[|^!(?:Ref|Sub|vault|secret|ENV|GetAtt|ImportValue|reference)\b|^\(hidden|^arn:aws|^ssm:|^projects/|^\.\.?/)"
)
# $NAME, ${…}, $(…), {{…}}, %NAME%, #{…}, <%= … %>, `…`: what will stand there is elsewhere.
_REFERENCES = (
    r"^\$[A-Za-z_][A-Za-z0-9_]*$|^\$env:|^\$\d$|\$\{|\$\(|\{\{|#\{|<%|^%[A-Za-z_]\w*%$|%\(\w+\)s|"
    r"^\{[A-Za-z_][\w.]*\}$|^@[A-Za-z_]\w*$|^&\w+$|^\*[a-z]\w*$|^:[a-z]\w*$"
)
_PLACEHOLDER = compile(_PLACEHOLDERS)
_REFERENCE = compile(_REFERENCES)
_NOTHING_SECRET = compile(f"{_PLACEHOLDERS}|{_REFERENCES}|{_NO_VALUES}")
_CODE = compile(
    r"^[A-Za-z_][\w.]*(?:\?\.\w+)*[(\[{]|^[A-Za-z_]\w*(?:[?!]?(?:\.|::|->)[A-Za-z_]\w*)+[;,)]*$|^(?:new|await|not|self|this|lambda|async)\b|"
    r"^[\[{(][\]})]?[A-Za-z_]*\(?$|^\[\]|^&(?:str|mut)|^(?:https?|s3|gs|ftp|ssh|git)://"
)
_LETTER = compile(r"[A-Za-z]")
_SLUG = compile(r"[A-Za-z]?[a-z]*(?:[-_./:][a-z]{2,16}\d{0,2}|[-_./:]\d{1,4}){1,12}")
_IDENTIFIER = compile(r"[A-Za-z_]+(?:[.:_-][A-Za-z_]+\d{0,2})*\d{0,1}")
_PATH = compile(r"^(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w.@-]+(?:[/\\][\w.@-]+)*$")
_JUDGED = 240
"""How much of a value is looked at; a longer one is no word anyway."""
_STOP_WORDS = frozenset(
    "a an the is are was be must should will you your this that it its to of in for and or at with "
    "by from on not no never never when what which who see use set has have can may do does as if "
    "any all here there invalid missing required".split()
)
_CHOSEN_OFTEN = frozenset(
    "letmein qwerty qwertz iloveyou sunshine princess football baseball dragon monkey shadow "
    "superman batman swordfish opensesame trustnoone starwars michael jordan asdfgh zxcvbn".split()
)
_COMMON = frozenset(
    "password passwd pass secret token pwd pw user username admin root guest postgres test foo bar "
    "credentials key value hunter".split()
)


_SHORTEST = {Meaning.PASSWORD: 4, Meaning.SECRET: 10, Meaning.KEY: 20}


def is_placeholder(value: str) -> bool:
    return bool(_PLACEHOLDER.search(value))


def is_reference(value: str) -> bool:
    return bool(_REFERENCE.search(value))


def has_digit(value: str) -> bool:
    return any(map(value.__contains__, "0123456789"))


def bits(text: str) -> float:
    """The entropy of its letters, in bits a letter."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def is_token(value: str) -> bool:
    """For a value whose own shape is that of a secret."""
    value = value[:40]  # What follows may be no part of it.
    most = max(Counter(value).values()) / len(value)
    return not is_placeholder(value) and most < 0.4 and not _SLUG.fullmatch(value)


def is_password(value: str) -> bool:
    """Where the place alone says that it is a password, few things are none."""
    value = value[:_JUDGED]
    if len(value) < 3 or value[0] in "<{" or is_placeholder(value) or is_reference(value):
        return False
    return (
        value.lower().strip("*") not in _COMMON
        and not value.startswith("-")
        and bool(value.strip("*"))
    )


def is_value_of(kind: Meaning, value: str, *, quoted: bool) -> bool:
    """Whether ``value`` is what a name of this kind promises: a literal, and no word."""
    value = value[:_JUDGED]
    if kind is Meaning.NOTHING or len(value) < 4 or value.lower() in _COMMON:
        return False
    if kind is Meaning.WORDS:
        return _are_words(value, 12)
    if len(value) < _SHORTEST[kind] or _NOTHING_SECRET.search(value):
        return False
    if len(value.split(None, 1)) > 1:
        return kind is Meaning.PASSWORD and (_is_phrase(value) or _are_words(value, 4))
    if not value.isascii() or _PATH.search(value) or (not quoted and _CODE.search(value)):
        return False
    if quoted and "://" in value:
        return False
    if kind is Meaning.PASSWORD:
        return _may_be_chosen(value, quoted=quoted)
    return _looks_random(value)


def _may_be_chosen(value: str, *, quoted: bool) -> bool:
    if value.isdigit():
        return len(value) >= (4 if quoted else 6)
    if not _LETTER.search(value) or len(value) < 4:
        return False
    if value.isalpha():
        return value.lower() in _CHOSEN_OFTEN or _is_no_word(value)
    if value.replace("_", "").isalpha() or value.replace("-", "").isalpha():
        return len(value) >= 6 and _is_no_word(value.replace("_", "").replace("-", ""))
    return not _IDENTIFIER.fullmatch(value) or has_digit(value)


def _looks_random(value: str) -> bool:
    if _SLUG.fullmatch(value) or (_IDENTIFIER.fullmatch(value) and not _is_no_word(value)):
        return False
    if not _LETTER.search(value):
        return False
    spread = bits(value)
    if has_digit(value):
        return spread >= 2.7
    return spread >= 3.4 and (_is_no_word(value) or not value.isalpha())


def _is_no_word(value: str) -> bool:
    """Letters only, and nobody could say it: capitals amid small ones, or many consonants."""
    if len(value) >= 16 and (value.islower() or value.isupper()):
        return True
    changes = sum(1 for a, b in pairwise(value) if a.islower() and b.isupper())
    ups = sum(1 for a, b in pairwise(value) if a.isupper() and b.islower())
    consonants = max(
        (len(list(run)) for vowel, run in groupby(value.lower(), key=lambda c: c in "aeiouy") if not vowel),
        default=0,
    )  # fmt: skip
    return len(value) >= 6 and (consonants >= 6 or (changes + ups >= len(value) / 3.2))


def _is_phrase(value: str) -> bool:
    words = value.split()
    return (
        2 <= len(words) <= 5
        and has_digit(value)
        and any(c in "!@#$%^&*+=~" for c in value)
        and _STOP_WORDS.isdisjoint(word.lower() for word in words)
    )


def _are_words(value: str, least: int) -> bool:
    words = value.split()
    return (
        least <= len(words) <= 24
        and all(word.isalpha() and word.islower() and 3 <= len(word) <= 12 for word in words)
        and (least >= 12 or _STOP_WORDS.isdisjoint(words))
    )
