"""Plain sessions of many trades: something failed, something was done, the same passed.

Each names what the lesson must say of the remedy and of the error, and what it must not repeat
because it only stood in between. ``SEEN`` was written before the rules that read it, and so was
``NOTHING_SEEN``; ``HELD_OUT`` and ``NOTHING_HELD_OUT``, in another file, afterwards.
"""

from dataclasses import dataclass

from tests.learn.transcript_writers import A, C, E, U


@dataclass(frozen=True)
class Plain:
    steps: list
    remedy: str
    error: str
    noise: tuple[str, ...] = ()


def fixed(name, failing, output, *between, remedy, error, noise=(), asked="Please get it going"):
    """A command that failed, what was done, and the same command passing."""
    steps = [U(asked), C(failing, 1, output), *between, C(failing, 0, "done"), A("It works now.")]
    return name, Plain(steps, remedy, error, noise)


SEEN = dict((
    fixed("npm ci", "npm run build",
          "sh: 1: vite: not found\nnpm ERR! code 127", C("ls node_modules", 2, "ls: cannot access"),
          C("npm ci", 0, "added 512 packages"), remedy="npm ci", error="vite: not found", noise=("ls node_modules",)),
    fixed("yarn immutable", "yarn build",
          "Usage Error: The project in /home/me/app/package.json doesn't seem to have been installed - running an install there might help",
          C("cat package.json", 0, "{}"), C("yarn", 0, "Done in 3s"), remedy="`yarn`", error="installed", noise=("cat package.json",)),
    fixed("pnpm approve", "pnpm start",
          "Error: Cannot find module '@esbuild/linux-x64'\nRequire stack:\n- /home/me/app/x.js",
          C("pnpm rebuild esbuild", 0, "rebuilt"), remedy="pnpm rebuild esbuild", error="Cannot find module"),
    fixed("pip missing extra", "python -m app.server",
          "Traceback (most recent call last):\n  File \"/home/me/app/server.py\", line 3, in <module>\n    import uvicorn\nModuleNotFoundError: No module named 'uvicorn'",
          C("pip install 'uvicorn[standard]'", 0, "Successfully installed uvicorn"), remedy="uvicorn[standard]", error="No module named 'uvicorn'"),
    fixed("poetry lock", "poetry install",
          "pyproject.toml changed significantly since poetry.lock was last generated. Run `poetry lock` to fix the lock file.",
          C("git status", 0, "M pyproject.toml"), C("poetry lock", 0, "Writing lock file"), remedy="poetry lock", error="changed significantly", noise=("git status",)),
    fixed("uv python", "uv sync",
          "error: No interpreter found for Python 3.13 in managed installations or search path",
          C("uv python install 3.13", 0, "Installed Python 3.13.1"), remedy="uv python install 3.13", error="No interpreter found"),
    fixed("go mod tidy", "go build ./...",
          "main.go:5:2: no required module provides package github.com/pkg/errors; to add it:\n\tgo get github.com/pkg/errors",
          C("go mod tidy", 0, "go: finding module"), remedy="go mod tidy", error="no required module provides package"),
    fixed("cargo update", "cargo build",
          "error: failed to select a version for `openssl-sys`.\n    ... required by package `native-tls v0.2.11`",
          C("cargo tree -d", 0, "openssl-sys"), C("cargo update -p openssl-sys", 0, "Updating"), remedy="cargo update -p openssl-sys", error="failed to select a version", noise=("cargo tree",)),
    fixed("maven offline", "mvn -q package",
          "[ERROR] Failed to execute goal on project web: Could not resolve dependencies for project com.acme:web:jar:1.0: Could not find artifact com.acme:core:jar:1.0",
          C("mvn -q -pl core -am install", 0, ""), remedy="mvn -q -pl core -am install", error="Could not resolve dependencies"),
    fixed("gradle daemon", "./gradlew assemble",
          "FAILURE: Build failed with an exception.\n* What went wrong:\nGradle build daemon disappeared unexpectedly (it may have been killed or may have crashed)",
          C("./gradlew --stop", 0, "Stopping Daemon(s)"), remedy="gradlew --stop", error="daemon disappeared"),
    fixed("docker daemon", "docker build -t web .",
          "ERROR: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
          C("systemctl status docker", 3, "inactive (dead)"), C("sudo systemctl start docker", 0), remedy="sudo systemctl start docker", error="Cannot connect to the Docker daemon", noise=("systemctl status",)),
    fixed("compose network", "docker compose up -d",
          "network shared declared as external, but could not be found",
          C("docker network create shared", 0, "f00"), remedy="docker network create shared", error="declared as external"),
    fixed("kubectl context", "kubectl apply -f deploy.yaml",
          'Error from server (Forbidden): deployments.apps is forbidden: User "me" cannot create resource',
          C("kubectl config get-contexts", 0, "prod\nstaging"), C("kubectl config use-context staging", 0, 'Switched to context "staging".'),
          remedy="kubectl config use-context staging", error="Forbidden", noise=("get-contexts",)),
    fixed("helm dependencies", "helm install web ./chart",
          "Error: INSTALLATION FAILED: An error occurred while checking for chart dependencies. found in Chart.yaml, but missing in charts/ directory: redis",
          C("helm dependency update ./chart", 0, "Saving 1 charts"), remedy="helm dependency update ./chart", error="missing in charts/"),
    fixed("terraform init", "terraform plan",
          "Error: Inconsistent dependency lock file\n\nThe following dependency selections recorded in the lock file are inconsistent",
          C("terraform init -upgrade", 0, "Terraform has been successfully initialized!"), remedy="terraform init -upgrade", error="Inconsistent dependency lock file"),
    fixed("git pull rebase", "git push",
          "To github.com:acme/app.git\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs",
          C("git log --oneline -3", 0, "abc"), C("git pull --rebase", 0, "Successfully rebased"), remedy="git pull --rebase", error="fetch first", noise=("git log",)),
    fixed("git identity", "git commit -m 'Add it'",
          "Author identity unknown\n\n*** Please tell me who you are.\n\nfatal: unable to auto-detect email address (got 'me@box.(none)')",
          C("git config user.email me@acme.org", 0), C("git config user.name Me", 0), remedy="git config user.email", error="unable to auto-detect email address"),
    fixed("free a port", "npm run dev",
          "Error: listen EADDRINUSE: address already in use :::3000",
          C("lsof -ti :3000", 0, "4711"), C("kill 4711", 0), remedy="`kill <pid>` (the pid from `lsof -ti :3000`)", error="EADDRINUSE", noise=("4711",)),
    fixed("executable", "./scripts/release.sh",
          "bash: ./scripts/release.sh: Permission denied",
          C("ls -l scripts", 0, "-rw-r--r--"), C("chmod +x scripts/release.sh", 0), remedy="chmod +x scripts/release.sh", error="Permission denied", noise=("ls -l",)),
    fixed("disk space", "docker pull acme/big:1",
          "failed to register layer: write /usr/lib/x.so: no space left on device",
          C("df -h", 0, "100% /"), C("docker system prune -af", 0, "Total reclaimed space: 12GB"), remedy="docker system prune -af", error="no space left on device", noise=("df -h",)),
    fixed("migrations", "python manage.py runserver --noreload",
          "django.db.utils.OperationalError: no such table: shop_order",
          C("python manage.py migrate", 0, "Applying shop.0004... OK"), remedy="python manage.py migrate", error="no such table"),
    fixed("postgres role", "psql -d shop -c 'select 1'",
          'psql: error: connection to server on socket failed: FATAL:  database "shop" does not exist',
          C("createdb shop", 0), remedy="createdb shop", error="does not exist"),
    fixed("bundle install", "bundle exec rails test",
          "Could not find rack-3.0.8 in locally installed gems\nRun `bundle install` to install missing gems.",
          C("bundle install", 0, "Bundle complete!"), remedy="bundle install", error="Could not find rack"),
    fixed("composer dump", "php artisan list",
          "PHP Fatal error:  Uncaught Error: Class \"App\\Console\\Kernel\" not found in /srv/app/artisan:35",
          C("composer dump-autoload", 0, "Generated optimized autoload files"), remedy="composer dump-autoload", error="not found"),
    fixed("dotnet restore", "dotnet build --no-restore",
          "/src/Web/Web.csproj : error NETSDK1004: Assets file 'obj/project.assets.json' not found. Run a NuGet package restore to generate this file.",
          C("dotnet restore", 0, "Restored"), remedy="dotnet restore", error="NETSDK1004"),
    fixed("swift packages", "swift build",
          "error: the package manifest at '/Package.swift' cannot be accessed; dependencies are out of date",
          C("swift package resolve", 0, "Fetching"), remedy="swift package resolve", error="out of date"),
    fixed("conda environment", "python train.py",
          "Traceback (most recent call last):\n  File \"train.py\", line 1, in <module>\nImportError: libcudnn.so.9: cannot open shared object file",
          C("conda list | head", 0, "numpy"), C("conda install -y cudnn=9", 0, "done"), remedy="conda install -y cudnn=9", error="libcudnn.so.9", noise=("conda list",)),
    fixed("ssh key", "git fetch origin",
          "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
          C("ssh-add ~/.ssh/id_work", 0, "Identity added"), remedy="ssh-add ~/.ssh/id_work", error="publickey"),
    fixed("certificates", "curl -fsS https://intra.acme.org/health -o health.json",
          "curl: (60) SSL certificate problem: unable to get local issuer certificate",
          C("sudo update-ca-certificates", 0, "1 added"), remedy="sudo update-ca-certificates", error="SSL certificate problem"),
    fixed("locale", "perl build.pl",
          "perl: warning: Setting locale failed.\nperl: error: cannot set LC_ALL to de_DE.UTF-8",
          C("sudo locale-gen de_DE.UTF-8", 0, "Generation complete."), remedy="sudo locale-gen de_DE.UTF-8", error="locale"),
    fixed("config edit", "nginx -t",
          'nginx: [emerg] unknown directive "proxy_passs" in /etc/nginx/sites-enabled/app:12\nnginx: configuration file /etc/nginx/nginx.conf test failed',
          E("etc/nginx/sites-enabled/app", "proxy_pass http://127.0.0.1:9000;"), remedy="proxy_pass http", error="unknown directive"),
    fixed("cmake cache", "cmake --build build",
          "CMake Error: The source \"/home/me/app/CMakeLists.txt\" does not match the source \"/home/you/app/CMakeLists.txt\" used to generate cache.",
          C("rm -rf build", 0), C("cmake -S . -B build", 0, "Configuring done"), remedy="cmake -S . -B build", error="does not match the source"),
    ("env variable", Plain([
        U("start the worker"),
        C("python worker.py", 1, "Traceback (most recent call last):\n  File \"worker.py\", line 4, in <module>\n    url = os.environ['REDIS_URL']\nKeyError: 'REDIS_URL'"),
        C("cat worker.py", 0, "import os"),
        C("REDIS_URL=redis://localhost python worker.py", 0, "ready"),
    ], "REDIS_URL=redis://localhost", "KeyError", ("cat worker.py",))),
    ("one of several", Plain([
        U("get the API tests to run"),
        C("make api-test", 2, "ConnectionError: could not reach redis at localhost:6379\nmake: *** [api-test] Error 1"),
        C("docker compose up -d redis", 0, "Started"),
        C("make fixtures", 0, "loaded"),
        C("cat Makefile", 0, "api-test:"),
        C("make api-test", 0, "ok"),
    ], "docker compose up -d redis", "could not reach redis", ("cat Makefile",))),
))  # fmt: skip


NOTHING_SEEN = {
    "flaky": [U("run them"), C("npm test", 1, "TimeoutError: exceeded 5000 ms"), C("npm test", 0, "Tests: 4 passed, 4 total")],
    "flaky after a wait": [U("go"), C("mvn verify", 1, "java.net.SocketTimeoutException: Read timed out"), C("sleep 30", 0), C("mvn verify", 0, "BUILD SUCCESS")],
    "looked, then tried again": [
        U("build"), C("go build ./...", 1, "net/http: TLS handshake timeout"), C("git status", 0, "clean"), C("ls", 0, "go.mod"),
        C("cat go.mod", 0, "module x"), C("go build ./...", 0)],
    "reads only": [U("where is it?"), C("cat a", 1, "cat: a: No such file or directory"), C("ls", 0, "b"), C("cat b", 0, "x")],
    "grep finds nothing": [U("is it used?"), C("grep -rn foo src", 1, ""), A("No."), C("grep -rn foo tests", 0, "tests/a.py:1: foo")],
    "diff differs": [U("compare"), C("diff a b", 1, "1c1\n< a\n> b"), E("b", "a"), C("diff a b", 0)],
    "a test switched off": [
        U("make it green"), C("pytest tests/test_x.py", 1, "E       ValueError: bad\n=== 1 failed in 0.1s ==="),
        E("tests/test_x.py", "@pytest.mark.skip(reason='flaky')\ndef test_x(): ..."), C("pytest tests/test_x.py", 0, "=== 1 skipped in 0.1s ===")],
    "a test deleted": [
        U("make it green"), C("pytest", 1, "E       ValueError: bad\n=== 1 failed in 0.1s ==="),
        C("git rm tests/test_x.py", 0, "rm 'tests/test_x.py'"), C("pytest", 0, "=== 3 passed in 0.1s ===")],
    "a test removed by rm": [
        U("make it green"), C("npm test", 1, "TypeError: x is not a function\nTests: 1 failed, 3 passed, 4 total"),
        C("rm src/__tests__/x.test.ts", 0), C("npm test", 0, "Tests: 3 passed, 3 total")],
    "it shall fail": [
        U("check that blank names are refused"), C("./app add ''", 2, "error: name is blank"), A("As it should be."), C("./app add x", 0, "added")],
    "test first": [
        U("write the parser test first"), E("tests/test_parser.py", "def test_parse(): assert parse('a') == 1"),
        C("pytest tests/test_parser.py", 1, "E   NameError: name 'parse' is not defined\n=== 1 failed in 0.1s ==="),
        E("app/parser.py", "def parse(x): return 1"), C("pytest tests/test_parser.py", 0, "=== 1 passed in 0.1s ===")],
    "a typing mistake": [U("status"), C("gti push", 127, "bash: gti: command not found"), C("git push", 0, "ok")],
    "no verify": [U("commit"), C("git commit -m x", 1, "ruff....Failed\n- hook id: ruff\nerror: E501"), C("git commit --no-verify -m x", 0, "[main abc]")],
    "other paths": [U("run the scripts"), C("python scripts/a.py", 1, "ValueError: no data"), C("python scripts/b.py", 0, "ok")],
    "all is well": [U("build"), C("make", 0, "ok"), C("make test", 0, "ok"), A("All good.")],
    "nothing but talk": [U("what is a mutex?"), A("A lock."), U("thanks")],
    "waiting for it": [U("is it up?"), C("curl -sf localhost:8080", 7, "curl: (7) Failed to connect"), C("sleep 5", 0), C("curl -sf localhost:8080", 0, "ok")],
    "polling the rollout": [
        U("deploy"), C("kubectl rollout status deploy/web --timeout=10s", 1, "error: timed out waiting for the condition"),
        C("kubectl get pods", 0, "Running"), C("kubectl rollout status deploy/web --timeout=10s", 0, "successfully rolled out")],
    "a question about an exit code": [U("what does it return?"), C("./check.sh bad.json", 3, ""), A("It returns 3."), C("./check.sh good.json", 0, "")],
    "new work, not a fix": [
        U("Write me a command line tool"), E("tool.py", "print(1"), C("python tool.py", 1, "SyntaxError: '(' was never closed"),
        E("tool.py", "print(1)"), C("python tool.py", 0, "1")],
    "content user": [U("rename it"), E("a.py"), A("Renamed."), U("no worries, perfect")],
    "unrelated in between": [
        U("build, and write the notes"), C("cargo build", 101, "error: linking with `cc` failed: signal: 9 (SIGKILL: kill)"),
        E("NOTES.md", "# Notes"), C("cargo build", 0, "Finished")],
}  # fmt: skip
