"""Bearer tokens: what each opens, and that nothing falls open."""

import hashlib

import httpx2
import pytest
from tests.conftest import DAY
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, NONE, a_token, command, serving

from reasonbank.access import TokenStore
from reasonbank.errors import InvalidInput, NotFound, Unauthorized
from reasonbank.model import Right
from reasonbank.surfaces.operations import OPERATIONS


@pytest.fixture
def tokens(plain_bank):
    return TokenStore(plain_bank)


def made(tokens, **options):
    new = tokens.create(**{"scope": "write", **options})
    return new, new.token


# In the library


def test_a_token_tells_who_calls_and_how_far_they_reach(tokens, open_bank):
    project = str(open_bank.project("other"))
    token, secret = made(tokens, name="ci", workspaces=[project])
    caller, _ = tokens.caller(secret)
    assert (caller.name, caller.right) == ("ci", Right.WRITE)
    assert caller.workspaces == (hashlib.sha256(project.encode()).hexdigest()[:16],)
    assert secret.startswith(f"rbk_{token.id}_")


@requirement("SEC-4")
def test_a_secret_is_stored_nowhere(tokens, plain_bank, open_bank, tmp_path):
    _, secret = made(tokens)
    key = secret.rpartition("_")[2]
    with (tmp_path / "out.jsonl").open("w") as out:
        plain_bank.export(out)
    plain_bank.close()
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert key.encode() not in file.read_bytes()
    assert key not in str(TokenStore(open_bank()).list())


@pytest.mark.parametrize("change", [
    lambda secret: secret[:-1] + ("0" if secret[-1] != "0" else "1"),
    lambda secret: secret.upper(),
    lambda secret: secret[:-1],
    lambda secret: secret + "0",
    lambda secret: "rbk_" + "0" * 12 + secret[16:],
    lambda secret: "",
    lambda secret: secret.replace("rbk_", "rbk-"),
])  # fmt: skip
def test_a_wrong_secret_opens_nothing(tokens, change):
    _, secret = made(tokens)
    with pytest.raises(Unauthorized, match="not known"):
        tokens.caller(change(secret))


def test_an_expired_token_opens_nothing(tokens, clock):
    _, secret = made(tokens, expires_days=7)
    clock.advance(days=6.9)
    tokens.caller(secret)
    clock.advance(days=0.2)
    with pytest.raises(Unauthorized, match="expired"):
        tokens.caller(secret)
    assert tokens.list()[0].state == "expired"


def test_a_revoked_token_opens_nothing_and_is_remembered(tokens):
    token, secret = made(tokens)
    first = tokens.revoke(token.id)
    assert tokens.revoke(token.id) == first
    with pytest.raises(Unauthorized, match="revoked"):
        tokens.caller(secret)
    assert [each.state for each in tokens.list()] == ["revoked"]
    with pytest.raises(NotFound):
        tokens.revoke("nobody")


def test_tokens_outlive_a_rebuild_and_are_no_part_of_an_export(tokens, plain_bank, open_bank):
    import io

    _, secret = made(tokens)
    plain_bank.rebuild()
    assert tokens.caller(secret)
    out = io.StringIO()
    plain_bank.export(out)
    out.seek(0)
    other = open_bank("other")
    other.import_(out, trusted=True)
    assert TokenStore(other).list() == []


def test_use_is_noted_coarsely(tokens, clock):
    token, secret = made(tokens)
    assert tokens.used(token)
    tokens.note_use(token)
    _, token = tokens.caller(secret)
    clock.now += 1_000_000
    assert not tokens.used(token)
    clock.now += DAY
    assert tokens.used(token)


@pytest.mark.parametrize(("options", "field"), [
    ({"scope": "all"}, "scope"), ({"name": " "}, "name"), ({"name": "x" * 200}, "name"),
    ({"expires_days": 0}, "expires"), ({"workspaces": []}, "workspaces"),
    ({"workspaces": ["relative/path"]}, "workspace"),
])  # fmt: skip
def test_a_wrong_option_is_refused_by_name(tokens, options, field):
    with pytest.raises(InvalidInput) as caught:
        made(tokens, **options)
    assert caught.value.field == field
    assert tokens.list() == []


def test_two_valid_tokens_have_two_names(tokens):
    token, _ = made(tokens, name="ci")
    with pytest.raises(InvalidInput, match="taken"):
        made(tokens, name="ci")
    tokens.revoke(token.id)
    made(tokens, name="ci")


# In the command


def test_the_command_makes_lists_and_revokes(tmp_path):
    code, told = command(
        tmp_path, "token", "create", "--scope", "read", "--workspace", ".", "--expires", 3,
        "--name", "ci",
    )  # fmt: skip
    assert code == 0
    secret = told.pop("token")
    assert told["workspaces"] == [hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]]
    assert command(tmp_path, "token", "list") == (0, [told])
    assert command(tmp_path, "token", "revoke", told["id"])[1]["state"] == "revoked"
    assert command(tmp_path, "token", "revoke", "nobody")[0] == 3
    assert secret not in str(command(tmp_path, "token", "list"))


# At the door


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A server with a token for each scope, and one for workspace `a` only."""
    folder = tmp_path_factory.mktemp("locked")
    secrets = {scope: a_token(folder, scope, "--name", scope) for scope in Right}
    for name in "ab":
        (folder / name).mkdir()
    secrets["bound"] = a_token(folder, "admin", "--workspace", "a", "--name", "bound")
    secrets["two"] = a_token(folder, "write", "--workspace", "a", "--workspace", "b")
    with serving(folder) as server:
        yield server, secrets


def test_without_a_token_only_the_open_addresses_answer(locked):
    server, _ = locked
    for path in ("/livez", "/readyz", "/", "/openapi.json"):
        assert server.get(path, NONE).status_code == 200
    assert str(server.folder) not in server.get("/", NONE).text
    for method, path in [
        ("GET", "/api/v1/memories"), ("GET", "/api/v1/nothing"), ("GET", "/metrics"),
        ("POST", "/mcp"),
    ]:  # fmt: skip
        answer = httpx2.request(method, server.address + path)
        assert answer.status_code == 401, path
        assert answer.json()["error"] == "Unauthorized"
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("shown", [
    "Bearer nonsense", "Bearer rbk_000000000000_" + "0" * 64, "Basic dXNlcjpwYXNz", "Bearer", "",
])  # fmt: skip
def test_a_bad_token_is_refused(locked, shown):
    server, _ = locked
    answer = server.ask("GET", "/memories", headers={"Authorization": shown})
    assert (answer.status_code, answer.json()["error"]) == (401, "Unauthorized")


@requirement("HTTP-1")
@pytest.mark.parametrize("route", OPERATIONS, ids=lambda r: f"{r.method} {r.path}")
def test_every_route_needs_the_scope_that_it_names(locked, route):
    server, secrets = locked
    path = route.path.replace("{id}", "x").replace("{session}", "s")
    below = list(Right)[: list(Right).index(route.right)]
    for scope in below:
        answer = server.ask(route.method, path, secrets[scope])
        assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
    if route.name not in ("rebuild", "reindex", "maintain", "embed_new"):
        with server.client(secrets[route.right], workspace=server.folder / "a") as client:
            answer = client.request(route.method, path)
            assert answer.status_code not in (401, 500), answer.text


def test_what_is_written_is_signed_with_the_tokens_name(locked):
    server, secrets = locked
    with server.client(secrets["write"], workspace=server.folder / "a") as client:
        assert client.post("/memories", json=LESSON).json()["author"] == "write"
        forged = client.post("/memories", json={**LESSON, "author": "somebody"})
        assert (forged.status_code, forged.json()["field"]) == (400, "author")


@requirement("WSP-2")
def test_a_bound_token_never_reaches_another_workspace(locked):
    server, secrets = locked
    there = {"token": secrets["write"], "workspace": server.folder / "b"}
    memory = server.ask("POST", "/memories", json=LESSON, **there).json()
    with server.client(secrets["bound"]) as bound:
        mine = bound.post("/memories", json=LESSON).json()
        assert mine["workspace"] != memory["workspace"]
        for place in (server.folder / "b", memory["workspace"]):
            for header in ({"headers": {"X-ReasonBank-Workspace": str(place)}},
                           {"params": {"workspace": str(place)}}):  # fmt: skip
                answer = bound.get(f"/memories/{memory['id']}", **header)
                assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
        assert bound.get(f"/memories/{memory['id']}").status_code == 404
        assert {w["id"] for w in bound.get("/workspaces").json()} <= {mine["workspace"]}
        gone = bound.delete(f"/workspaces/{memory['workspace']}", params={"confirm": "true"})
        assert gone.status_code == 404
        for method, path, given in [
            ("GET", "/export", None), ("POST", "/import", None), ("POST", "/maintain", {}),
            ("POST", "/reindex", {}), ("POST", "/rebuild", {}), ("POST", "/embed", {}),
            ("GET", "/statistics?everywhere=true", None), ("GET", "/tokens", None),
            ("POST", "/tokens", {"scope": "admin"}), ("DELETE", "/tokens/x", None),
            ("POST", f"/workspaces/{mine['workspace']}/move", {"path": "/elsewhere"}),
        ]:  # fmt: skip
            answer = bound.request(method, path, json=given)
            assert answer.status_code == 403, (path, answer.text)
        assert "Retry" in bound.get("/export?only_here=true").text
    assert server.ask("GET", f"/memories/{memory['id']}", **there).status_code == 200


@requirement("SEC-6")
def test_where_the_bank_lies_is_told_to_who_looks_after_all_of_it(locked):
    server, secrets = locked
    for path in ("/health", "/about"):
        assert str(server.folder) in server.ask("GET", path, secrets["admin"]).text
        for token in (secrets["read"], secrets["bound"]):
            told = server.ask("GET", path, token)
            assert told.status_code == 200
            assert str(server.folder) not in told.text


def test_a_token_of_two_workspaces_must_say_which(locked):
    server, secrets = locked
    with server.client(secrets["two"]) as client:
        answer = client.post("/search", json={"query": "x"})
        assert (answer.status_code, answer.json()["field"]) == (400, "workspace")
        there = client.post("/search", json={"query": "x"}, params={
            "workspace": str(server.folder / "b")})  # fmt: skip
        assert there.status_code == 200


def test_tokens_are_managed_over_http_by_admins(locked):
    server, secrets = locked
    with server.client(secrets["admin"]) as admin:
        made = admin.post("/tokens", json={"scope": "read", "name": "guest", "expires_days": 1})
        assert made.status_code == 201
        told = made.json()
        secret = told.pop("token")
        assert told["created_by"] == "admin"
        with server.client(secret) as guest:
            assert guest.get("/memories").status_code == 200
            assert secret.rpartition("_")[2] not in admin.get("/tokens").text
            assert admin.delete(f"/tokens/{told['id']}").json()["state"] == "revoked"
            assert guest.get("/memories").status_code == 401


@requirement("SEC-1")
def test_a_token_that_an_agent_makes_is_the_agents_own_hand(locked):
    server, secrets = locked
    with server.client(secrets["admin"]) as admin:
        mine = admin.post("/memories", json={"content": "Retry with growing pauses."}).json()
        assert mine["standing"] == "untested"
        secret = admin.post("/tokens", json={"scope": "admin", "name": "friend"}).json()["token"]
    with server.client(secret) as friend:
        rated = f"/memories/{mine['id']}/feedback"
        assert friend.post(rated, json={"helpful": True}).json()["standing"] == "untested"
        more = friend.post("/tokens", json={"scope": "write", "name": "friend of a friend"}).json()
    with server.client(more["token"]) as another:
        assert another.post(rated, json={"helpful": True}).json()["standing"] == "untested"


def test_a_server_is_locked_before_the_first_token_and_after_the_last(tmp_path):
    with serving(tmp_path) as server, server.client(NONE) as client:
        assert client.get("/memories").status_code == 401
        secret = a_token(tmp_path, "admin")
        assert client.get("/memories").status_code == 401
        for revoked in (server.token, secret):
            id = revoked.split("_")[1]
            assert server.ask("DELETE", f"/tokens/{id}", secret).status_code == 200
            assert client.get("/memories").status_code == 401
            assert server.ask("GET", "/memories", revoked).status_code == 401
    with serving(tmp_path, "--no-auth") as server:
        assert server.token is None
        assert server.ask("GET", "/memories").status_code == 200
        assert server.ask("GET", "/memories", secret).status_code == 401


@requirement("HTTP-1")
def test_other_machines_are_let_in_with_a_token_only(tmp_path):
    code, told = command(tmp_path, "serve", "--port", 0, "--host", "0.0.0.0")
    assert code == 4
    assert "reasonbank token create" in told["message"]
    secret = a_token(tmp_path)
    code, told = command(tmp_path, "serve", "--port", 0, "--host", "0.0.0.0", "--no-auth")
    assert code == 4
    assert "--no-auth" in told["message"]
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        server.address = server.address.replace("0.0.0.0", "127.0.0.1")
        assert server.ask("GET", "/memories", NONE).status_code == 401
        assert server.ask("GET", "/memories", secret).status_code == 200
        for name in ("attacker.example", "0.0.0.0"):
            refused = server.get("/livez", headers={"Host": name})
            assert (refused.status_code, refused.json()["error"]) == (421, "Misdirected")


@requirement("SEC-5")
def test_who_made_and_revoked_a_token_is_on_record(plain_bank):
    tokens = TokenStore(plain_bank)
    made = tokens.create(scope="read", name="ci", by=plain_bank.seen_by(author="ada"))
    tokens.revoke(made.id, by=plain_bank.seen_by(author="bob", surface="http"))
    found = [(c.what, c.subject, c.author, c.surface) for c in plain_bank.audit(limit=2)]
    assert found == [("token.revoked", made.id, "bob", "http"),
                     ("token.created", made.id, "ada", "library")]  # fmt: skip
    assert made.token not in str(plain_bank.audit())
