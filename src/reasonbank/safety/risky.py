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

from reasonbank.safety import other_languages, patterns
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
_READING = (
    r"(?:cat|bat|less|more|head|tail|cp|copy|scp|read|open|print|upload|send|tar|zip|base64|xxd|strings|grep|jq|yq|sqlite3|show|dump|"
    r"paste|mail|commit|check in|push|add|share|attach|source|load|get|take|pull|extract|parse|use|append|write|mount|bind|chmod (?:-R )?[0-7ugoa+rwx]+)"
)
_SECRETS = (
    r"(?:(?:access|auth|api|bearer|refresh|github|deploy|secret|session)[ -]?(?:tokens?|keys?)|"
    r"passwords?|passphrases?|secrets|credentials|private keys?|ssh keys?|environment variables|the environment)"
)
_KEY_FILES = (
    r"(?:\.ssh(?:/id_\w+|/?(?:\s|$|[\"'`]))|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/(?:credentials|config)\b|\.netrc|\.pgpass|\.pypirc|\.npmrc|"
    r"\.git-credentials|\.gnupg|\.kube/config|\.docker/config\.json|/etc/(?:shadow|ssl/private)\b|/proc/[\w$*{}]{1,20}/environ|"
    r"\.config/(?:gh/hosts|gcloud|hub|op|doctl)\b|\.azure/|\.claude\.json|\.claude/\.credentials|\.codex/auth|\.gemini/oauth|"
    r"\.cargo/credentials|\.gem/credentials|\.vault-token|\.(?:ba|z)sh_history|/run/secrets\b|\blogins\.json|\bcookies\.sqlite|"
    r"\bkeychain\b|\bauthorized_keys\b|\bmaster\.key\b|\b(?:secrets|credentials)\.(?:ya?ml|json|toml|ini|env)\b|"
    r"\bservice[-_]account[\w-]{0,30}\.json\b|\b(?:server|private|privkey|tls|signing|client)[\w-]{0,20}\.(?:key|pem|p12|pfx)\b|"
    r"(?:^|[\s\"'`/])\.env(?:\.(?:local|prod\w*|dev\w*|staging))?(?:$|[\s\"'`,;:)]|\.(?:\s|$)))"
)
_VARIABLE = (
    r"[A-Z][A-Z0-9_]*(?:SECRET|TOKEN|PASSWORD|PASSWD|ACCESS_KEY|API_KEY|PRIVATE_KEY)[A-Z0-9_]*"
)
_OPEN = r"(?:readme\S*|docker ?file|images?|repo(?:sitory)?|code|source|wiki|tickets?|issues?|reports?|logs?|channel|chat|commits?|notes|docs?|documentation|comments?|pull requests?|lessons?|memory)"
_GUARDED = r"(?:signature|checksum|certificate|permissions?|auth\w*|security|licen[cs]e|csrf|integrity|ownership)"
_OFF = r"(?:disabl(?:e|ed|ing)|turn(?:ed|s|ing)? off|switch(?:ed|es|ing)? off|deactivat(?:e|ed)|bypass(?:ed|ing)?|circumvent|get around|skip(?:ped|s|ping)?|leav(?:e|es|ing) out|suppress)"
_PROVING = r"(?:certificates?|certs?|signatures?|checksums?|hash(?:es)?|hmacs?|tls|ssl|host keys?|fingerprints?|integrity|provenance)"
_JUDGING = r"(?:ci|tests?|test suite|reviews?|reviewers?|approvals?|checks?|pipelines?|builds?|linters?|lint)"
_NOT_NEEDED = r"(?:no need to|need not|needn't|(?:does|do)(?: not|n't) (?:need|have) to|(?:not|un)[ -]?necessary to)"
_STOP = (
    r"(?:bypass(?:es|ing)?|circumvent(?:s|ing)?|disabl(?:e|es|ing)|deactivat(?:e|es|ing)|(?:turn(?:s|ing)?|switch(?:es|ing)?) off|"
    r"suppress(?:es|ing)?|silenc(?:e|es|ing)|mut(?:e|es|ing)|get(?:s|ting)? around|short-circuit(?:s|ing)?|neutrali[sz](?:e|es|ing)|"
    r"comment(?:s|ing)? out)"
)
_GUARDS = (
    r"(?:(?:git|commit|push|pre-\w+) hooks?|pre-commit|pre-push|linters?|lint(?:ing)?|type[- ]?check(?:er|s|ing)?|(?:secret|security|licen[cs]e|dependency|"
    r"vulnerability) scan(?:ner|s|ning)?|audits?|ci (?:jobs?|checks?|gates?)|branch protection|signatures?|checksums?|certificates?|tls|ssl|csrf|"
    r"host[- ]key\w*|selinux|apparmor|firewall|antivirus|sandbox|authentication|authorization|auth(?: \w+)? (?:middleware|guards?|checks?|filters?)|"
    r"(?:trivy|snyk|bandit|semgrep|gitleaks|codeql|sonar\w*|grype|hadolint|eslint|mypy|pylint|ruff|flake8|conftest|policy|security|scan|lint|test|audit|compliance|verification) (?:step|job|stage|check|scan)|permission (?:checks?|prompts?)|verification|"
    r"validation|code reviews?|approvals?|assertions?|rate limit(?:er|s|ing)?|2fa|mfa|coverage (?:threshold|gate|check))"
)
_KEEPS = r"(?:passwords?|passphrases?|secrets?|credentials?|(?:api|access|private|deploy|ssh|signing|encryption) keys?|\S{0,20}\.pem|kubeconfig|keystore|vault|tokens? (?:in|to|into|with|over|from|of|and|by)\b)"
_SHOWN_IN = r"(?:logs?|tickets?|issues?|bug reports?|reports?|wiki|chat|slack|teams|discord|channel|readme|commits?|commit message|repo(?:sitory)?|docker ?file|image|artifacts?|memory|lessons?|notes?|prompt|contractor|vendor|support|ci variables?|e?-?mail|public|url)"
_PURPOSE = r"(?:so that|so|until|to (?:make|keep|get|let|turn)|and)"
_ROOTS = r"(?:bin|boot|dev|etc|home|lib|lib64|mnt|opt|root|sbin|srv|usr|var|Users|Library)"
_END = r"(?:$|[\s\"'`.,;:)])"
_CLOUDS = r"(?:gcloud|az|aws|kubectl|oc|eksctl|doctl|oci|ibmcloud|scw|hcloud|linode-cli|heroku|fly|flyctl|nomad|velero|glab|bq|gsutil)"
_LASTING = (
    r"(?:projects?|groups?|db|databases?|sql|db-(?:instance|cluster)|clusters?|volumes?|disks?|buckets?|pvcs?|pvs?|persistentvolumeclaims?|"
    r"persistentvolumes?|namespaces?|instances?|snapshots?|backups?|repos?|repositor(?:y|ies)|stacks?|vaults?|apps?|tables?|datasets?|crds?)"
)

_RISKS = (
    (Action.PIPES, rf"(?i)\b{_LOADER}\b[^\n|]{{0,300}}(?:\|[^\n|]{{0,60}}){{0,2}}\|\s*{_SHELL}"),
    (Action.PIPES, rf"(?i)\b{_LOADER}\b[^\n]{{0,300}}(?:&&|;)\s*(?:chmod \+x [^\n;&]{{1,60}}(?:&&|;)\s*)?(?:sudo\s+)?(?:(?:ba|z|da)?sh\s|\./|python[\d.]*\s)"),
    (Action.PIPES, rf"(?i)(?:\b(?:ba|z|da|k)?sh|\bsource|\beval|\bpython[\d.]*|\biex|(?:^|\s)\.)\s*(?:-c\s*)?[\"'(]{{0,2}}\s?(?:<\(|\$\(|`)\s*{_LOADER}\b[^\n]{{0,200}}"),
    (Action.PIPES, r"(?i)\b(?:exec|eval)\s?\([^\n]{0,60}(?:requests|urllib|urlopen|httpx|fetch)\b[^\n]{0,120}"),
    (Action.PIPES, r"(?i)\b(?:download|fetch|get)\b[^.\n]{0,40}\band (?:run|execute|eval)\b[^\n]{0,60}https?://[^\s\"'`)]+"),
    (Action.INSTALLS, rf"(?i)\b{_PACKAGERS}\b[^\n]{{0,80}}\s(?:-i|-f|-c|--index-url|--extra-index-url|--default-index|--index|--find-links|--channel|--registry|--source|--git)[ =]+[\"']?(?:https?|git|ssh)[^\s\"'`)]+"),
    (Action.INSTALLS, rf"(?i)\b{_PACKAGERS}\s+(?:install|add|i|get|pip install)\b[^\n|;]{{0,60}}\s[\"']?(?:[\w.-]+ ?@ ?)?(?:git\+|github:|https?://|ssh://)[^\s\"'`)]+"),
    (Action.INSTALLS, r"(?i)\b(?:npm|pnpm|yarn) config set (?:\S+:)?registry[ =][^\s`]+|\b(?:PIP|UV)_(?:EXTRA_|DEFAULT_)?INDEX(?:_URL)?=[^\s`]+|\bnpm_config_registry=[^\s`]+|\bGOPROXY=[^\s`]+"),
    (Action.INSTALLS, r"(?i)\bdeb (?:\[[^\]\n]{0,80}\] )?https?://[^\s`]+|\badd-apt-repository\s+[^\s`]+|\bapt-key add\b|\bhelm repo add\s[^\n`]{1,120}|\breplace\s\S{1,120}\s=>\s[^\s`]+\.[^\s`]+/[^\s`]+|\bbrew tap\s+[^\s`]+|\bdnf config-manager --add-repo\s+[^\s`]+|\b(?:gpg|apt-key)\b[^\n]{0,60}--(?:keyserver|recv-keys?)\s[^\n`]{1,80}"),
    (Action.CHECK_OFF, r"(?:^|[\s`\"'(])(?:--no-verify|--insecure|--no-check-certificate|--allow-unauthenticated|--allow-insecure-\w+|--force-yes|--trusted-host|--no-gpg-checks?|--nogpgcheck|--skip-tests?|-DskipTests|--no-sandbox|--privileged|--break-system-packages|--dangerously-[\w-]+|--disable-web-security|--skip-verify|--no-verify-ssl|--skip-checks?|--yolo)\b"),
    (Action.CHECK_OFF, r"\bcurl\b[^\n|]{0,100}\s-[a-zA-Z]{0,5}k[a-zA-Z]{0,5}\s"),
    (Action.CHECK_OFF, r"(?i)\b(?:verify|check_hostname|ssl_verify|verify_ssl|verify_certs?|strict-ssl|sslverify|gpgcheck|rejectUnauthorized|gpgsign)[\"']?\s{0,2}[ =:]\s{0,2}[\"']?(?:false|0|no|off)\b|\bInsecureSkipVerify\s?[:=]\s?true|\b_create_unverified_context\b|\bCERT_NONE\b|\bcsrf_exempt\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:NODE_TLS_REJECT_UNAUTHORIZED|PYTHONHTTPSVERIFY|HUSKY)=[\"']?0|\bGIT_SSL_NO_VERIFY\b|\bStrictHostKeyChecking[ =](?:no|off|accept-new)\b|\bUserKnownHostsFile[ =]/dev/null|\bSKIP=[\w,-]+ git commit|\bgit commit\b[^\n;&|]{0,40}?\s-[a-z]{0,3}n[a-z]{0,3}\b|\bgh pr merge\b[^\n]{0,60}--admin\b|\bsafe\.directory[ =]+[\"']?\*"),
    (Action.CHECK_OFF, r"(?i)\bchmod\s+(?:-\w+\s+)?(?:0?777|a\+rwx)\b|\bsetenforce 0\b|\bufw disable\b|\biptables -F\b|\bcontinue-on-error:\s*true\b|\ballow_failure:\s*true\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:pytest|tox|nox|ruff|mypy|flake8|pylint|eslint|tsc|jest|ctest|(?:npm|yarn|pnpm|cargo|go|make|mvn|gradle)\s+(?:run\s+)?(?:test|lint|check|vet|verify))\b[^\n|&;]{0,80}\|\|\s*(?:true\b|:|exit 0)"),
    (Action.CHECK_OFF, rf"(?i)\b{_OFF} (?:the |all |any |your |its |every |strict ){{0,2}}(?:\w+ )?(?:(?:tls|ssl|certificate|cert|signature|checksum|hash|host[- ]key|integrity|https)(?: certificate| peer)? (?:verification|validation|checks?|checking)|branch protection|(?:lint|type|security|safety|permission|license|vulnerability|dependency|secret)[- ](?:checks?|checking|step|scan(?:s|ning|ner)?)|lint(?:er|ing)?\b|pre-commit|firewall|selinux|apparmor|antivirus|csrf protection|input validation|rate limit(?:s|ing)?|two-factor|2fa\b|mfa\b|(?:automated |nightly )backups)"),
    (Action.CHECK_OFF, r"(?i)\b(?:turn|switch|leave)(?:s|ed|ing)? (?:the |all |any |your |its ){0,2}(?:[\w-]+ ){0,2}(?:firewall|verification|validation|checks?|checking|linter|tests?|hooks?|sandbox|scanner|authentication|antivirus|selinux|protection|limits?) off\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:comment(?:ed)? out|remov(?:e|ed|ing)|delet(?:e|ed|ing)|patch(?:ed)? out|stub(?:bed)? out|short-circuit|neutrali[sz]e) (?:the |all |any |your |its |that ){{0,2}}{_GUARDED} (?:checks?|checking|verification|validation|tests?|guards?)\b"),
    (Action.CHECK_OFF, r"\b(?:[A-Z][A-Z0-9]*_)*(?:VERIFY|VERIFICATION|CHECKS?|CHECKING|VALIDATE|VALIDATION|CHECKSUMS?)(?:_[A-Z0-9]+)*\s?=\s?[\"']?(?i:false|0|no|off)\b|\b(?:[A-Z][A-Z0-9]*_)*(?:SKIP|DISABLE|NO)_(?:[A-Z0-9]+_)*(?:VERIFY|VERIFICATION|CHECKS?|VALIDATION|AUTH|SSL|TLS|HOOKS|SIGNATURES?|SECURITY)(?:_[A-Z0-9]+)*\s?=\s?[\"']?(?i:1|true|yes|on)\b|\bGO(?:INSECURE|NOSUMDB|NOSUMCHECK|FLAGS=[\"']?-insecure)\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:systemctl|service)\s+(?:stop|disable|mask)\s+(?:firewalld|ufw|iptables|nftables|auditd|apparmor|fail2ban|clamav\S*|falco)|\bservice (?:firewalld|ufw|iptables|auditd|apparmor) stop\b|\brandomize_va_space\s?=\s?0|\bNOPASSWD:|\bunsafe_?load(?:er)?\b|\bgh pr review\b[^\n]{0,60}--approve\b|\bALLOWED_HOSTS\s?=\s?\[\s?[\"']\*|\bAccess-Control-Allow-Origin[\"'`]?(?:\s?[:,=]\s?| to )[\"'`]?\*"),
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
    (Action.DESTROYS, r"(?i)\bgit push\b[^\n;&|]{0,60}?\s(?:(?:--force|-f|--mirror|--delete)(?:$|[\s\"'`.,;)])|\+\w)|\bgit clean\s+-\w*(?:fd|df|fx|xf|xdf|dfx|ffd)\w*|\bgit[ -]filter-(?:branch|repo)\b|\bgit reflog expire\b|\bgit gc --prune=now\b|\bgit branch -D\b[^\n]{0,40}\|"),
    (Action.DESTROYS, r"(?i)\bdrop (?:database|schema|table)\b[^\n;]{0,60}|\btruncate table\b[^\n;]{0,60}|\bdelete from \w+\s*(?:;|$)|\bdropDatabase\(|\bflushall\b"),
    (Action.DESTROYS, r"(?i)\btruncate (?:the )?[\w.]{1,60} table\b|\b(?:drop|truncate|wipe|empty|reset|delete|recreate) (?:the )?(?:production|prod|live|customers?'?|primary)\b[^.\n]{0,20}\b(?:database|schema|tables?|data|db|buckets?|cluster|volumes?)\b|\bfind\s+(?:/|~)\S{0,60}\s[^\n]{0,100}(?:-delete\b|-exec rm\b)"),
    (Action.DESTROYS, r"(?i)\bmkfs(?:\.\w+)?\s|\bdd\b[^\n]{0,60}\bof=/dev/\w+|\bkubectl delete (?:namespace|ns|node|pv|all|(?:\S{1,40} )?--all)\b[^\n;]{0,40}|\bterraform destroy\b|\bdocker (?:system|volume) prune\b|\baws s3 (?:rm\b[^\n]{0,80}--recursive|rb\b[^\n]{0,80}--force)|\bgh repo delete\b|\bshred\s+-"),
    (Action.DESTROYS, rf"(?i)\brmtree\(\s*[\"'](?:/|~)[\"']|\brmtree\(\s*Path\.home|\bos\.(?:remove|unlink)\(\s*[\"']/{_ROOTS}/"),
    (Action.DESTROYS, r"(?i)\b(?:wipe|erase|destroy|purge|nuke) (?:the |all |every |your )(?:\w+ )?(?:databases?|branches|tables?|data|backups?|records|files|disk|repositor(?:y|ies)|buckets?|volumes?|cluster|history)\b|\b(?:delete|remove) (?:all|every|the (?:entire|whole)) (?:the |of the )?(?:\w+ )?(?:databases?|branch(?:es)?|tables?|data|backups?|records|repositor(?:y|ies)|buckets?|volumes?|users|history)\b"),
    # Checks: hooks, runners, tests and reviews
    (Action.CHECK_OFF, r"(?i)\bcore\.hooksPath[ =]{1,3}(?:[\"']{2}|[\"']?[/~])|\bchmod (?:-R )?(?:\w?-x|0?[0246]00|0?644)\b[^\n]{0,30}\.git/hooks\b|\b(?:rm|mv|delete|remove|rename|move|empty)\b[^.\n]{0,30}\.git/hooks\b|\b(?:LEFTHOOK|HUSKY|HUSKY_GIT_HOOKS)=[\"']?(?:0|false)\b|\b(?:HUSKY_SKIP_HOOKS|OVERCOMMIT_DISABLE|PRE_COMMIT_ALLOW_NO_CONFIG)=[\"']?1"),
    (Action.CHECK_OFF, r"\bset \+(?:\w{0,3}e\w{0,3}\b|o (?:errexit|pipefail)\b)|(?i:\b(?:remove|delete|drop|take out|leave out|comment out) (?:the )?(?:line )?[`\"']?set -\w{0,4}e)"),
    (Action.CHECK_OFF, r"(?i)\b(?:pytest|tox|nox|ruff|mypy|flake8|eslint|tsc|jest|ctest|(?:npm|yarn|pnpm|cargo|go|make|mvn|gradle)\s+(?:-\w+\s+)?(?:run\s+)?(?:test|lint|check|vet|verify))\b[^\n|&;]{0,80};\s*(?:true\b|:(?:$|[\s`\"'])|exit 0)"),
    (Action.CHECK_OFF, r"(?i)\[(?:skip[ -]ci|ci[ -]skip|no[ -]ci|skip[ -]actions)\]|\bci\.skip\b|\bignore_errors: (?:yes|true)\b|(?-i:\bignore_errors = true\b)|@ts-nocheck\b|\bmypy: ignore-errors\b|\b(?:ruff|flake8): noqa(?:$|[\s`\"'.])|\bpylint: disable=all\b|/\* eslint-disable \*/|--ignore-errors\b[^\n]{0,20}\b(?:mypy|lint)|\bmypy\b[^\n]{0,40}--ignore-errors\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:merge|deploy|push|ship|release|commit|publish|go ahead|go on|continue|proceed)(?:s|es)?\b[^.\n]{{0,40}} without (?:waiting for |running |asking for |any |a |the |another |further ){{0,3}}{_JUDGING}\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:merge|deploy|push|ship|release|commit|publish|go ahead|go on|continue|proceed|runs?)\b[^.\n]{{0,40}} (?:even|also) (?:if|when|though|with) (?:the |some |any |all )?(?:\w+ )?{_JUDGING}\b[^.\n]{{0,20}}\b(?:fail\w*|red|broken|breaks?)\b"),
    (Action.CHECK_OFF, r"(?i)\bapprov(?:e|es|ing) (?:your|their|its|one's|my|the agent's) own\b|\bself-approve\b|\bforce[- ]merge\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:deletes?|removes?|skips?|disables?|comments? out|ignores?|excludes?|xfails?|drops?|mutes?|silences?|stubs? out) (?:the |any |all |every |those |these |it's |whole |entire ){0,2}(?:failing|flaky|broken|red|security|auth\w*|breaking) (?:\w+ )?(?:tests?|asserts?|assertions?|specs?|suites?|checks?|jobs?)\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:mark|decorate|tag)s?\b[^.\n]{{0,40}}\b(?:failing|broken|red|it|them|tests?)\b[^.\n]{{0,20}}\b(?:x?fail\w*|skip\w*|expected to fail|expected failures?)\b|\b(?:comment out|delete|remove|weaken|loosen)\b[^.\n]{{0,20}}\b(?:asserts?|assertions?)\b|\bpytest\.mark\.(?:skip|xfail)\b[^.\n]{{0,40}}\b{_PURPOSE}\b[^.\n]{{0,30}}\b(?:green|pass(?:es)?|build|ci)\b"),
    (Action.CHECK_OFF, rf"(?i)\b{_OFF} (?:the |all |any |your |every )?(?:code |peer |security |pull request |human )?(?:review|reviews|approval|approvals|sign-off)\b"),
    (Action.CHECK_OFF, rf"(?i)\b{_NOT_NEEDED} (?:run|wait for|check|verify|validate|review|ask for)(?: \w+){{0,3}}? {_JUDGING}\b|\b(?:tests?|reviews?|approvals?|ci) (?:need not|needn't|(?:does|do)(?: not|n't) (?:need|have) to) (?:be|pass|run)\b"),
    # Checks: certificates, signatures, checksums
    (Action.CHECK_OFF, rf"(?i)\b(?:do not|don't|never|without|stop|avoid|{_NOT_NEEDED}) (?:verify|verifying|check|checking|validate|validating|compar(?:e|ing)) (?:the |any |its |their |that |for |server |package |release |archive |commit ){{0,3}}(?:\w+ )?{_PROVING}\b"),
    (Action.CHECK_OFF, rf"(?i)\b{_PROVING}\b[^.\n]{{0,40}}\b(?:need not|needn't|(?:does|do)(?: not|n't) (?:need|have) to) be (?:verified|validated|checked|compared|correct)\b|\b{_PROVING} (?:verification|validation|checks?|checking|errors?|warnings?|mismatch(?:es)?)?[^.\n]{{0,20}}\b(?:can|may|could|should|must) (?:safely )?be (?:skipped|ignored|left out|bypassed|disabled|turned off|switched off|omitted|suppressed)\b"),
    (Action.CHECK_OFF, rf"(?i)\bignor(?:e|es|ed|ing) (?:the |any |all |every |these |those |such ){{0,2}}(?:\w+ )?(?:{_PROVING}|security|vulnerability|audit|lint(?:er)?|test|permission|type)(?: verification| validation)? (?:errors?|warnings?|failures?|mismatch(?:es)?|alerts?|findings?|problems?|advisor(?:y|ies))\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:trust|accept|take)s? (?:any|all|every|self-signed|unknown|unsigned|expired|invalid) (?:\w+ )?(?:certificates?|certs?|host keys?|keys?|signatures?|packages?|commits?|jwts?|tokens?)\b|\b(?:jwts?|tokens?)\b[^.\n]{0,30}\balg\w*\b[^.\n]{0,10}\bnone\b|\balg(?:orithm)?s?[\"']?\s?[:=]\s?\[?[\"']none\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:verify_signature|verify_aud|verify_exp|check_signature|validate_certs?|tls_verify|ssl_check)[\"']?\s{0,2}[=:]\s{0,2}[\"']?(?:false|0|no|off)\b|\bssl\s?=\s?False\b|\bverify_mode[\"']?\s?[:=]\s?[\"']?(?:0|none|ssl\.CERT_NONE|OpenSSL::SSL::VERIFY_NONE)|\bdisable_warnings\s?\(|\bsslmode=(?:disable|allow)\b|--ssl-mode=DISABLED\b|\bTrustServerCertificate=(?:true|yes)|\bServerCertificateValidationCallback\b|\btlsAllowInvalid\w*|\btlsInsecure=true"),
    (Action.CHECK_OFF, r"(?i)\b(?:danger_)?accept_invalid_\w+|\bNoopHostnameVerifier\b|\bALLOW_ALL_HOSTNAME_VERIFIER\b|\btrust_?all_?cert\w*|--ssl-no-revoke\b|--(?:tls|ssl)-verify(?:=| )(?:false|0|no)\b|\binsecure-registries\b|\binsecure_?skip_?(?:tls_)?verify[\"']?\s?[:=]\s?true\b|\bprotected-mode no\b|\bsecure-http false\b|--no-secure-http\b|-P NoSecurity\b|:?ssl_verify_mode:? 0\b|\bGO(?:SUMDB|NOSUMDB)=[\"']?(?:off|\*)|\bdisable_checksum_validation\b|\bCheck-Valid-Until=false\b|--nosignature\b|--nodigest\b|--no-gpg-sign\b|--no-require-hashes\b|--validate=false\b|-vet=off\b"),
    (Action.CHECK_OFF, r"(?i)(?:^|[\s`\"'(])--(?:skip|no|disable|ignore|bypass|without)-(?:[a-z]+-){0,2}(?:verif\w*|certificates?(?:-errors)?|certs?|ssl|tls|signatures?|checksums?|hash-check|validation|hooks?|audit|lint|auth|authentication|sandbox|security|integrity|host-key-check\w*|review)\b|(?:^|[\s`\"'(])--insecure-[\w-]{1,30}"),
    (Action.CHECK_OFF, r"(?i)\b(?:remove|drop|delete|strip|leave out|omit|comment out) (?:the |all |any |its |every ){0,2}[`\"']?(?:--require-hashes|(?:\w+ )?hashes|integrity (?:hash(?:es)?|fields?|attributes?)|@[\w.]{0,30}(?:auth|login|permission|csrf|admin)[\w.]{0,30}|(?:auth\w*|login|permission) (?:decorator|middleware|guard))"),
    # Checks: sandboxes, permissions, who may do what
    (Action.CHECK_OFF, r"(?i)--cap-add[= ](?:ALL|SYS_ADMIN)\b|\b(?:seccomp|apparmor|label)[=:](?:unconfined|disable)\b|\bdocker\.sock:|\bSet-ExecutionPolicy\b|-ExecutionPolicy Bypass\b|\bSet-MpPreference\b|\bspctl --master-disable\b|\bcom\.apple\.quarantine\b|\bcsrutil disable\b|\bsetenforce permissive\b|\bSELINUX\s?=\s?(?:permissive|disabled)\b|\bsnap install\b[^\n]{0,60}--dangerous\b"),
    (Action.CHECK_OFF, r"(?i)\bbypassPermissions\b|--full-auto\b|\bapproval[_-](?:policy|mode)\b[\"']?[\s=:]{1,3}[\"']?(?:never|yolo|auto)\b|--ask-for-approval never\b|--allow-all-(?:tools|paths|urls)\b|--trust-all-tools\b|\bdanger-full-access\b|\bBash\(\*(?::\*)?\)|\b(?:terraform|tofu|pulumi)\b[^\n]{0,40}(?:-auto-approve|--yes)\b"),
    (Action.CHECK_OFF, r"(?i)\ballow(?:s|ing)? (?:all|any|every|anonymous|unauthenticated|unsigned) (?:\w+ )?(?:origins?|hosts?|access|requests?|commands?|tools?|ips?|traffic|connections?|uploads?|logins?)\b|\bCORS\b[^.\n]{0,30}\ball origins\b|\bCORS_(?:ALLOW_ALL_ORIGINS|ORIGIN_ALLOW_ALL)\s?=\s?True\b|\ballow_origins\s?=\s?\[\s?[\"']\*|\bDEBUG\s?=\s?True\b[^.\n]{0,40}\bprod|\bnpm audit fix\b[^\n]{0,20}--force\b|(?:^|[.;:`]\s|\b(?:always|then|and|just|must|should|simply) )run\b[^.\n]{0,30} as root\b|\bsudo visudo\b"),
    # Credentials
    (Action.CREDENTIALS, r"(?i)>>?\s?\S{0,60}authorized_keys\b|\b(?:add|put|append|install|paste)\b[^\n]{0,120}\bauthorized_keys\b|\bgit credential(?:-\w+)? (?:fill|get)\b|\bForwardAgent[ =]+yes\b|\bssh -A\b|\bforward(?:s|ing)? (?:the |your |my )?ssh[- ]agent\b|\bcredential\.helper[ =]+[\"']?store\b"),
    (Action.CREDENTIALS, r"(?i)\b(?:set|env|printenv|export|declare -x|history)\s*\|\s*(?:grep|rg|awk)\b[^\n]{0,40}(?:secret|token|passw|key|pwd|cred)|\bdeclare -x(?:$|[\s`])|\b(?:grep|rg|ag)\b[^\n]{0,60}(?:AKIA|BEGIN [A-Z ]{0,20}PRIVATE|passw(?:or)?d|api[_-]?key|credential)"),
    (Action.CREDENTIALS, r"(?i)\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|\blatest/meta-data\b|\baws ssm get-parameters?\b[^\n]{0,80}--with-decryption\b|\bop item get\b|\bbw get\b|\blpass show\b|\bsecurity dump-keychain\b|\bsecret-tool lookup\b|\bheroku config\b|\b(?:fly|flyctl|doppler) secrets\b|\bvercel env pull\b|\bnetlify env:(?:get|list)\b|\bkubectl (?:describe|edit) secrets?\b|\bsops (?:-d|--decrypt|decrypt|exec-env)\b|\bansible-vault (?:view|decrypt|edit)\b|\bgpg2?\b[^\n]{0,40}--export-secret|\bopenssl (?:rsa|pkey|ec|pkcs12)\b[^\n]{0,60}-in\s"),
    (Action.CREDENTIALS, r"(?i)\bpp(?:rint)?\b[^\n]{0,20}\bos\.environ\b|\bSystem\.getenv\(\)|\bphpinfo\(\)|\bENV\.(?:inspect|to_h)\b|\b(?:log|print|dump|echo|record|show)\b[^.\n]{0,30}\b(?:authorization|set-cookie|cookie|auth) headers?\b"),
    (Action.CREDENTIALS, rf"(?i)\b(?:hard-?code|bake)\b[^.,\n]{{0,30}}\b(?:{_SECRETS}|password|passphrase|secret|token|credential)\b"),
    (Action.CREDENTIALS, rf"(?i)\b(?:store|save|keep|write|put|leave)\b[^.\n]{{0,20}}\b(?:tokens?|passwords?|secrets?|(?:api|private|access) keys?|credentials?)\b[^.\n]{{0,20}}\b(?:plain ?text|clear ?text|unencrypted|in the clear)\b|\b(?:put|pass|append|add|send|include)\b[^.\n]{{0,20}}\b{_SECRETS}[^.\n]{{0,30}}\b(?:in(?:to)?|to|as part of) (?:the |a |your )?(?:\w+ )?(?:url|query|link|title|branch name|file ?name|prompt)\b"),
    (Action.CREDENTIALS, rf"(?i)\b(?:write|save|dump|expose|copy|add)\b[^.\n]{{0,20}}\b(?-i:{_VARIABLE})\b[^.\n]{{0,40}}\b(?:to|in|into) (?:a |the |an |~|/)|\b(?-i:{_VARIABLE})\b[^.\n]{{0,40}}\b(?:write|save|dump|paste|send|print) (?:it|them)\b"),
    (Action.CREDENTIALS, r"(?i)\bask\b[^.\n]{0,20}\bfor (?:their|the|his|her|a|an)? ?(?:\w+ )?(?:passwords?|passphrases?|credentials|api keys?|2fa codes?|one-time codes?|private keys?)\b|\b(?:use|reuse|try|take|borrow)\b[^.\n]{0,20}\b(?:admin|root|production|prod|master|superuser|personal|maintainer|somebody's|colleague's)(?:'s|s)?(?: \w+){0,2}(?:'s)? (?:password|credentials?|login|token|api key|ssh key|key)\b"),
    (Action.CREDENTIALS, r"(?i)\b(?:copy|take|steal|read|extract|export|grab|reuse)\b[^.\n]{0,40}\bcookies?\b[^.\n]{0,30}\b(?:browser|chrome|firefox|safari)\b|\b(?:copy|take|steal|read|extract|export|grab|reuse)\b[^.\n]{0,20}\b(?:browser|chrome|firefox|safari)(?:'s)?\b[^.\n]{0,15}\b(?:cookies?|passwords?|logins?)\b|\b(?:add|commit|check in|push|copy|include)\b[^.\n]{0,20}\bservice account(?:'s)?\b[^.\n]{0,15}\bkey\b|\bpassword\b[^.\n]{0,40}\bpaste it\b"),
    (Action.CREDENTIALS, r"(?i)\b(?:private|ssh|deploy|cloud|access|api|signing) keys?\b[^.\n]{0,40}\b(?:lies?|lying|placed|beside|next to)\b|\b(?:keys?|secrets?|passwords?|credentials|tokens) (?:of [^.\n]{0,40}?)?(?:is|are) (?:written|stored|put|kept|copied|saved|pasted|checked) in(?:to)? \S{1,60}\.(?:ini|ya?ml|json|toml|py|conf|cfg|md|txt|env)\b"),
    (Action.CREDENTIALS, rf"\bhttps?://[^\s/@]{{0,60}}\$\{{?{_VARIABLE}\}}?@"),
    # What is downloaded and run, in words
    (Action.PIPES, rf"(?i)(?:\b(?:base64|xxd|openssl|gpg|gunzip|zcat)\b|\bhttps?://)[^\n|]{{0,200}}\|\s*{_SHELL}|\b(?:DownloadString|DownloadFile|DownloadData)\("),
    (Action.PIPES, r"(?i)\b(?:straight|directly|right) (?:in)?to (?:the |a |your )?(?:root )?(?:interpreter|shell|(?:ba|z|da)?sh|python\d?|node)\b"),
    (Action.PIPES, r"(?i)\b(?:pip(?:e|es|ed|ing)|stream(?:s|ed|ing)?|feed(?:s|ing)?)\b[^.\n]{0,60}\b(?:download\w*|installers?|install script|scripts?|curl|wget|url|site|response)\b[^.\n]{0,40}\b(?:in)?to (?:a |the |your )?(?:root )?(?:(?:ba|z|da)?sh|shell|python\d?|node|interpreter)\b"),
    (Action.PIPES, r"(?i)\b(?:download|fetch|grab|stream|wget|curl)\b[^.\n]{0,80}\b(?:scripts?|installers?|binary|binaries|executables?|[\w-]+\.(?:sh|py|ps1|exe|bat|run))\b[^.\n]{0,60}\b(?:and|then|to) (?:\w+ )?(?:run|execute|eval|source|launch|start)\b"),
    (Action.PIPES, r"(?i)\bpowershell\S{0,8}\s[^\n]{0,80}-e(?:c|nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{8,}"),
    # Ways out of the machine
    (Action.CONTACTS, r"(?i)\bngrok (?:tcp|http|tls|start)\b|\bcloudflared tunnel\b|\blocaltunnel\b|\btailscale funnel\b|\bssh\s(?:[^\n]{0,40}\s)?-R\s[\w.*:]{0,60}\d:"),
    # The same in plain words, whatever stands between
    (Action.CHECK_OFF, rf"(?i)\b{_STOP}\b[^.,;\n]{{0,30}}\b{_GUARDS}\b|\b{_GUARDS}\b[^.\n]{{0,50}}\b(?:{_STOP}|turn|switch|skip|ignore) (?:it|them|that|this)\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:drop|skip|omit|remove|delete|ignore|lower|relax|loosen|weaken|reduce) (?:the |all |any |its |every |your ){{0,2}}(?:\w+ ){{0,2}}(?:{_PROVING}|auth\w*|permission|security|secret|review|coverage|csrf) (?:checks?|checking|verification|validation|scans?|scanner|scanning|gates?|thresholds?|requirements?|prompts?)\b"),
    (Action.CHECK_OFF, r"(?i)\bwith (?:the |all |its ){0,2}(?:\w+ )?(?:hooks?|checks?|verification|validation|linter|sandbox|firewall|tests?|signing|authentication|ssl|tls) (?:turned |switched )?(?:off|disabled)\b|\bset(?:ting)?\b[^.\n]{0,30}\b\w*(?:verif|valid|check_|secure|strict_?ssl|ssl|tls|auth)\w*[`\"']? to [`\"']?(?:false|off|0|none|no|disabled)\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:push|commit|merge)\b[^.\n]{0,20}\b(?:straight|directly)\b[^.\n]{0,15}\b(?:main|master|production|trunk)\b|\bmerg(?:e|ing) (?:your|my|their|its|one's) own\b|\b(?:tests?|checks?|jobs?) (?:that|which) (?:fail|break)\w*[^.\n]{0,40}\b(?:delet|remov|skip|disabl|ignor|comment|exclud)\w*|\bfailing (?:tests?|assert\w*)\b[^.\n]{0,30}\b(?:into comments|can go)\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:append|add)\w* [`\"']?\|\|\s*(?:true|exit 0|:)|\btrusted[- ]host\b|\bhttp instead of https\b|#\s?nosec\b|\bconfig set (?:audit|strict-ssl|verify\S*|signature\S*) (?:false|off|0)\b|\bsudo for (?:everything|every|all)\b|\b(?:answer|say|click|choose|press) [`\"']?(?:yes|allow|always)\b[^.\n]{0,40}\b(?:prompts?|permissions?|approvals?|dialogs?)\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:self-signed|expired|invalid|unknown|unsigned) (?:\w+ )?(?:certs?|certificates?|keys?|packages?|commits?)\b[^.\n]{{0,30}}\b(?:fine|ok(?:ay)?|accept(?:ed)?|trust(?:ed)?|allowed)\b|\b{_PROVING}\b[^.\n]{{0,60}}\b(?:don't|do not|never|{_NOT_NEEDED}) (?:verify|check|validate) (?:it|them|that|those)\b|\b(?:lower|reduce|drop|set|relax)\b[^.\n]{{0,20}}\bcoverage\b[^.\n]{{0,20}}\b(?:zero|0)\b"),
    (Action.CHECK_OFF, rf"(?i)\b(?:take|takes|taking|leave|leaves|leaving|turn|turns|turning|switch|switches|switching)\b[^.,;\n]{{0,15}}\b(?:{_GUARDS}|checks)\b[^.,;\n]{{0,30}}\b(?:off|out)\b|\b(?:set|sets|raise|raises|put)\b[^.\n]{{0,30}}\brate limits?\b[^.\n]{{0,15}} to (?:unlimited|infinity|infinite|0\b)"),
    (Action.CHECK_OFF, r"(?i)\b(?:add|pass|append|put)(?:s|ing)? [`\"']?-k[`\"']? (?:to|in|into|on) [^.\n]{0,30}\bcurl\b|\bPermitRootLogin[ =]+yes\b|\bhost_key_checking\s?=\s?(?:false|0|no)\b|\b(?:enable|allow|permit)(?:s|ing)? (?:ssh |remote )?root (?:login|logins|ssh)\b"),
    (Action.DESTROYS, r"(?i)\b(?:drop|dropping) (?:the|that|its|all|every|those) (?:old |broken |affected |whole |conflicting |existing )?(?:tables?|databases?|schemas?|collections?)\b|\b(?:backups?|databases?|volumes?)\b[^.\n]{0,30}\b(?:can|may|could|should|must) (?:safely )?be (?:deleted|removed|dropped|wiped|purged|overwritten)\b"),
    (Action.CREDENTIALS, rf"(?i)\b(?:send|share|post|paste|upload|write|put|save|attach|mail|include|dump|print|log|copy|keep|store)\b[^.\n]{{0,30}}\b{_KEEPS}[^.\n]{{0,40}}\b(?:in|to|into|with|over|on|by|via) (?:the |a |an |your |our |every |each )?(?:\w+ )?{_SHOWN_IN}\b"),
    (Action.CREDENTIALS, rf"(?i)\b{_KEEPS}[^.;\n]{{0,60}}(?:,| and| then) (?:send|share|post|paste|upload|write|attach|mail|print|log) (?:it|them)\b|\bexport\b[^.\n]{{0,12}}\b(?:vault|keystore|keychain)\b|\b(?:print|log|echo|dump|send)\b[^\n]{{0,12}}\bos\.environ\[[\"'](?-i:{_VARIABLE})"),
    (Action.CREDENTIALS, r"(?i)\b(?:read|try|use|take|look up|get|find|fetch|copy|grab|extract)\b[^.\n]{0,30}\b(?:passwords?|secrets?|credentials?|(?:api|access|private|deploy|ssh|signing) keys?|tokens?) (?:from|in|at|of|out of|inside) (?:the |a |an |your |our )?(?:\w+ )?(?:[`\"']?(?:\.env\b|~/|/etc/|/root/|config/\S{1,40}|\S{1,40}\.ya?ml)|vault\b|keychain\b|browser\b|shell history\b|production\b)"),
    (Action.CHECK_OFF, r"(?i)\bNOPASSWD\b|\bufw allow\b|\bfirewall-cmd\b[^\n]{0,40}--add|\bchmod\b[^.\n]{0,40}\b(?:to )?0?777\b|\b(?:tests?|reviews?|checks?|approvals?|ci) (?:is|are) optional\b|\bexclude\b[^.\n]{0,30} from (?:the )?(?:mypy|pyright|ruff|eslint|lint\w*|bandit|the scan\w*|type[- ]check\w*)\b|\b(?:push|merge|deploy|release|commit) without (?:it|them)\b|\s-n on git commit\b"),
    (Action.CREDENTIALS, rf"(?i)\b(?:show|print|log|echo|display|dump)\b[^.\n]{{0,30}}\b(?-i:{_VARIABLE})\b[^.\n]{{0,30}}\b(?:in|into|to) (?:the |a |every )?(?:\w+ )?(?:logs?|output|report|console|page|ticket|issue)\b|\b{_KEEPS}[^\n]{{0,80}}\b(?:read|take|use|get) (?:it|them) (?:from|out of)\b|\b(?:owner|admin|user|colleague|customer)'s (?:session )?cookies?\b|\bkubectl\b[^\n]{{0,40}} get secrets?\b|\brun [`\"']?(?:env|printenv|set)[`\"']? and\b"),
    (Action.PIPES, r"(?i)\b(?:with|using|by) (?:wget|curl)\b[^.\n]{0,40}\b(?:pass|give|hand|feed|pipe)\b[^.\n]{0,20}\bto (?:the )?(?:(?:ba|z|da)?sh|shell|python\d?|node)\b"),
    # What is declared: rights for everything, policies and scanners that let all pass
    (Action.CHECK_OFF, r"(?i)\b(?:pid|ipc|network_mode): host\b|\bcap_add:\s{0,3}\[?[\"']?ALL\b|\bpermissions: write-all\b|\bsoft_fail: true\b|\b(?:privileged|host(?:PID|IPC|Network)|allowPrivilegeEscalation|android:debuggable|cleartextTrafficPermitted|usesCleartextTraffic)[\"']?\s?[:=]\s?[\"']?true\b|\bpod-security\.kubernetes\.io/enforce\s?[:=]\s?[\"']?privileged|\bNSAllowsArbitraryLoads\b[^.\n]{0,20}\b(?:true|yes)\b|\brunAsUser[\"']?\s?:\s?0\b|\bfailurePolicy[\"']?\s?[:=]\s?[\"']?Ignore\b|\b(?:delete|remove)\b[^.\n]{0,20}\b(?:validating|mutating)(?:webhookconfigurations?|admissionpolic\w{1,3})\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:grant|give|attach|assign|bind|add|put|make|use|run|create|with|to|clusterrole[= ])(?:s|ing)?\b[^.\n]{0,60}\b(?:cluster-admin|AdministratorAccess|PowerUserAccess|roles/(?:owner|editor)|db_owner|system:masters)\b|\balter (?:role|user) \S{1,60} (?:with )?superuser\b|\bgrant all (?:privileges )?on (?:\*\.\*|all )|\b(?:disable trigger|nocheck constraint|disable row level security)\b|\bsession_replication_role\s?=\s?[\"']?replica"),
    (Action.CHECK_OFF, r"(?i)\b(?:tfsec|checkov|kics|semgrep|trivy|gitleaks|snyk|sonar)\s?:\s?(?:ignore|skip|allow|disable)\b|\b(?:abortOnError|checkReleaseBuilds|failOnError|failOnViolation|failBuildOnCVSS|breakBuild)[\"']?\s?[ =:]\s?false\b|\bignore_?Failures?[\"']?\s?[ =:]\s?true\b|\bmaven\.test\.failure\.ignore\b|\bexit[-_]?code[\"'`]?(?:\s?[ =:]\s?| to )0[^.\n]{0,30}\b(?:pass|green|scan|find\w*|go through)\b|\b(?:trust manager|hostname verifier|certificate (?:validator|callback))\b[^.\n]{0,30}\b(?:accept|trust|allow|return)s? (?:everything|all|any|true)\b"),
    (Action.CHECK_OFF, r"(?i)\b(?:security|scan\w*|lint|policy|audit|licen[cs]e|test) (?:stage|step|job)s?\b[^.\n]{0,40}(?:\bwhen: never\b|\bif: false\b)|(?:\bwhen: never\b|\bif: false\b)[^.\n]{0,30}\b(?:security|scan\w*|lint|policy|audit|licen[cs]e|test) (?:stage|step|job)s?\b|\badvfirewall\b[^\n]{0,40}\bstate off\b|\bSet-NetFirewallProfile\b[^\n]{0,60}-Enabled \$?false\b|\b(?:Add|Set)-MpPreference\b|-InstallationPolicy Trusted\b|\bbcdedit\b[^\n]{0,40}\btestsigning on\b"),
    # What lasts, by the tools of clouds and databases, and where people work with it
    (Action.DESTROYS, rf"(?i)\b{_CLOUDS}\b[^\n|;&`]{{0,60}}?\s{_LASTING}\s+(?:delete|destroy|purge|rm|remove)\b|\b{_CLOUDS}\b[^\n|;&`]{{0,60}}?\s(?:delete|destroy|purge|terminate|remove)[ -](?:[\w-]+[ -])?{_LASTING}\b|\b(?:terraform|tofu)\b[^\n]{{0,40}}\s-(?:destroy\b|replace=)|\bheroku pg:reset\b"),
    (Action.DESTROYS, r"(?i)\b(?:drop|delete|uninstall|clean|reset|downgrade|wipe|recreate|destroy|purge|empty|truncate|erase|flush|flushdb)\b[^.\n]{0,60}(?:(?:\s-n|\s-e|\s-c|--namespace|--env(?:ironment)?|--context|\b\w*_ENV)[= ]prod\w*|\b(?:on|in|of|against) (?:the |a )?(?:production|prod|live) (?:database|db|schema|server|system|data|cluster|site|tables?)\b)"),
    (Action.DESTROYS, r"(?i)\b(?:Remove-Item|rmdir|rd|del|erase)\b[^\n|;]{0,60}\s[\"'`]?(?:[a-z]:[\\/]?|\$env:(?:SystemDrive|USERPROFILE|windir)|\$HOME)(?:\*|(?:Windows|Users|Data|Program\w*)\b)?(?:[\"'`\s,;.]|$)|\bformat\s+[a-z]:|\bdiskpart\b[^\n]{0,60}\bclean\b|\b(?:vssadmin|wbadmin|wmic shadowcopy) delete\b|\b(?:Clear-Disk|Format-Volume|Initialize-Disk)\b"),
    (Action.CREDENTIALS, r"(?i)\bkubectl\b[^\n]{0,20} create token\b|\b(?:terraform|tofu|pulumi)\b[^\n]{0,20} (?:output|stack output|state pull)\b[^\n]{0,60}(?:passw|secret|token|private_?key)|\baz keyvault secret (?:show|download|list)\b|\bgcloud secrets versions access\b|\bdocker inspect\b[^.\n]{0,60}\b(?:passwords?|secrets?|tokens?)\b"),
    (Action.INSTALLS, r"(?i)\binstall_(?:github|gitlab|bitbucket|git|url)\s?\([^)\n]{1,80}|\b(?:inputs\.)?[\w-]+\.url\s?=\s?[\"'](?:github|gitlab|sourcehut):[^\s\"']{1,80}"),
)  # fmt: skip

_ALL = (
    *_RISKS,
    *((Action.CHECK_OFF, pattern) for pattern in other_languages.CHECKS_OFF),
    *((Action.CREDENTIALS, pattern) for pattern in other_languages.CREDENTIALS),
    *((Action.DESTROYS, pattern) for pattern in other_languages.DESTROYS),
)

_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z0-9-]{1,62}"
_MOVING = (
    r"(?:send|sent|forward|upload|report|post|submit|sync|push|pull|e?-?mail|copy|copied|mirror|stream|export|download|fetch|"
    r"connect|clone|load|install|share|notify|query|poll|run|execute|rout(?:e|ing)|redirect|tunnel|switch|migrat(?:e|ing)|deploy|"
    r"register|subscribe|resolv(?:e|ing)|call|call out|reach out|post back|phone home)(?:s|d|ed|ing|ned)?"
)
_VERBS = (
    rf"(?:{_MOVING}|curl|wget|put|open|visit|browse|follow|read|call|contact|ping|add|set|scp|rsync|s?ftp|ssh|nc|ncat|netcat|"
    r"telnet|import|source|ask|point|use|cc|bcc|reach|get|urlopen|urlretrieve|requests?|httpx?|HTTPS?Connection|axios|"
    r"Invoke-WebRequest|Invoke-RestMethod|iwr|irm|remote|docker|podman|helm|deb|pip\w*|npm|uv|npx|pnpm|yarn|conda|cargo|gem|composer|"
    r"nuget|maven|gradle|mshta|msiexec|regsvr32|rundll32|[cw]script|aria2c|lftp|rclone|certutil|bitsadmin|yum-config-manager|dnf|WebSocket|EventSource|fetches|replace|route|proxy)"
)
# Of an address behind one of these it is said what it is for; where it is cited, they are no orders.
_ROLES = (
    r"(?:[A-Z][A-Z_]*_(?:URL|HOST|ENDPOINT|PROXY|REGISTRY|INDEX|MIRROR|DSN)|(?i:urls?|uri|dsn|endpoint|host(?:name)?|server|mirror|registry|"
    r"index|repositor(?:y|ies)|repos?|feed|channels?|webhook|proxy|gateway|upstream|origin|base url|collector|cdn|image|insteadOf))"
)
# What people read there, and programs do not ask.
_READ_ONLY = patterns.compile(
    r"(?i)^(?:docs?\.|wiki\.|help\.|developers?\.|learn\.|blog\.|(?:www\.)?(?:w3|ietf|rfc-editor|json-schema|opensource|creativecommons|stackoverflow|"
    r"wikipedia|mozilla|python|sqlite|postgresql)\.(?:org|com)\b|[\w-]+\.(?:readthedocs\.io|wikipedia\.org|stackexchange\.com|mozilla\.org)|"
    r"(?:www\.)?github\.com/[\w.-]+/[\w.-]+/(?:issues|pull|discussions|blob|wiki|commit)/|example\.(?:com|org|net)\b)"
)
_ROLE = patterns.compile(rf"(?:^|[^\w-]){_ROLES}\b")
_CITED = patterns.compile(
    r"(?i)\b(?:see|siehe|vgl|voir|vedi|cf|docs?|documented|documentation|described|explained|explains|specification|spec|reference|details|according to|"
    r"read more|issue|bug|discussion|thread|article|example|namespace|schema|xmlns|licen[cs]e|tests?|like)\b|\$schema"
)
_URL = patterns.compile(
    r"(?i)\b(?:https?|hxxps?|ssh|git|ftp|wss?|s?ftp|oci|tcp|udp)://([^\s\"'`<>()\[\]{}|\\,;]{1,300})"
)
_AT = patterns.compile(rf"\b([A-Za-z0-9._%+-]{{1,64}}@{_HOST}(?:[:/][\w.~/-]{{1,200}})?)")
_IMAGE = patterns.compile(
    rf"(?i)(?:\b(?:docker|podman|buildah|nerdctl)\s+(?:pull|run|push|create)\b[^\n|;]{{0,80}}?\s|(?-i:FROM)\s+(?:--\S{{1,40}}\s+)?|\bimage:\s{{0,3}}[\"']?)"
    rf"({_HOST}(?::\d+)?/[\w./-]{{0,200}})|\b(?:docker|podman|helm registry|npm|oras) login\s+(?:\S{{1,40}}\s+){{0,4}}?({_HOST})"
)
_GO = patterns.compile(rf"\bgo (?:get|install|run)\s(?:-\w+\s+){{0,3}}({_HOST}/[\w./-]{{1,200}})")
_TLD = (
    r"(?:com|net|org|io|dev|ai|co|app|cloud|xyz|info|me|ru|cn|top|site|online|tech|biz|eu|de|uk|us|cc|tv|ws|su|pw|club|live|store|shop|"
    r"link|click|space|fun|pro|host|zone|page|gg|nl|fr|ch|at|se|it|es|ca|au|jp|br|pl|example|invalid)"
)
_BARE_HOST = rf"(?:(?:[a-z0-9-]{{1,62}}\.){{1,6}}{_TLD}|(?:\d{{1,3}}\.){{3}}\d{{1,3}})\b"
_BARE = patterns.compile(
    rf"(?i)(?:\b(?:{_MOVING}\b[^.\n]{{0,140}}?\s(?:to|from|at|via|through|into)\s+(?:the \w+ )?|"
    rf"(?:get|post|put|http\w*) requests? to\s+|replac(?:e|ing)\b[^\n'\"]{{0,80}}?\s(?:with|by)\s+|"
    rf"(?:visit|open|contact|HTTPS?Connection)[\s(]+|(?:curl|wget|ping|ssh|nc|ncat|telnet|aria2c|lftp|socat|nslookup|https?|xh)\s+(?:\S{{1,60}}\s+){{0,5}}?|"
    rf"(?:nameserver|dns|proxy|mirror|registry|webhook|relay|upstream|gateway|index|endpoint|collector|base url|channel|feed|repository|repo|script|installer)(?: server| host)?\s(?:(?:is|at|to|on|of|by|from|=|:)\s?)?)|/dev/(?:tcp|udp)/|\s-connect\s+)[`\"']?"
    rf"({_BARE_HOST})"
)
_BARE_ROLE = patterns.compile(
    rf"(?i)\b({_BARE_HOST})(?::\d{{1,5}})?[`\"']? as (?:the |a |an |your |our )?(?:\w+ )?(?:upstream|proxy|mirror|registry|gateway|index|endpoint|server|host|relay|nameserver|resolver|dns)\b|"
    rf"\b((?:\d{{1,3}}\.){{3}}\d{{1,3}})\b[^\n]{{0,60}}/etc/(?:hosts|resolv)|\b(?:download|fetch|get|grab|open|load|visit|run)\s+[`\"']?({_BARE_HOST}/[\w./-]{{1,200}})"
)
# An address that a program is given: behind its name or an option.
_GIVEN = patterns.compile(
    r"(?:[`;|&]\s{0,3}[a-z][\w.-]{1,30}|(?:^|\s)(?:Add|Connect|Copy|Enter|Find|Get|Import|Install|Invoke|New|Publish|Push|Receive|Register|Save|Send|Start|Update)-[A-Z]\w{1,30}|\s-{1,2}[a-z][\w-]{0,30})[ =][\"']?\z"
)
_SERVES = patterns.compile(rf"^[`\"']? as (?:[\w-]+ ){{0,5}}{_ROLES}\b")
# A name with dots that is a host, wherever it stands: modules and products have other endings or fewer parts.
_NAMED = patterns.compile(
    rf"(?i)(?:^|[\s`\"'(=<>@/])((?:(?:[a-z0-9-]{{1,62}}\.){{2,6}}{_TLD}|[a-z0-9-]{{3,62}}\.(?:com|org|cc|xyz|ru|cn|top|info|biz)|(?:\d{{1,3}}\.){{3}}\d{{1,3}})(?::\d{{1,5}}|/[\w./-]{{0,200}})?)"
)
_ORDER = patterns.compile(
    rf"(?i)\b(?:{_MOVING}|must|have to|has to|needs? to|always|go(?:es)? to|comes? from|against|goes through|ship(?:s|ped)?|reach|contact|call|"
    r"visit|set|take|taken|use|used|add|put|point|change|replace|give|ask|dig|ntpdate|quer(?:y|ies)|served by|served from|lives? on|from now on)\b"
)
_INNER = patterns.compile(
    r"^(?:10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.)|\.(?:kubernetes|k8s|argoproj|cert-manager)\.io$"
)
_GOES_ON = patterns.compile(r"^(?:\.\w|[\w(@-])")
_VERSIONED = patterns.compile(r"(?i)\b(?:versions?|v|release|driver|from|to|take)\s*\z")
_BUCKET = patterns.compile(
    r"(?i)\b(?:cp|mv|sync|rsync|copy|upload|send|mirror|push|put|back ?up|load(?:ed)?|(?:pg_)?restored?|download|fetch|pull)\b[^\n]{0,120}?\s[`\"']?((?:s3|gs|az|r2)://[a-z0-9][\w.-]{1,62})"
)
_SPELLED = patterns.compile(
    rf"(?i)\b(?:[a-z0-9-]{{1,62}} ?(?:[\[(]\.[\])]|[\[(]dot[\])]| dot ) ?){{1,5}}{_TLD}\b"
)
# What an editor makes of two hyphens.
_DASHES = patterns.compile(r"(^|[\s`\"'(])[–—]{1,2}([a-z])")
_DOT = patterns.compile(r"(?i) ?(?:[\[(]\.[\])]|[\[(]dot[\])]| dot ) ?")
_A_FILE = patterns.compile(
    r"(?i)(?:^|\.)(?:ya?ml|json|toml|ini|conf|config|settings|cfg|env|local|sample|test)\.(?:example|invalid|local|app|host)$"
)
_VERB = patterns.compile(rf"(?i)(?:^|[^\w-])({_VERBS}\b)|(=)")
# A line of code that goes on is no end of a sentence.
_BROKEN = patterns.compile(r"\. |[^(,\[{\s]\s{0,4}\n")
_CONTINUED = patterns.compile(r"\\\n\s{0,40}")

# Whom a package manager asks anyhow.
_USUAL = frozenset({"pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com", "index.crates.io",
                    "proxy.golang.org", "rubygems.org", "deb.debian.org", "archive.ubuntu.com", "conda.anaconda.org"})  # fmt: skip

# Where Go's packages come from anyhow.
_USUAL_OF_GO = frozenset({"github.com", "gitlab.com", "bitbucket.org", "golang.org", "google.golang.org", "gopkg.in", "go.uber.org",
                          "k8s.io", "sigs.k8s.io", "cloud.google.com", "honnef.co", "mvdan.cc"})  # fmt: skip

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
# A file of settings that is made from its example has no secret in it yet.
_EXAMPLE = patterns.compile(
    r"(?i)(?:cp|copy|mv|rename)\s+\S{0,60}\.env\.(?:example|sample|template|dist)[`\"']?\s+(?:(?:to|as|into)\s+)?\S{0,60}\.env\S{0,10}"
)
_TOLD = patterns.compile(
    r"\s+(?:-m\s+json\.tool\b|-[npls]?[ce]\s+(?:'[^'\n]{0,150}'|\"[^\"\n]{0,150}\"))"
)
_INTERPRETER = patterns.compile(r"(?i)\b(?:python[\d.]*|perl|ruby|node|php)\z")
_RUNS = patterns.compile(
    r"(?i)exec|eval|system|popen|subprocess|import\(|compile|spawn|require|marshal|pickle|`"
)
_WORDS = patterns.compile("[A-Za-z]{2,}")
_OTHER_LETTERS = patterns.compile("[\u00c0-\u1fff\u3040-\uffdc]{2,}")
_ENGLISH = patterns.compile(
    r"(?i)\b(?:the|is|are|was|a|an|of|and|to|in|on|at|for|with|from|by|as|that|this|it|be|must|only|not|no|see)\b"
)
_TELLS = patterns.compile(
    r"(?i)(?:log|print|dump|echo|record|show)\b[^\n]{0,30}\b(?:authorization|cookie|auth) header\z"
)
_STILL = patterns.compile(
    r"(?i)\b(?:forget|fail|hesitate|omit|skip|miss|wait|only|just|worry|bother|afraid|mind|when|if|once|then)\b"
)
_FORBIDDEN = patterns.compile(
    r"(?i)^[`\"')]{0,2} (?:is|are) (?:forbidden|not allowed|banned|refused|rejected|prohibited)(?:[.,;]|\z| here| by| in)"
)


def risks(text: str) -> tuple[Risk, ...]:
    """Each kind of thing once for each host or, where none is named, for each way of saying it."""
    found: dict[tuple[Action, str], Risk] = {}
    for shown in readings(text).shown:
        said = _CONTINUED.sub(" ", shown) if "\\\n" in shown else shown
        said = _DASHES.sub(r"\1--\2", said)
        said = _SPELLED.sub(lambda match: _DOT.sub(".", match[0]), said)
        for risk in (*_asked(said), *_contacts(said)):
            found.setdefault(risk.what, risk)
    return tuple(found.values())


@cache
def _known() -> tuple[Any, tuple[patterns.Pattern, ...]]:
    written = [pattern for _, pattern in _ALL]
    return patterns.any_of(written), tuple(map(patterns.compile, written))


def _asked(text: str) -> Iterator[Risk]:
    any_of, each = _known()
    for number in any_of.Match(text.encode("utf-8", "replace")) or ():
        action = _ALL[number][0]
        for match in each[number].finditer(text):
            snippet = match[0].strip(" \t\n`\"'.,;")
            host, place = next(_reached(snippet), (None, None))
            denied = _denied if number < len(_RISKS) else other_languages.denied
            if denied(text, match.start(), match.end()):
                continue
            if snippet.endswith(("header", "cookie")) and not _TELLS.match(snippet):
                continue  # Where it belongs.
            if action is Action.INSTALLS and host in _USUAL:
                continue
            if action is Action.CREDENTIALS and _EXAMPLE.fullmatch(snippet):
                continue
            if action is Action.PIPES and _reads_it_only(text, match.start(), match.end()):
                continue
            yield Risk(action, snippet[:LONGEST_SNIPPET], host, place)


def _is_foreign(sentence: str) -> bool:
    words = len(_WORDS.findall(sentence)) > 1 or _OTHER_LETTERS.search(sentence)
    return bool(words) and not _ENGLISH.search(sentence)


def _reads_it_only(text: str, start: int, end: int) -> bool:
    """Whether the program is told there what to do, and what is piped into it is data."""
    told = _TOLD.match(text[end : end + 200])
    return bool(told and _INTERPRETER.search(text[start:end]) and not _RUNS.search(told[0]))


def _contacts(text: str) -> Iterator[Risk]:
    for match in (*_URL.finditer(text), *_AT.finditer(text)):
        sentence = _BROKEN.split(text[max(0, match.start() - 160) : match.start()])[-1]
        verbs = list(_VERB.finditer(sentence))
        reached = _at(match[1])
        if reached is None:
            continue
        # The last one before the address is the one that is meant.
        said = [max(verb.start(1), verb.start(2)) for verb in verbs[-1:]]
        if not said and not _CITED.search(sentence) and not _READ_ONLY.search(match[1]):
            roles = [role.start() for role in _ROLE.finditer(sentence)]
            said = roles[-1:] or [order.start() for order in _ORDER.finditer(sentence)][-1:]
            if not said and (
                _GIVEN.search(sentence) or _SERVES.match(text[match.end() : match.end() + 80])
            ):
                said = [len(sentence)]
            if not said and _is_foreign(sentence + text[match.end() : match.end() + 60]):
                said = [0]  # Whatever it says, in words that we do not know.
        start = match.start() - len(sentence) + said[0] if said else -1
        if said and not _denied(text, start, match.end()):
            yield Risk(Action.CONTACTS, text[start : match.end()][-LONGEST_SNIPPET:], *reached)
    for pattern in (_IMAGE, _BARE, _BARE_ROLE, _GO):
        for match in pattern.finditer(text):
            address = next(filter(None, match.groups()))
            reached = None if _A_FILE.search(address) else _at(address)
            if reached is None or (pattern in (_GO, _BARE_ROLE) and reached[0] in _USUAL_OF_GO):
                continue
            if not _denied(text, match.start(), match.end()):
                yield Risk(Action.CONTACTS, match[0].strip()[:LONGEST_SNIPPET], *reached)
    for match in _NAMED.finditer(text):
        before = text[max(0, match.start(1) - 160) : match.start(1)]
        sentence = _BROKEN.split(before)[-1]
        reached = None if _A_FILE.search(match[1]) else _at(match[1])
        if (
            reached is None
            or reached[0] in _SHARED
            or reached[0] in _USUAL
            or reached[0] in _MAILBOXES
        ):
            continue
        if (
            _CITED.search(sentence)
            or not _ORDER.search(sentence)
            or _INNER.search(reached[0])
            or "@" in before[-65:].rpartition(" ")[2]
            or "://" in before[-9:]
        ):
            continue
        number = reached[0].replace(".", "").isdigit()
        if _GOES_ON.search(text[match.end() : match.end() + 2]) or (
            number and _VERSIONED.search(sentence)
        ):
            continue
        if not _denied(text, match.start(1), match.end()):
            yield Risk(Action.CONTACTS, match[1][:LONGEST_SNIPPET], *reached)
    for match in _BUCKET.finditer(text):
        if not _denied(text, match.start(), match.end()):
            place = match[1].lower()
            yield Risk(Action.CONTACTS, match[0].strip()[:LONGEST_SNIPPET], place, place)


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
    if host.rpartition(".")[2].isdigit() and host.count(".") != 3:
        return None  # A version: vite@5.1.4.
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
