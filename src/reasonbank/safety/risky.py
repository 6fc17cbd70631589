"""What following a text would make an agent do that needs a person's word first.

It looks for commands and plain orders, in the text as it stands and in what it hides. It says what
would be done, not whether that is wrong: a host may be well known to the project, and the caller
has to know that. An address that is only cited ("see https://…") is no contact, and what the text
advises against is none either. Like all signs they are not complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from reasonbank.safety import patterns
from reasonbank.safety.disguises import readings


class Action(StrEnum):
    CONTACTS = "contacts a host"
    PIPES = "runs what it downloads"
    INSTALLS = "installs from an unusual place"
    CHECK_OFF = "switches a check off"
    CREDENTIALS = "touches credentials"
    DESTROYS = "destroys without a way back"


@dataclass(frozen=True)
class Risk:
    action: Action
    snippet: str
    """The words that ask for it, as they were read: past a disguise, if there was one."""
    host: str | None = None
    place: str | None = None
    """The host or, where many share it, whose part of it is reached."""

    @property
    def what(self) -> tuple[Action, str]:
        """Two that ask for the same are equal in it."""
        return self.action, self.place or self.snippet

    def covers(self, other: Risk) -> bool:
        """Whether who did this did the other: a host is reached wherever in it one was."""
        within = other.place is not None and f"{self.place}/".startswith(f"{other.place}/")
        return self.what == other.what or (within and self.action == other.action)


LONGEST_SNIPPET = 200

_SHELL = r"(?:sudo\s+(?:-\w+\s+)?)?(?:(?:ba|z|da|k|fi)?sh|python[\d.]*|perl|ruby|node|php|iex|invoke-expression)\b"
_LOADER = r"(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)"
_PACKAGERS = (
    r"(?:pip[\d.]*|pipx|uv|poetry|pdm|conda|mamba|npm|pnpm|yarn|bun|gem|cargo|easy_install)"
)
_READING = r"(?:cat|less|head|tail|cp|copy|scp|read|open|print|upload|send|tar|zip|base64|grep|show|dump|paste|mail|commit|push|source|load)"
_SECRETS = (
    r"(?:(?:access|auth|api|bearer|refresh|github|deploy|secret|session)[ -]?(?:tokens?|keys?)|"
    r"passwords?|passphrases?|secrets|credentials|private keys?|ssh keys?|environment variables|the environment)"
)
_KEY_FILES = (
    r"(?:\.ssh(?:/id_\w+|/?(?:\s|$|[\"'`]))|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|\.netrc|\.pgpass|\.pypirc|\.npmrc|"
    r"\.git-credentials|\.gnupg|\.kube/config|\.docker/config\.json|/etc/shadow|"
    r"(?:^|[\s\"'`/])\.env(?:\.(?:local|prod\w*|dev\w*|staging))?(?:$|[\s\"'`,;:)]|\.(?:\s|$)))"
)
_VARIABLE = (
    r"[A-Z][A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|ACCESS_KEY|API_KEY|PRIVATE_KEY)[A-Z0-9_]*"
)
_OPEN = r"(?:readme\S*|docker ?file|images?|repo(?:sitory)?|code|source|wiki|tickets?|issues?|reports?|logs?|channel|chat|commits?|notes|docs?|documentation|comments?|pull requests?|lessons?|memory)"
_GUARDED = r"(?:signature|checksum|certificate|permissions?|auth\w*|security|licen[cs]e|csrf|integrity|ownership)"
_OFF = r"(?:disabl(?:e|ed|ing)|turn(?:ed)? off|switch(?:ed)? off|deactivat(?:e|ed)|bypass(?:ed)?|circumvent|skip(?:ped)?|suppress)"
_ROOTS = r"(?:bin|boot|dev|etc|home|lib|lib64|mnt|opt|root|sbin|srv|usr|var|Users|Library)"
_END = r"(?:$|[\s\"'`.,;:)])"

_RISKS = (
    (Action.PIPES, rf"(?i)\b{_LOADER}\b[^\n|]{{0,300}}(?:\|[^\n|]{{0,60}}){{0,2}}\|\s*{_SHELL}"),
    (Action.PIPES, rf"(?i)\b{_LOADER}\b[^\n]{{0,300}}(?:&&|;)\s*(?:chmod \+x [^\n;&]{{1,60}}(?:&&|;)\s*)?(?:sudo\s+)?(?:(?:ba|z|da)?sh\s|\./|python[\d.]*\s)"),
    (Action.PIPES, rf"(?i)(?:\b(?:ba|z|da|k)?sh|\bsource|\beval|\bpython[\d.]*|\biex|(?:^|\s)\.)\s*(?:-c\s*)?[\"'(]{{0,2}}\s?(?:<\(|\$\(|`)\s*{_LOADER}\b[^\n]{{0,200}}"),
    (Action.PIPES, r"(?i)\b(?:exec|eval)\s?\([^\n]{0,60}(?:requests|urllib|urlopen|httpx|fetch)\b[^\n]{0,120}"),
    (Action.PIPES, r"(?i)\b(?:download|fetch|get)\b[^.\n]{0,40}\band (?:run|execute|eval)\b[^\n]{0,60}https?://[^\s\"'`)]+"),
    (Action.INSTALLS, rf"(?i)\b{_PACKAGERS}\b[^\n]{{0,80}}\s(?:-i|-f|-c|--index-url|--extra-index-url|--default-index|--index|--find-links|--channel|--registry|--source|--git)[ =]+[\"']?(?:https?|git|ssh)[^\s\"'`)]+"),
    (Action.INSTALLS, rf"(?i)\b{_PACKAGERS}\s+(?:install|add|i|get|pip install)\b[^\n|;]{{0,60}}\s[\"']?(?:[\w.-]+ ?@ ?)?(?:git\+|github:|https?://|ssh://)[^\s\"'`)]+"),
    (Action.INSTALLS, r"(?i)\b(?:npm|pnpm|yarn) config set (?:\S+:)?registry[ =][^\s`]+|\b(?:PIP|UV)_(?:EXTRA_|DEFAULT_)?INDEX(?:_URL)?=[^\s`]+|\bnpm_config_registry=[^\s`]+|\bGOPROXY=[^\s`]+"),
    (Action.INSTALLS, r"(?i)\bdeb (?:\[[^\]\n]{0,80}\] )?https?://[^\s`]+|\badd-apt-repository\s+[^\s`]+|\bapt-key add\b|\bhelm repo add\s[^\n`]{1,120}|\bbrew tap\s+[^\s`]+|\bdnf config-manager --add-repo\s+[^\s`]+|\b(?:gpg|apt-key)\b[^\n]{0,60}--(?:keyserver|recv-keys?)\s[^\n`]{1,80}"),
    (Action.CHECK_OFF, r"(?:^|[\s`\"'(])(?:--no-verify|--insecure|--no-check-certificate|--allow-unauthenticated|--allow-insecure-\w+|--force-yes|--trusted-host|--no-gpg-checks?|--nogpgcheck|--skip-tests?|-DskipTests|--no-sandbox|--privileged|--break-system-packages|--dangerously-[\w-]+|--disable-web-security|--skip-verify|--no-verify-ssl|--skip-checks?|--yolo)\b"),
    (Action.CHECK_OFF, r"\bcurl\b[^\n|]{0,100}\s-[a-zA-Z]{0,5}k[a-zA-Z]{0,5}\s"),
    (Action.CHECK_OFF, r"(?i)\b(?:verify|check_hostname|ssl_verify|verify_ssl|verify_certs?|strict-ssl|sslverify|gpgcheck|rejectUnauthorized|gpgsign)[\"']?\s{0,2}[ =:]\s{0,2}[\"']?(?:false|0|no|off)\b|\bInsecureSkipVerify\s?[:=]\s?true|\b_create_unverified_context\b|\bCERT_NONE\b|\bcsrf_exempt\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:NODE_TLS_REJECT_UNAUTHORIZED|PYTHONHTTPSVERIFY|HUSKY)=[\"']?0|\bGIT_SSL_NO_VERIFY\b|\bStrictHostKeyChecking[ =](?:no|off|accept-new)\b|\bUserKnownHostsFile[ =]/dev/null|\bSKIP=[\w,-]+ git commit|\bgit commit\b[^\n;&|]{0,40}?\s-[a-z]{0,3}n\b|\bgh pr merge\b[^\n]{0,60}--admin\b|\bsafe\.directory[ =]+[\"']?\*"),
    (Action.CHECK_OFF, r"(?i)\bchmod\s+(?:-\w+\s+)?(?:0?777|a\+rwx)\b|\bsetenforce 0\b|\bufw disable\b|\biptables -F\b|\bcontinue-on-error:\s*true\b|\ballow_failure:\s*true\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:pytest|tox|nox|ruff|mypy|flake8|pylint|eslint|tsc|jest|ctest|(?:npm|yarn|pnpm|cargo|go|make|mvn|gradle)\s+(?:run\s+)?(?:test|lint|check|vet|verify))\b[^\n|&;]{0,80}\|\|\s*(?:true\b|:|exit 0)"),
    (Action.CHECK_OFF, rf"(?i)\b{_OFF} (?:the |all |any |your |its |every |strict ){{0,2}}(?:\w+ )?(?:(?:tls|ssl|certificate|cert|signature|checksum|hash|host[- ]key|integrity|https)(?: certificate| peer)? (?:verification|validation|checks?|checking)|branch protection|(?:lint|type|security|safety|permission|license|vulnerability|dependency|secret)[- ](?:checks?|checking|step|scan(?:s|ning|ner)?)|lint(?:er|ing)?\b|pre-commit|firewall|selinux|apparmor|antivirus|csrf protection|input validation|rate limit(?:s|ing)?|two-factor|2fa\b|mfa\b|(?:automated |nightly )backups)"),
    (Action.CHECK_OFF, r"(?i)\b(?:turn|switch|leave)(?:s|ed|ing)? (?:the |all |any |your |its ){0,2}(?:[\w-]+ ){0,2}(?:firewall|verification|validation|checks?|checking|linter|tests?|hooks?|sandbox|scanner|authentication|antivirus|selinux|protection|limits?) off\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:comment(?:ed)? out|remov(?:e|ed|ing)|delet(?:e|ed|ing)|patch(?:ed)? out|stub(?:bed)? out|short-circuit|neutrali[sz]e) (?:the |all |any |your |its |that ){{0,2}}{_GUARDED} (?:checks?|checking|verification|validation|tests?|guards?)\b"),
    (Action.CHECK_OFF, r"\b(?:[A-Z][A-Z0-9]*_)*(?:VERIFY|VERIFICATION|CHECKS?|CHECKING|VALIDATE|VALIDATION|CHECKSUMS?)(?:_[A-Z0-9]+)*\s?=\s?[\"']?(?i:false|0|no|off)\b|\b(?:[A-Z][A-Z0-9]*_)*(?:SKIP|DISABLE|NO)_(?:[A-Z0-9]+_)*(?:VERIFY|VERIFICATION|CHECKS?|VALIDATION|AUTH|SSL|TLS|HOOKS|SIGNATURES?|SECURITY)(?:_[A-Z0-9]+)*\s?=\s?[\"']?(?i:1|true|yes|on)\b|\bGO(?:INSECURE|NOSUMDB|NOSUMCHECK|FLAGS=[\"']?-insecure)\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:systemctl|service)\s+(?:stop|disable|mask)\s+(?:firewalld|ufw|iptables|nftables|auditd|apparmor|fail2ban|clamav\S*|falco)|\bservice (?:firewalld|ufw|iptables|auditd|apparmor) stop\b|\brandomize_va_space\s?=\s?0|\bNOPASSWD:|\bunsafe_?load(?:er)?\b|\bgh pr review\b[^\n]{0,60}--approve\b|\bALLOWED_HOSTS\s?=\s?\[\s?[\"']\*|\bAccess-Control-Allow-Origin[\"']?\s?[:,=]\s?[\"']?\*"),
    (Action.CHECK_OFF, rf"(?i)\b{_OFF} (?:the |all |any |your |every |all the )(?:unit |integration |failing |code |git |commit )?(?:tests?|test suite|review|reviews|hooks?|sandbox|authentication|approval|authorization|checks)\b"),
    (Action.CREDENTIALS, rf"(?i)\b{_READING}\b[^\n;]{{0,40}}{_KEY_FILES}"),
    (Action.CREDENTIALS, rf"\b(?i:bake|hard-?code|commit|print|echo|paste|post|upload|attach|embed|share)\b[^.\n]{{0,30}}\b{_VARIABLE}\b"),
    (Action.CREDENTIALS, r"(?i)\b(?:attach|share|post|paste|upload|send|mail|commit)\b[^.\n]{0,20}\b(?:kubeconfig|keystore|private key|\.pem\b|\.p12\b)"),
    (Action.CREDENTIALS, rf"(?i)\b(?:write|put|store|save|keep|add|bake|embed|hard-?code|include|commit|attach|note|record)\b[^.\n]{{0,20}}\b(?:\w+ ){{0,2}}{_SECRETS.removesuffix('|environment variables|the environment)')}|password)\b[^.\n]{{0,15}} (?:in(?:to|side)?|to|on|within) (?:the |a |an |each |every |your )?(?:\w+ )?{_OPEN}\b"),
    (Action.CREDENTIALS, r"(?i)\b(?:print|show|dump|log|echo|send|post|paste|report|list)\b[^.\n]{0,12}\b(?:every|each|all)(?: the| of the)? environment variables?\b"),
    (Action.CREDENTIALS, r"(?i)\bprintenv\b|`env`|(?:^|[\s;&`])env\s*(?:\||>)|\bexport -p\b|\b(?:print|dump|log|dumps|send|echo|post|write|show)\b[^\n]{0,20}\bos\.environ\b(?:$|[^.\[])|\bprocess\.env\s*\)|\bGet-ChildItem env:|\becho\s+[\"']?\$\{?\w*(?:TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_KEY)"),
    (Action.CREDENTIALS, r"(?i)\bgh auth token\b|\baws configure get\b|\baws (?:secretsmanager get-secret-value|sts get-session-token)\b|\bkubectl get secrets?\b|\bsecurity find-(?:generic|internet)-password\b|\bgcloud auth print-(?:access|identity)-token\b|\bvault (?:kv get|read)\b|\bop read\b|\bpass show\b|\baz account get-access-token\b"),
    (Action.CREDENTIALS, rf"(?i)\b(?:print|show|send|post|paste|log|echo|dump|reveal|share|upload|mail|output|display|forward|expose|copy|collect|gather|read out)\b[^.\n]{{0,30}}\b{_SECRETS}\b(?:[^\n.]{{0,30}}\b(?:header|cookie)\b)?"),
    (Action.DESTROYS, rf"(?i)\brm\s+(?:-{{1,2}}[\w-]+\s+)*-\w*(?:r\w*f|f\w*r)\w*\s+(?:-{{1,2}}[\w-]+\s+)*[\"']?(?:/(?:\*|{_END}|{_ROOTS}(?:/|{_END}))|~/?{_END}|\$HOME/?{_END}|\*|\.\.?/?(?:$|\s))"),
    (Action.DESTROYS, r"(?i)\bgit push\b[^\n;&|]{0,60}?\s(?:--force|-f|--mirror|--delete)(?:$|[\s\"'`.,;)])|\bgit clean\s+-\w*(?:fd|df|fx|xf|xdf|dfx|ffd)\w*|\bgit filter-branch\b|\bgit branch -D\b[^\n]{0,40}\|"),
    (Action.DESTROYS, r"(?i)\bdrop (?:database|schema|table)\b[^\n;]{0,60}|\btruncate table\b[^\n;]{0,60}|\bdelete from \w+\s*(?:;|$)|\bdropDatabase\(|\bflushall\b"),
    (Action.DESTROYS, r"(?i)\btruncate (?:the )?[\w.]{1,60} table\b|\b(?:drop|truncate|wipe|empty|reset|delete|recreate) (?:the )?(?:production|prod|live|customers?'?|primary)\b[^.\n]{0,20}\b(?:database|schema|tables?|data|db|buckets?|cluster|volumes?)\b|\bfind\s+(?:/|~)\S{0,60}\s[^\n]{0,100}(?:-delete\b|-exec rm\b)"),
    (Action.DESTROYS, r"(?i)\bmkfs(?:\.\w+)?\s|\bdd\b[^\n]{0,60}\bof=/dev/\w+|\bkubectl delete (?:namespace|ns|node|pv|--all|all)\b[^\n;]{0,40}|\bterraform destroy\b|\bdocker (?:system|volume) prune\b|\baws s3 (?:rm\b[^\n]{0,80}--recursive|rb\b[^\n]{0,80}--force)|\bgh repo delete\b|\bshred\s+-"),
    (Action.DESTROYS, rf"(?i)\brmtree\(\s*[\"'](?:/|~)[\"']|\brmtree\(\s*Path\.home|\bos\.(?:remove|unlink)\(\s*[\"']/{_ROOTS}/"),
    (Action.DESTROYS, r"(?i)\b(?:wipe|erase|destroy|purge|nuke) (?:the |all |every |your )(?:\w+ )?(?:databases?|branches|tables?|data|backups?|records|files|disk|repositor(?:y|ies)|buckets?|volumes?|cluster|history)\b|\b(?:delete|remove) (?:all|every|the (?:entire|whole)) (?:the |of the )?(?:\w+ )?(?:databases?|branch(?:es)?|tables?|data|backups?|records|repositor(?:y|ies)|buckets?|volumes?|users|history)\b"),
)  # fmt: skip

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z0-9-]{1,62}"
_MOVING = (
    r"(?:send|sent|forward|upload|report|post|submit|sync|push|pull|e?-?mail|copy|copied|mirror|stream|export|download|fetch|"
    r"connect|clone|load|install|share|notify|query|poll|run|execute)(?:s|d|ed|ing|ned)?"
)
_VERBS = (
    rf"(?:{_MOVING}|curl|wget|put|open|visit|browse|follow|read|call|contact|ping|add|set|scp|rsync|s?ftp|ssh|nc|ncat|netcat|"
    r"telnet|import|source|ask|point|use|cc|bcc|reach|get|urlopen|urlretrieve|requests?|httpx?|HTTPS?Connection|axios|"
    r"Invoke-WebRequest|Invoke-RestMethod|iwr|irm|remote|docker|podman|helm|deb|pip\w*|npm|uv)"
)
_URL = patterns.compile(
    r"(?i)\b(?:https?|ssh|git|ftp|wss?|s?ftp)://([^\s\"'`<>()\[\]{}|\\,;]{1,300})"
)
_AT = patterns.compile(rf"\b([A-Za-z0-9._%+-]{{1,64}}@{_HOST}(?:[:/][\w.~/-]{{1,200}})?)")
_IMAGE = patterns.compile(
    rf"(?i)\b(?:docker|podman|buildah)\s+(?:pull|run|push|create)\b[^\n|;]{{0,80}}?\s({_HOST}(?::\d+)?/[\w./-]{{0,200}})"
)
_BARE = patterns.compile(
    rf"(?i)\b(?:{_MOVING}\b[^.\n]{{0,140}}?\s(?:to|from|at|via|through|into)\s+(?:the \w+ )?|"
    r"(?:visit|open|contact|HTTPS?Connection)[\s(]+|(?:curl|wget|ping|ssh|nc|ncat|telnet)\s+(?:\S{1,60}\s+){0,5}?|"
    r"\b(?:nameserver|dns|proxy|mirror|registry|webhook|relay)(?: server| host)?\s(?:(?:is|at|to|on|from|=|:)\s?)?)[`\"']?"
    r"((?:[a-z0-9-]{1,62}\.){1,6}(?:com|net|org|io|dev|ai|co|app|cloud|xyz|info|me|ru|cn|top|site|online|tech|biz|eu|de|uk)"
    r"|(?:\d{1,3}\.){3}\d{1,3})\b"
)  # fmt: skip
_VERB = patterns.compile(rf"(?i)(?:^|[^\w-])({_VERBS}\b)|(=)")
# A line of code that goes on is no end of a sentence.
_BROKEN = patterns.compile(r"\. |[^(,\[{\s]\s{0,4}\n")
_CONTINUED = patterns.compile(r"\\\n\s{0,40}")

# Whom a package manager asks anyhow.
_USUAL = frozenset({"pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com", "index.crates.io",
                    "proxy.golang.org", "rubygems.org", "deb.debian.org", "archive.ubuntu.com", "conda.anaconda.org"})  # fmt: skip

# Hosts at which everybody has a place: so many parts of an address's path say whose.
_SHARED = {
    "github.com": 1, "gitlab.com": 1, "bitbucket.org": 1, "codeberg.org": 1, "git.sr.ht": 1, "huggingface.co": 1,
    "raw.githubusercontent.com": 1, "gist.github.com": 1, "gist.githubusercontent.com": 1, "codeload.github.com": 1,
    "api.github.com": 2, "gitlab.io": 1, "cdn.jsdelivr.net": 2, "unpkg.com": 1, "ghcr.io": 1, "quay.io": 1, "docker.io": 1,
    "registry.gitlab.com": 1, "public.ecr.aws": 1, "gcr.io": 1, "storage.googleapis.com": 1, "s3.amazonaws.com": 1,
    "pastebin.com": 2, "paste.rs": 1, "transfer.sh": 2, "webhook.site": 1, "hooks.slack.com": 3, "discord.com": 4,
    "api.telegram.org": 1, "drive.google.com": 3, "docs.google.com": 3, "dropbox.com": 3, "bit.ly": 1, "tinyurl.com": 1, "t.me": 1,
}  # fmt: skip
_MAILBOXES = frozenset({"gmail.com", "googlemail.com", "outlook.com", "hotmail.com", "live.com", "yahoo.com", "icloud.com",
                        "proton.me", "protonmail.com", "gmx.net", "gmx.de", "web.de", "mail.ru", "yandex.ru", "qq.com", "163.com"})  # fmt: skip

_DENIED = patterns.compile(
    r"(?i)(?:^|\W)(?:never|not|don't|doesn't|mustn't|shouldn't|cannot|can't|avoid|instead of|rather than|without|refuses? to|forbids?|prevents?|no need to|stop)"
    r"((?:[ \t]+[\w'-]+){0,4})[ \t]*[`\"'(]{0,2}[ \t]*\z"
)  # fmt: skip
_STILL = patterns.compile(
    r"(?i)\b(?:forget|fail|hesitate|omit|skip|miss|wait|only|just|worry|bother|afraid|mind)\b"
)
_FORBIDDEN = patterns.compile(
    r"(?i)^[`\"')]{0,2} (?:is|are) (?:forbidden|not allowed|banned|refused|rejected|prohibited)(?:[.,;]|\z| here| by| in)"
)


def risks(text: str) -> tuple[Risk, ...]:
    """Each kind of thing once for each host or, where none is named, for each way of saying it."""
    found: dict[tuple[Action, str], Risk] = {}
    for shown in readings(text).shown:
        said = _CONTINUED.sub(" ", shown) if "\\\n" in shown else shown
        for risk in (*_asked(said), *_contacts(said)):
            found.setdefault(risk.what, risk)
    return tuple(found.values())


@cache
def _known() -> tuple[Any, tuple[patterns.Pattern, ...]]:
    written = [pattern for _, pattern in _RISKS]
    return patterns.any_of(written), tuple(map(patterns.compile, written))


def _asked(text: str) -> Iterator[Risk]:
    any_of, each = _known()
    for number in any_of.Match(text.encode("utf-8", "replace")) or ():
        action = _RISKS[number][0]
        for match in each[number].finditer(text):
            snippet = match[0].strip(" \t\n`\"'.,;")
            host, place = next(_reached(snippet), (None, None))
            if _denied(text, match.start(), match.end()) or snippet.endswith(("header", "cookie")):
                continue
            if action is Action.INSTALLS and host in _USUAL:
                continue
            yield Risk(action, snippet[:LONGEST_SNIPPET], host, place)


def _contacts(text: str) -> Iterator[Risk]:
    for match in (*_URL.finditer(text), *_AT.finditer(text)):
        sentence = _BROKEN.split(text[max(0, match.start() - 160) : match.start()])[-1]
        verbs = list(_VERB.finditer(sentence))
        reached = _at(match[1])
        if not verbs or reached is None:
            continue
        # The last one before the address is the one that is meant.
        start = match.start() - len(sentence) + max(verbs[-1].start(1), verbs[-1].start(2))
        if not _denied(text, start, match.end()):
            yield Risk(Action.CONTACTS, text[start : match.end()][-LONGEST_SNIPPET:], *reached)
    for match in (*_IMAGE.finditer(text), *_BARE.finditer(text)):
        if (reached := _at(match[1])) and not _denied(text, match.start(), match.end()):
            yield Risk(Action.CONTACTS, match[0].strip()[:LONGEST_SNIPPET], *reached)


def _reached(text: str) -> Iterator[tuple[str, str]]:
    for match in _URL.finditer(text):
        if reached := _at(match[1]):
            yield reached


def _at(address: str) -> tuple[str, str] | None:
    """The host that is reached and the place there, or none where it is this machine or a name
    within the network."""
    authority = address.partition("/")[0].partition("?")[0].partition("#")[0]
    user, _, said = authority.rpartition("@")
    host, _, behind = said.partition(":")
    host = host.lower().rstrip(".")
    if "." not in host or host.startswith(("127.", "0.")) or host.endswith(".localhost"):
        return None
    if host in _MAILBOXES:
        return host, f"{user.lower()}@{host}"
    # Of git@host:owner/name the path begins behind the colon, of host:443/owner it does not.
    path = address[len(authority) :]
    parts = (path if behind.isdigit() else f"{behind}/{path}").lower().split("/")
    own = [part for part in parts if part][: _SHARED.get(host, 0)]
    return host, "/".join([host, *own])


def _denied(text: str, start: int, end: int) -> bool:
    """Whether the text speaks against it: "never …", "instead of …", "… is forbidden"."""
    match = _DENIED.search(text[max(0, start - 60) : start])
    if match and not _STILL.search(match[1]):
        return True
    return _FORBIDDEN.search(text[end : end + 40]) is not None
