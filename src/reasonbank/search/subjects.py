"""What a text or a piece of work is about: told from tools, commands, files and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from reasonbank.safety.patterns import compile

_words = str.split

_PROGRAMS = {
    "python":
        "python python2 python3 pip pip3 pipx poetry uv pdm hatch rye pipenv conda mamba "
        "pytest py.test tox nox mypy pyright ruff flake8 pylint black isort manage.py "
        "alembic flask django-admin celery uvicorn gunicorn jupyter twine pyenv "
        "virtualenv mkdocs",
    "javascript":
        "npm npx yarn pnpm bun node deno tsc eslint prettier jest vitest mocha vite "
        "webpack next playwright cypress nvm corepack volta fnm prisma turbo nx lerna "
        "biome esbuild rollup",
    "go": "go gofmt golangci-lint dlv",
    "rust": "cargo rustc rustup rustfmt",
    "java": "mvn mvnw gradle gradlew java javac sbt sdk kotlinc",
    "ruby": "ruby bundle bundler gem rake rails rspec rubocop rbenv",
    "php": "php composer phpunit artisan phpstan",
    "dotnet": "dotnet nuget msbuild",
    "swift": "swift swiftc xcodebuild xcrun xcode-select",
    "elixir": "mix elixir iex",
    "haskell": "ghc stack cabal",
    "dart": "flutter dart",
    "c++": "gcc g++ clang clang++ clang-tidy cc c++ cmake ctest ninja meson ld",
    "containers": "docker docker-compose podman buildah",
    "kubernetes": "kubectl helm kustomize minikube kind k3s oc skaffold argocd",
    "infrastructure":
        "terraform tofu terragrunt pulumi ansible ansible-playbook packer aws gcloud az "
        "vault",
    "git": "git gh glab ssh ssh-add ssh-keygen git-lfs",
    "databases":
        "psql pg_ctl pg_isready createdb dropdb createuser mysql mysqladmin redis-cli "
        "redis-server mongosh mongod sqlite3 flyway liquibase",
    "system":
        "apt apt-get dpkg yum dnf pacman brew systemctl service journalctl chmod chown "
        "mount useradd usermod sysctl ufw iptables nginx apachectl update-ca-certificates "
        "locale-gen timedatectl chronyc ntpdate",
}  # fmt: skip
_BY_PROGRAM = {program: name for name, all in _PROGRAMS.items() for program in _words(all)}

LANGUAGES = frozenset(
    _words("python javascript go rust java ruby php dotnet swift elixir haskell dart c++")
)
"""What is wrong in one of them is not put right by a tool of another."""

_ENDINGS = {
    "python": ".py .pyi .ipynb",
    "javascript": ".js .jsx .ts .tsx .mjs .cjs .vue .svelte",
    "go": ".go",
    "rust": ".rs",
    "java": ".java .kt .kts .scala .gradle",
    "ruby": ".rb .gemspec .rake",
    "php": ".php",
    "dotnet": ".cs .fs .csproj .sln",
    "swift": ".swift",
    "elixir": ".ex .exs",
    "haskell": ".hs .cabal",
    "dart": ".dart",
    "c++": ".c .h .cc .cpp .cxx .hpp .cmake",
    "infrastructure": ".tf .tfvars",
    "databases": ".sql",
    "web": ".css .scss .html",
    "documentation": ".md .rst .adoc",
}  # fmt: skip
_BY_ENDING = {ending: name for name, all in _ENDINGS.items() for ending in _words(all)}
_BY_NAME = {
    "cmakelists.txt": "c++", "dockerfile": "containers", "compose.yaml": "containers",
    "compose.yml": "containers", "docker-compose.yml": "containers", "package.json": "javascript",
    "tsconfig.json": "javascript", "pyproject.toml": "python", "requirements.txt": "python",
    "go.mod": "go", "cargo.toml": "rust", "pom.xml": "java", "gemfile": "ruby",
    "composer.json": "php", "chart.yaml": "kubernetes",
}  # fmt: skip


_NAMES = {
    "typescript": "javascript", "golang": "go", "postgres": "databases", "postgresql": "databases",
    "sql": "databases", "mysql": "databases", "sqlite": "databases", "mongodb": "databases",
    "redis": "databases", "kubernetes": "kubernetes", "django": "python", "fastapi": "python",
    "pandas": "python", "numpy": "python", "react": "javascript", "nodejs": "javascript",
    "css": "web", "html": "web", "kotlin": "java", "dockerfile": "containers",
}  # fmt: skip
# Programs that are called like words of everyday talk.
_EVERYDAY = frozenset(_words("""
    go next kind stack service mix sdk az ld cc oc pod gem rake black dart swift flask celery
    node packer vault mount java ruby turbo nx cabal biome rollup bundle
"""))  # fmt: skip
_WORD = compile(r"[A-Za-z][\w.+-]*")


def of_text(text: str) -> str | None:
    """The subject that a text names most, if it names any."""
    words = [word.rstrip(".").lower() for word in _WORD.findall(text[:4_000])]
    return most(
        _NAMES.get(word) or (None if word in _EVERYDAY else _BY_PROGRAM.get(word)) for word in words
    )


_TOPICS = {
    "databases":
        "database query queries schema migration migrate transaction deadlock rollback join "
        "replica replication foreign primary orm rows table tables",
    "networking":
        "network proxy haproxy dns tls ssl certificate handshake socket tcp udp firewall port "
        "http https websocket gateway connection latency loadbalancer cors grpc",
    "security":
        "password login auth authentication authorization oauth jwt credential credentials secret "
        "secrets token tokens permission permissions encryption csrf xss vulnerability",
    "testing": "test tests flaky fixture fixtures mock coverage assertion regression",
    "deployment":
        "deploy deploys deployment release rollout staging production pipeline rollback ci cd "
        "artifact canary",
    "concurrency": "thread threads race lock locks mutex async await concurrent parallel worker "
        "workers queue semaphore",
    "performance": "slow performance profile profiling memory leak cache caching throughput cpu "
        "benchmark bottleneck",
    "storage": "upload uploads download disk file files bucket s3 backup filesystem",
    "frontend": "button layout browser dom stylesheet responsive render component page ui form",
    "builds": "build builds compile compiler linker dependency dependencies package packages "
        "lockfile wheel",
    "data": "csv json xml yaml parse parsing parser encoding unicode utf-8 dataframe column "
        "columns spreadsheet",
    "dates and times": "timezone timezones date dates datetime dst calendar schedule cron clock",
    "observability": "log logs logging metrics tracing alert alerts monitoring dashboard",
    "messaging": "email mail smtp webhook notification kafka rabbitmq message messages topic",
    "payments": "payment payments invoice refund billing checkout stripe charge",
    "machine learning": "model training dataset gradient inference embedding embeddings tensor "
        "epoch gpu cuda",
}  # fmt: skip
_BY_TOPIC: dict[str, list[str]] = {}
for _topic, _all in _TOPICS.items():
    for _each in _words(_all):
        _BY_TOPIC.setdefault(_each, []).append(_topic)


def of_task(text: str) -> str | None:
    """The subject that a text names, or else the one that most of its words belong to."""
    words = [word.rstrip(".").lower() for word in _WORD.findall(text[:4_000])]
    return of_text(text) or most(topic for word in words for topic in _BY_TOPIC.get(word, ()))


def of_program(program: str) -> str | None:
    return _BY_PROGRAM.get(program.lower())


def of_file(path: str) -> str | None:
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_ENDING.get(name[name.rfind(".") :] if "." in name else "")


def most(found: Iterable[str | None]) -> str | None:
    """The one that is seen most; of equals, the first."""
    counts = Counter(name for name in found if name)
    return counts.most_common(1)[0][0] if counts else None
