"""Sessions as coding agents have them, each labelled with the lessons that are in it.

A label is the rule and a text that the lesson must contain. ``FIRST`` and ``SECOND`` were looked
at while the rules were written (on ``SECOND``, before that: precision 0.83, coverage 0.53).
``HELD_BACK`` was written afterwards, and no rule was changed for it.
"""

from tests.learn.transcript_writers import A, C, E, U

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/home/me/app/{file}", line 12, in run\n    x\n'
)
RESOLVE = ("npm ERR! code ERESOLVE\nnpm ERR! ERESOLVE unable to resolve dependency tree\n"
           "npm ERR! Found: react@18.2.0\n")  # fmt: skip
MANAGED = "error: externally-managed-environment\n\n× This environment is externally managed\n"


def pytest_failure(error, test="tests/test_app.py::test_total"):
    return (f"=== FAILURES ===\nE       {error}\n\napp/core.py:31: Error\n"
            f"=== short test summary info ===\nFAILED {test}\n=== 1 failed, 11 passed in 0.52s ===")  # fmt: skip


PASSED = "============ 12 passed in 0.48s ============"

FIRST = {
    # Lessons
    "npm peer dependencies": ([
        U("Install the dependencies and start the app"),
        C("npm install", 1, RESOLVE),
        A("A peer dependency conflict."),
        C("npm install --legacy-peer-deps", 0, "added 812 packages in 9s"),
        C("npm run build", 0, "done"),
    ], [("replaced", "--legacy-peer-deps")]),
    "managed environment": ([
        U("add requests"),
        C("pip install requests", 1, MANAGED),
        C("python3 -m venv .venv", 0),
        C(".venv/bin/pip install requests", 0, "Successfully installed requests-2.31.0"),
    ], [("prepared", "python3 -m venv .venv")]),
    "break system packages": ([
        U("add requests"),
        C("pip install requests", 1, MANAGED),
        C("pip install --break-system-packages requests", 0, "Successfully installed requests"),
    ], [("replaced", "--break-system-packages")]),
    "missing module": ([
        U("run the tests"),
        C("pytest -q", 2, TRACEBACK.format(file="conftest.py")
          + "ModuleNotFoundError: No module named 'yaml'"),
        C("pip install pyyaml", 0, "Successfully installed pyyaml-6.0"),
        C("pytest -q", 0, PASSED),
    ], [("prepared", "pip install pyyaml")]),
    "database not started": ([
        U("Why do the integration tests fail?"),
        C("make integration", 2, "psycopg2.OperationalError: connection to server at \"localhost\" "
          "(127.0.0.1), port 5432 failed: Connection refused\nmake: *** [integration] Error 1"),
        C("docker compose ps", 0, "NAME  STATUS"),
        C("docker compose up -d db", 0, "Started"),
        C("make integration", 0, "ok"),
    ], [("prepared", "docker compose up -d db")]),
    "type error fixed": ([
        U("Fix the failing total"),
        C("pytest tests/test_app.py", 1, pytest_failure(
            "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'")),
        C("cat app/core.py", 0, "def total(...)"),
        E("app/core.py", "return sum(item.price or 0 for item in items)"),
        C("pytest tests/test_app.py", 0, PASSED),
    ], [("edited", "item.price or 0")]),
    "rust types": ([
        U("Make it compile"),
        C("cargo build", 101, "error[E0502]: cannot borrow `self.items` as mutable because it is also "
          "borrowed as immutable\n  --> src/store.rs:41:9\nerror: could not compile `store`"),
        E("src/store.rs", "let ids: Vec<_> = self.items.keys().cloned().collect();"),
        C("cargo build", 0, "Finished dev"),
    ], [("edited", "E0502")]),
    "typescript": ([
        U("Add the date filter"),
        E("src/filter.ts", "export const since = (d: Date) => d;"),
        C("npx tsc --noEmit", 2, "src/filter.ts(14,5): error TS2322: Type 'string | undefined' is not "
          "assignable to type 'string'."),
        E("src/filter.ts", "const value = params.get('since') ?? '';"),
        C("npx tsc --noEmit", 0),
    ], [("edited", "TS2322")]),
    "piped test output": ([
        U("Fix the parser"),
        C("cd /home/me/app && pytest tests/test_parser.py 2>&1 | tail -30", 0,
          pytest_failure("KeyError: 'offset'", "tests/test_parser.py::test_page")),
        E("app/parser.py", "offset = query.get('offset', 0)"),
        C("cd /home/me/app && pytest tests/test_parser.py 2>&1 | tail -30", 0, PASSED),
    ], [("edited", "KeyError")]),
    "push without upstream": ([
        U("push it"),
        C("git push", 128, "fatal: The current branch feature has no upstream branch."),
        C("git push --set-upstream origin feature", 0, "branch 'feature' set up to track"),
    ], [("replaced", "--set-upstream")]),
    "memory of node": ([
        U("build the front end"),
        C("npm run build", 134, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap "
          "out of memory\nRangeError: heap out of memory"),
        C("NODE_OPTIONS=--max-old-space-size=8192 npm run build", 0, "built in 61s"),
    ], [("replaced", "max-old-space-size")]),
    "needs uv": ([
        U("run the tests"),
        C("pytest", 127, "bash: line 1: pytest: command not found"),
        C("uv run pytest", 0, PASSED),
    ], [("replaced", "uv run pytest")]),
    "user wants pnpm": ([
        U("add zod"),
        C("npm install zod", 0, "added 1 package"),
        A("Added zod with npm."),
        U("No, we use pnpm in this repo. Never run npm install here."),
        C("pnpm add zod", 0, "done"),
    ], [("correction", "pnpm")]),
    "user wants no mocks": ([
        U("write a test for the mailer"),
        E("tests/test_mailer.py", "with mock.patch('smtplib.SMTP'):"),
        A("I added a test with a mocked SMTP."),
        U("don't mock smtplib, use the aiosmtpd server fixture instead"),
        E("tests/test_mailer.py", "def test_mail(smtp_server):"),
    ], [("correction", "aiosmtpd")]),
    "user corrects the place": ([
        U("Add a helper that slugs titles"),
        E("app/utils.py", "def slug(title): ..."),
        A("Done: app/utils.py has slug()."),
        U("That's not where it goes. Text helpers belong in app/text.py, please move it."),
        E("app/text.py", "def slug(title): ..."),
    ], [("correction", "app/text.py")]),
    "kept failing": ([
        U("make the e2e tests pass"),
        C("npx playwright test", 1, "TimeoutError: page.click: Timeout 30000ms exceeded."),
        E("e2e/login.spec.ts", "await page.waitForTimeout(1000)"),
        C("npx playwright test", 1, "TimeoutError: page.click: Timeout 30000ms exceeded."),
        E("e2e/login.spec.ts", "await page.waitForTimeout(5000)"),
        C("npx playwright test", 1, "TimeoutError: page.click: Timeout 30000ms exceeded."),
        A("The tests still time out; I could not find out why."),
    ], [("stubborn", "TimeoutError")]),
    "kept failing to deploy": ([
        U("deploy to staging"),
        C("terraform apply -auto-approve", 1, "Error: Error acquiring the state lock"),
        C("terraform apply -auto-approve", 1, "Error: Error acquiring the state lock"),
        C("sleep 60", 0),
        C("terraform apply -auto-approve", 1, "Error: Error acquiring the state lock"),
        A("Somebody else holds the lock."),
    ], [("stubborn", "state lock")]),
    "two lessons": ([
        U("set up the project"),
        C("npm ci", 1, RESOLVE),
        C("npm ci --legacy-peer-deps", 0, "added"),
        C("npm test", 1, "Error: Cannot find module 'better-sqlite3'"),
        C("npm rebuild better-sqlite3 --build-from-source", 0, "rebuilt"),
        C("npm install better-sqlite3 --legacy-peer-deps", 0, "added 1"),
        C("npm test", 0, "Tests:       40 passed, 40 total"),
    ], [("replaced", "npm ci --legacy-peer-deps"), ("prepared", "better-sqlite3")]),
    "migration first": ([
        U("run the server tests"),
        C("python manage.py test", 1, TRACEBACK.format(file="db.py")
          + "django.db.utils.OperationalError: no such table: shop_order"),
        C("python manage.py migrate", 0, "Applying shop.0007... OK"),
        C("python manage.py test", 0, "Ran 31 tests in 2.1s\n\nOK"),
    ], [("prepared", "manage.py migrate")]),
    # Nothing
    "all went well": ([
        U("bump the version"),
        E("pyproject.toml", 'version = "1.2.0"'),
        C("pytest -q", 0, PASSED),
        C("git commit -am 'Bump'", 0, "1 file changed"),
    ], []),
    "flaky": ([
        U("run the tests"),
        C("pytest -q", 1, pytest_failure("TimeoutError: deadline")),
        C("pytest -q", 0, PASSED),
    ], []),
    "grep finds nothing": ([
        U("where is the cache?"),
        C("grep -rn Cache app", 1), C("grep -rn cache app", 0, "app/c.py:3:cache = {}"),
        C("ls cache", 2, "ls: cannot access 'cache': No such file or directory"),
        C("ls app/cache", 0, "x.py"),
    ], []),
    "typing mistake": ([
        U("status"),
        C("gti push", 127, "bash: gti: command not found"), C("git push", 0, "Everything up-to-date"),
    ], []),
    "test first": ([
        U("Add a median function, test first"),
        E("tests/test_stats.py", "def test_median(): assert median([1, 2, 3]) == 2"),
        C("pytest tests/test_stats.py", 1, TRACEBACK.format(file="tests/test_stats.py")
          + "ImportError: cannot import name 'median' from 'app.stats'"),
        E("app/stats.py", "def median(values): ..."),
        C("pytest tests/test_stats.py", 0, PASSED),
    ], []),
    "hook skipped": ([
        U("commit"),
        C("git commit -m 'wip'", 1, "ruff....Failed\nerror: hook failed"),
        C("git commit -m 'wip' --no-verify", 0, "1 file changed"),
    ], []),
    "failing tests deselected": ([
        U("run tests"),
        C("pytest", 1, pytest_failure("ValueError: bad")),
        C("pytest -k 'not total'", 0, PASSED),
    ], []),
    "another file": ([
        U("run the scripts"),
        C("python scripts/a.py", 1, TRACEBACK.format(file="a.py") + "ValueError: no data"),
        C("python scripts/b.py", 0, "ok"),
    ], []),
    "user is content": ([
        U("rename it"),
        E("app/a.py"),
        A("Renamed."),
        U("no problem, looks good. thanks!"),
    ], []),
    "user asks on": ([
        U("add a login page"),
        E("app/login.py"),
        A("Added."),
        U("Now add a logout button. It should be red and use the existing icon."),
        E("app/logout.py"),
    ], []),
    "user declines thanks": ([
        U("fix the readme"), E("README.md"), A("Fixed. Shall I also fix the changelog?"),
        U("No thanks, that's all."),
    ], []),
    "user interrupts": ([
        U("start the server"),
        C("npm start", None, ""),
        U("ok continue with the tests"),
        C("npm test", 0, "Tests:       4 passed, 4 total"),
    ], []),
    "two failures only": ([
        U("make lint pass"),
        C("ruff check .", 1, "app/a.py:1:1: F401 `os` imported but unused\nFound 1 error."),
        C("ruff check .", 1, "app/a.py:1:1: F401 `os` imported but unused\nFound 1 error."),
    ], []),
    "failures of different checks": ([
        U("check everything"),
        C("ruff check .", 1, "app/a.py:1:1: F401 unused\nFound 1 error."),
        C("mypy", 1, "app/a.py:3: error: Incompatible types  [assignment]\nFound 1 error"),
        C("pytest", 1, pytest_failure("ValueError: bad")),
        A("Three things to fix; where shall I begin?"),
    ], []),
    "nothing to name": ([
        U("run it"),
        C("./run.sh", 1, ""), E("run.sh", "set -e"), C("./run.sh", 0, ""),
    ], []),
    "looking for a file": ([
        U("show me the config"),
        C("cat config.yml", 1, "cat: config.yml: No such file or directory"),
        C("find . -name 'config*'", 0, "./etc/config.yaml"),
        C("cat etc/config.yaml", 0, "a: 1"),
    ], []),
    "verbose run": ([
        U("why does it fail?"),
        C("pytest tests/test_a.py", 1, pytest_failure("ValueError: bad")),
        C("pytest tests/test_a.py -vv --tb=long", 1, pytest_failure("ValueError: bad")),
        A("The value is bad because the fixture is."),
    ], []),
    "question as answer": ([
        U("which port?"), C("cat app.yml", 0, "port: 80"), A("Port 80."),
        U("No way! Why would we use port 80?"),
    ], []),
    "only talk": ([
        U("What is a monad?"), A("A monoid in the category of endofunctors."), U("I see, thanks."),
    ], []),
    "forced push": ([
        U("push"),
        C("git push", 1, " ! [rejected]        main -> main (non-fast-forward)\nerror: failed to push"),
        C("git push --force", 0, "forced update"),
    ], []),
}  # fmt: skip

SECOND = {
    # Lessons
    "go race": ([
        U("The cache test fails sometimes, fix it"),
        C("go test -race ./cache/...", 1, "WARNING: DATA RACE\n--- FAIL: TestCache (0.01s)\n"
          "    testing.go:1399: race detected during execution of test\nFAIL\tapp/cache\t0.031s"),
        E("cache/cache.go", "mu sync.RWMutex"),
        C("go test -race ./cache/...", 0, "ok  \tapp/cache\t0.029s"),
    ], [("edited", "RWMutex")]),
    "java release": ([
        U("build it"),
        C("mvn package", 1, "[ERROR] COMPILATION ERROR :\n[ERROR] error: invalid target release: 21\n"
          "BUILD FAILURE"),
        C("JAVA_HOME=/usr/lib/jvm/java-21 mvn package", 0, "BUILD SUCCESS"),
    ], [("replaced", "JAVA_HOME")]),
    "docker platform": ([
        U("run the image"),
        C("docker run acme/worker:1.2", 125, "docker: Error response from daemon: no matching manifest "
          "for linux/arm64/v8 in the manifest list entries."),
        C("docker run --platform linux/amd64 acme/worker:1.2", 0, "worker ready"),
    ], [("replaced", "--platform linux/amd64")]),
    "bundler": ([
        U("run rspec"),
        C("rspec spec/models", 1, "LoadError: cannot load such file -- factory_bot"),
        C("bundle exec rspec spec/models", 0, "12 examples, 0 failures"),
    ], [("replaced", "bundle exec rspec")]),
    "submodule": ([
        U("build the library"),
        C("cmake --build build", 2, "fatal error: third_party/fmt/core.h: No such file or directory\n"
          "make: *** [all] Error 2"),
        C("git submodule update --init --recursive", 0, "Submodule path 'third_party/fmt': checked out"),
        C("cmake --build build", 0, "[100%] Built target app"),
    ], [("prepared", "git submodule update")]),
    "generated code": ([
        U("type-check"),
        C("npx tsc -p .", 2, "src/api.ts:3:22 - error TS2307: Cannot find module './gen/client'"),
        C("npm run codegen", 0, "generated 14 files"),
        C("npx tsc -p .", 0),
    ], [("prepared", "npm run codegen")]),
    "edited with sed": ([
        U("fix the lint"),
        C("mypy app", 1, "app/io.py:8: error: Missing return statement  [return]\n"
          "Found 1 error in 1 file"),
        C("sed -i 's/pass/return None/' app/io.py", 0),
        C("mypy app", 0, "Success: no issues found in 12 source files"),
    ], [("edited", "Missing return statement")]),
    "second error is the one": ([
        U("make the migration work"),
        C("alembic upgrade head", 1, "sqlalchemy.exc.ProgrammingError: relation \"users\" does not exist"),
        E("migrations/0003.py", "op.create_table('users')"),
        C("alembic upgrade head", 1, "sqlalchemy.exc.IntegrityError: column \"email\" contains null values"),
        E("migrations/0003.py", "op.add_column('users', Column('email', server_default=''))"),
        C("alembic upgrade head", 0, "Running upgrade 0002 -> 0003"),
    ], [("edited", "IntegrityError")]),
    "chained command": ([
        U("build and test"),
        C("cd web && npm ci && npm test", 1, "npm error code EUSAGE\nnpm error `npm ci` can only install "
          "packages when your package.json and package-lock.json are in sync."),
        C("cd web && npm install && npm test", 0, "Tests:       8 passed, 8 total"),
    ], [("replaced", "npm install")]),
    "fixture scope": ([
        U("tests are slow, make the db fixture session scoped"),
        E("tests/conftest.py", "@pytest.fixture(scope='session')\ndef db(tmp_path): ..."),
        C("pytest -x", 1, "ScopeMismatch: You tried to access the function scoped fixture tmp_path with a "
          "session scoped request object\n=== 1 error in 0.10s ==="),
        E("tests/conftest.py", "def db(tmp_path_factory): ..."),
        C("pytest -x", 0, "=== 40 passed in 3.10s ==="),
    ], [("edited", "tmp_path_factory")]),
    "correction about style": ([
        U("Refactor the handler"), E("app/handler.py", "class HandlerManager: ..."),
        A("I introduced a HandlerManager."),
        U("please don't add Manager classes. Plain functions only in this code base."),
    ], [("correction", "Manager")]),
    "correction: wrong branch": ([
        U("open a PR"), C("git push origin HEAD:main", 0, "pushed"), A("Pushed to main."),
        U("NO! Never push to main directly. Always go through a pull request."),
    ], [("correction", "pull request")]),
    "correction: you should": ([
        U("add an endpoint"), E("api/orders.py", "@app.post('/order')"), A("Done."),
        U("You should use plural nouns for routes, e.g. /orders, like the rest of the API."),
    ], [("correction", "plural")]),
    "correction: wrong tool": ([
        U("format the code"), C("black .", 0, "reformatted 80 files"), A("Formatted with black."),
        U("ugh, we format with ruff, not black. undo this"),
    ], [("correction", "ruff")]),
    "correction in the middle": ([
        U("deploy"), C("kubectl apply -f k8s/", 0, "configured"), A("Applied to the current context."),
        U("Wrong cluster. Use --context staging for anything that isn't a release."),
        C("kubectl --context staging apply -f k8s/", 0, "configured"),
    ], [("correction", "--context staging")]),
    "stubborn compile": ([
        U("port it to the new API"),
        C("make", 2, "src/gl.c:88:5: error: implicit declaration of function 'glewInit'\nmake: *** [gl.o]"),
        E("src/gl.c", "#include <GL/glew.h>"),
        C("make", 2, "src/gl.c:88:5: error: implicit declaration of function 'glewInit'\nmake: *** [gl.o]"),
        E("Makefile", "LDFLAGS += -lGLEW"),
        C("make", 2, "src/gl.c:88:5: error: implicit declaration of function 'glewInit'\nmake: *** [gl.o]"),
        C("git stash", 0, "Saved working directory"),
        A("I could not port it."),
    ], [("stubborn", "glewInit")]),
    "permission by sudo": ([
        U("restart nginx"),
        C("systemctl restart nginx", 1, "Failed to restart nginx.service: Permission denied"),
        C("sudo systemctl restart nginx", 0),
    ], [("replaced", "sudo systemctl")]),
    "python version": ([
        U("run the tool"),
        C("python tool.py --in a.csv", 1, '  File "tool.py", line 9\n    match kind:\n          ^\n'
          "SyntaxError: invalid syntax"),
        C("python3.12 tool.py --in a.csv", 0, "written"),
    ], [("replaced", "python3.12")]),
    "helm namespace": ([
        U("upgrade the release"),
        C("helm upgrade web ./chart", 1, 'Error: UPGRADE FAILED: "web" has no deployed releases'),
        C("helm upgrade web ./chart --install --namespace prod", 0, "deployed"),
    ], [("replaced", "--install")]),
    # Nothing
    "retry after outage": ([
        U("install"),
        C("pip install -r requirements.txt", 1, "ERROR: Could not find a version that satisfies the "
          "requirement foo (from versions: none)"),
        C("pip install -r requirements.txt", 0, "Successfully installed foo"),
    ], []),
    "curl until up": ([
        U("is it up?"),
        C("curl -sf localhost:8080/health", 7, "curl: (7) Failed to connect: Connection refused"),
        C("sleep 5", 0), C("curl -sf localhost:8080/health", 0, "ok"),
    ], []),
    "reproduction script": ([
        U("reproduce the bug"),
        E("repro.py", "from app import load; load('bad.json')"),
        C("python repro.py", 1, TRACEBACK.format(file="repro.py") + "ValueError: bad header"),
        A("Reproduced: the header is not checked."),
    ], []),
    "feature grows": ([
        U("Write a tokenizer with tests"),
        E("tests/test_tok.py", "def test_words(): ..."), E("app/tok.py", "def words(): ..."),
        C("pytest tests/test_tok.py", 1, pytest_failure("AssertionError: assert [] == ['a']")),
        E("app/tok.py", "def words(text): return text.split()"),
        C("pytest tests/test_tok.py", 0, PASSED),
    ], []),
    "wrong arguments tried": ([
        U("list the pods"),
        C("kubectl get pod -n shop", 1, "Error from server (NotFound): namespaces \"shop\" not found"),
        C("kubectl get ns", 0, "store"), C("kubectl get pod -n store", 0, "web-1 Running"),
    ], []),
    "narrower run": ([
        U("run tests"),
        C("npm test", 1, "Tests:       1 failed, 7 passed, 8 total\nTypeError: x is not a function"),
        C("npm test -- src/a.test.ts", 0, "Tests:       2 passed, 2 total"),
        A("a.test.ts passes; another one fails."),
    ], []),
    "praise that begins with no": ([
        U("speed it up"), E("app/x.py"), A("It is 3x faster now."),
        U("No way, that's amazing! You should be proud."),
    ], []),
    "new requirement": ([
        U("export to CSV"), E("app/export.py"), A("Done."),
        U("Actually, can you also support JSON? It should stream."),
    ], []),
    "answering a question": ([
        U("Clean up"), A("Shall I delete the old branch too?"), U("no, keep it"),
        C("git branch", 0, "main"),
    ], []),
    "user explains": ([
        U("why is CI red?"), C("gh run view 12", 0, "failed"), A("The runner ran out of disk."),
        U("I think we use the small runners. Can you find out who changed it?"),
    ], []),
    "background server": ([
        U("start it"),
        C("npm run dev &", 0, ""), C("curl localhost:3000", 7, "curl: (7) Failed to connect"),
        C("curl localhost:3000", 0, "<html>"),
    ], []),
    "clean build": ([
        U("build"),
        C("make", 2, "undefined reference to `foo'\nmake: *** [app] Error 1"),
        C("make clean", 0), C("make", 0, "cc -o app"),
    ], [("prepared", "make clean")]),
    "kill the port": ([
        U("start the server"),
        C("python server.py", 1, "OSError: [Errno 98] Address already in use"),
        C("lsof -i :8000", 0, "python 4242"), C("kill 4242", 0),
        C("python server.py", 0, "listening"),
    ], [("prepared", "kill <pid>")]),
    "docs only": ([
        U("fix the docs build"),
        C("mkdocs build", 0, "INFO - Documentation built"), E("docs/index.md"), C("mkdocs build", 0),
    ], []),
    "stopped half-way": ([
        U("fix it"),
        C("pytest", 1, pytest_failure("ValueError: bad")), E("app/a.py"), C("pytest", None),
        U("let's stop for today"),
    ], []),
    "progress, not stubbornness": ([
        U("port to python 3"),
        C("python app.py", 1, TRACEBACK.format(file="app.py") + "SyntaxError: Missing parentheses"),
        E("app.py"),
        C("python app.py", 1, TRACEBACK.format(file="app.py") + "NameError: name 'unicode' is not defined"),
        E("app.py"),
        C("python app.py", 1, TRACEBACK.format(file="app.py") + "TypeError: a bytes-like object is required"),
        A("Three more to go."),
    ], []),
}  # fmt: skip

HELD_BACK = {
    # Lessons
    "wheel needs a header": ([
        U("get the scripts running"),
        C("pip install -r requirements.txt", 1, "  error: command 'gcc' failed\n  fatal error: "
          "libpq-fe.h: No such file or directory\nERROR: Failed building wheel for psycopg2"),
        C("sudo apt-get install -y libpq-dev", 0, "Setting up libpq-dev"),
        C("pip install -r requirements.txt", 0, "Successfully installed psycopg2-2.9.9"),
    ], [("prepared", "libpq-dev")]),
    "corepack": ([
        U("install the workspace"),
        C("pnpm install", 1, " ERR_PNPM_UNSUPPORTED_ENGINE  Unsupported environment (bad pnpm and/or Node)"),
        C("corepack prepare pnpm@9.1.0 --activate", 0, "Preparing pnpm@9.1.0"),
        C("pnpm install", 0, "Done in 12s"),
    ], [("prepared", "corepack")]),
    "tests need a variable": ([
        U("Run the storage tests."),
        C("go test ./storage/...", 1, "panic: STORAGE_BUCKET is not set\nFAIL\tapp/storage\t0.01s"),
        C("STORAGE_BUCKET=test go test ./storage/...", 0, "ok  \tapp/storage\t0.2s"),
    ], [("replaced", "STORAGE_BUCKET=test")]),
    "c++ standard": ([
        U("compile the example"),
        C("g++ main.cpp -o main", 1, "main.cpp:4:10: error: 'optional' is not a member of 'std'"),
        C("g++ -std=c++17 main.cpp -o main", 0),
    ], [("replaced", "-std=c++17")]),
    "django setting": ([
        U("The admin page crashes, fix it"),
        C("python manage.py check", 1, "SystemCheckError: System check identified some issues:\n"
          "(admin.E403) A 'django.template.backends.django.DjangoTemplates' instance must be configured"),
        C("sed -n 1,80p config/settings.py", 0, "TEMPLATES = []"),
        E("config/settings.py", "TEMPLATES = [{'BACKEND': 'django.template.backends.django.DjangoTemplates'}]"),
        C("python manage.py check", 0, "System check identified no issues (0 silenced)."),
    ], [("edited", "DjangoTemplates")]),
    "eslint rule": ([
        U("lint must pass"),
        C("npm run lint", 1, "/home/me/app/src/a.tsx\n  12:5  error  React Hook useEffect has a missing "
          "dependency: 'load'  react-hooks/exhaustive-deps\n\n✖ 1 problem (1 error, 0 warnings)"),
        E("src/a.tsx", "useEffect(() => { load() }, [load])"),
        C("npm run lint", 0, ""),
    ], [("edited", "exhaustive-deps")]),
    "swift test after two tries": ([
        U("the decoder test is red"),
        C("swift test --filter DecoderTests", 1, "Fatal error: Index out of range\nerror: Exited with signal 4"),
        E("Sources/Decoder.swift", "guard i < bytes.count else { return nil }"),
        C("swift test --filter DecoderTests", 1, "Fatal error: Index out of range\nerror: Exited with signal 4"),
        E("Sources/Decoder.swift", "guard i + length <= bytes.count else { return nil }"),
        C("swift test --filter DecoderTests", 0, "Executed 6 tests, with 0 failures"),
    ], [("edited", "i + length")]),
    "correction of language": ([
        U("write the release notes"), E("NEWS.md", "Neue Funktionen"), A("Geschrieben."),
        U("nope, release notes are always in English"),
    ], [("correction", "English")]),
    "correction of a dependency": ([
        U("parse the dates"), C("pip install dateparser", 0, "ok"), E("app/dates.py", "import dateparser"),
        A("I used dateparser."),
        U("Please do not add dependencies without asking. datetime.fromisoformat is enough here."),
    ], [("correction", "dependencies")]),
    "correction with a reason": ([
        U("make it faster"), E("app/db.py", "SELECT * FROM orders"), A("I load everything at once."),
        U("That's wrong, the table has 80 million rows. You must paginate with keyset, not offset."),
    ], [("correction", "keyset")]),
    "correction of a command": ([
        U("update the snapshot tests"), C("npx jest -u", 0, "12 snapshots updated"), A("Updated."),
        U("I told you: run `make snapshots`, it also updates the mobile ones"),
    ], [("correction", "make snapshots")]),
    "login expired": ([
        U("push the image"),
        C("docker push registry.acme.org/web:12", 1, "denied: requested access to the resource is denied\n"
          "unauthorized: authentication required"),
        C("docker login registry.acme.org", 0, "Login Succeeded"),
        C("docker push registry.acme.org/web:12", 0, "12: digest: sha256:abc"),
    ], [("prepared", "docker login")]),
    "never got it to link": ([
        U("link against the new sdk"),
        C("make app", 2, "ld: library not found for -lfoo\nclang: error: linker command failed\nmake: *** [app]"),
        E("Makefile", "LDFLAGS += -L/opt/foo"),
        C("make app", 2, "ld: library not found for -lfoo\nclang: error: linker command failed\nmake: *** [app]"),
        C("find / -name 'libfoo*'", 0, ""),
        E("Makefile", "LDFLAGS += -L/usr/local/foo"),
        C("make app", 2, "ld: library not found for -lfoo\nclang: error: linker command failed\nmake: *** [app]"),
        A("The SDK does not seem to be installed."),
    ], [("stubborn", "make app")]),
    "wrong shell": ([
        U("run the setup"),
        C("sh setup.sh", 2, "setup.sh: 3: Syntax error: \"(\" unexpected"),
        C("bash setup.sh", 0, "done"),
    ], [("replaced", "bash setup.sh")]),
    # Nothing
    "rename and run": ([
        U("rename the module"), C("git mv a.py b.py", 0), E("main.py", "import b"), C("python main.py", 0),
    ], []),
    "wrong path, right path": ([
        U("run the seed"),
        C("python seed.py", 2, "python: can't open file '/home/me/app/seed.py': [Errno 2] No such file or directory"),
        C("python scripts/seed.py", 0, "seeded"),
    ], []),
    "a guess at a flag": ([
        U("show the coverage"),
        C("pytest --coverage", 4, "pytest: error: unrecognized arguments: --coverage"),
        C("pytest --help", 0, "usage"), A("There is no coverage plugin."),
    ], []),
    "merge conflict": ([
        U("merge main"),
        C("git merge main", 1, "CONFLICT (content): Merge conflict in app/a.py\nAutomatic merge failed"),
        E("app/a.py", "resolved"), C("git add -A && git commit --no-edit", 0, "merged"),
    ], []),
    "expected failure shown": ([
        U("Does the validation reject blank names?"),
        C("python -m app.cli add ''", 2, "error: name is blank"), A("Yes, exit code 2."),
        C("python -m app.cli add 'x'", 0, "added"),
    ], []),
    "work in progress": ([
        U("Implement the new scheduler"),
        E("app/scheduler.py", "class Scheduler: ..."),
        C("python -c 'import app.scheduler'", 1, "SyntaxError: invalid syntax"),
        E("app/scheduler.py", "class Scheduler:\n    pass"),
        C("python -c 'import app.scheduler'", 0), C("pytest", 0, PASSED),
    ], []),
    "a slow service": ([
        U("wait for the database"),
        C("pg_isready -h db", 2, "db:5432 - no response"), C("sleep 3", 0), C("pg_isready -h db", 0, "accepting"),
    ], []),
    "user changes their mind": ([
        U("make the button blue"), E("a.css", "color: blue"), A("Blue."),
        U("Actually, let's try green and see how it looks"),
    ], []),
    "user answers no": ([
        U("clean up the branch"), A("Should I squash the commits?"),
        U("No. Just rebase onto main and push."), C("git rebase main", 0),
    ], []),
    "user gives a hint": ([
        U("why is it slow?"), C("python -m cProfile app.py", 0, "..."), A("JSON parsing dominates."),
        U("interesting! maybe we should cache it. what would that take?"),
    ], []),
    "a warning in a passing build": ([
        U("build"), C("npm run build", 0, "warning: error handling is deprecated"), C("npm run build", 0),
    ], []),
    "checks at first red": ([
        U("Add a field to the form"),
        E("forms.py", "email = Email()"), E("tests/test_forms.py", "assert 'email' in form"),
        C("pytest tests/test_forms.py", 1, pytest_failure("NameError: name 'Email' is not defined")),
        E("forms.py", "from fields import Email"),
        C("pytest tests/test_forms.py", 0, PASSED),
    ], []),
}  # fmt: skip

SESSIONS = {"first": FIRST, "second": SECOND, "held back": HELD_BACK}
