"""Secrets are taken out before anything is stored."""

import io
import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement
from tests.safety.secrets_made_up import FORMATS, SECRET, made_up, samples

from reasonbank import Bank, InvalidInput, Settings, Step
from reasonbank.model import texts
from reasonbank.safety.scrub import KINDS, clean, clean_json, clean_memory, clean_trace, scrub
from reasonbank.settings import Embed
from reasonbank.testing import a_memory, a_trace, a_warning

UNSCRUBBED = Settings(embed=Embed(model="hashed"), scrub=False)

HARMLESS = """
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
index 83db48f..bf2a3c1 100644
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
d41d8cd98f00b204e9800998ecf8427e  empty.txt
id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 was not found
integrity sha512-z7fMNHKz3RrlGkTL2bwT0WqTkO1pSNB3gq4bqZ8Y3X8mN0dQx2M5FjMm1nG6gU0ZbUq8==
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@host
-----BEGIN PUBLIC KEY-----
model gpt-4o-mini-2024-07-18 or claude-sonnet-4-5-20250929
OPENAI_API_KEY=<YOUR_KEY>
OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
token: $TOKEN
password=${DB_PASSWORD}
password: {{ vault_db_password }}
password = os.environ["DB_PASSWORD"]
api_key=os.getenv("API_KEY_2")
token = response.json()["access_token"]
secret: ********
api_key = "your-api-key-here-12345"
Authorization: Bearer $TOKEN
curl -H "Authorization: Bearer <token>" https://api.acme.org
postgres://user:${PASSWORD}@localhost/db
https://docs.acme.org:8443/path@2x.png
git@github.com:acme/app.git
max_tokens=4096, prompt_tokens: 128000, token_count=987654321
tokenizer: cl100k_base and o200k_base_v2
the password is required and hashed before it is stored
password must have 12 characters
secretName: my-app-secret-v2
publicKeyToken="b77a5c561934e089"
keyboard: qwerty-1234-layout-5678
2024-01-01T00:00:00.000Z host app[123]: token expired at 1704067200
pk_live_51H8xYzAbCdEfGhIjKlMnOpQr
https://examplePublicKey@o0.ingest.sentry.io/0
AROAEXAMPLEROLEID12345
/usr/lib/python3.11/site-packages/keyring/credentials.py:123
the token_url is https://auth.acme.org/oauth/token?x=1234567890ab
password=user.password2.value
mysql -uroot -p app
find / -name mysql -print
docker run --password-stdin registry
use --token options to log in
""".strip().splitlines()


@requirement("DIS-10")
def test_more_than_sixty_kinds_are_known_and_each_is_found():
    missed = Counter()
    for kind, text in samples(count=20):
        found = scrub(f"I ran it with {text} and it worked").found
        missed[kind, bool(found)] += 1
        assert not found or kind in found, f"{kind} was taken for {dict(found)}"
    assert set(FORMATS) == KINDS
    assert len(FORMATS) >= 60
    assert all(missed[kind, True] for kind in FORMATS)
    slipped = sum(count for (_, found), count in missed.items() if not found)
    assert slipped / missed.total() < 0.005


@pytest.mark.parametrize("around", ['"{}"', "x={}\n", '{{"stdout": "a\\n{}\\nb"}}', "`{}`", "\t{}"])
def test_a_secret_is_found_whatever_stands_around_it(around):
    chance = random.Random(1)
    for template in ("ghp_{an:36}", "AKIA{up:16}", "sk-ant-api03-{url:93}AA", "hvs.{url:92}",
                     "npm_{an:36}", "xoxb-{dig:12}-{dig:13}-{an:24}", "dapi{hex:32}"):  # fmt: skip
        secret = made_up(template, chance)
        text = around.replace("{{", "{").replace("}}", "}").replace("{}", secret)
        assert secret not in clean(text)


def test_what_stands_around_a_secret_stays():
    assert clean(f"push with {SECRET} as äöü") == "push with [secret:github-token] as äöü"
    assert clean("postgresql://app:s3cr3t-x9@db:5432/app") == (
        "postgresql://app:[secret:url-password]@db:5432/app"
    )
    assert scrub(f"{SECRET} {SECRET} password=hunter2").found == {"github-token": 2, "secret": 1}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_is_left_alone(text):
    assert scrub(text).found == {}
    assert clean(text) == text


def test_an_image_is_left_alone():
    import base64

    image = base64.b64encode(random.Random(3).randbytes(300_000)).decode()
    assert scrub(f"data:image/png;base64,{image}").found == {}


pieces = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["password=", "token: ", "\n", '"', "://a:", "@", "Bearer ", "sk-", "eyJ", "."]
    ),
    st.sampled_from([text for _, text in samples(count=1)]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12).map("".join))
def test_scrubbing_twice_changes_nothing_more(text):
    once = clean(text)
    assert scrub(once).found == {}
    assert clean(once) == once


def test_every_text_of_a_memory_is_scrubbed():
    words = {name: f"{name} {SECRET}" for name in texts()}
    assert words.keys() >= {"title", "description", "content", "domain", "agent"}
    dirty = a_warning(**words, tags=(SECRET, "ok"), corrective_guidance=f"unset {SECRET}")
    assert SECRET not in str(clean_memory(dirty).to_json())
    assert clean_memory(dirty).tags == ("[secret:github-token]", "ok")
    pure = a_warning()
    assert clean_memory(pure) is pure


def test_every_text_of_a_trace_is_scrubbed():
    step = Step(iteration=1, action=f"run {SECRET}", content=SECRET, feedback=SECRET)
    dirty = a_trace(
        task=SECRET, trajectory=(step,),
        metadata={"env": [{"api_key": "a1b2c3d4e5f6a7b8c9", SECRET: 1}], "tokens": 128},
    )  # fmt: skip
    cleaned = clean_trace(dirty)
    assert SECRET not in str(cleaned.to_json())
    assert "a1b2c3d4e5f6a7b8c9" not in str(cleaned.to_json())
    assert cleaned.metadata["tokens"] == 128
    assert clean_trace(a_trace(id=dirty.id)) == a_trace(id=dirty.id)


def test_a_value_is_judged_by_its_name():
    assert clean_json({"password": "hunter2", "note": "hunter2"}) == {
        "password": "[secret:secret]", "note": "hunter2",
    }  # fmt: skip


def everything_of(bank, tmp_path):
    """The bytes on disk, once the log is in the database."""
    bank.close()
    return b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@requirement("DIS-10")
@requirement("SEC-4")
def test_no_secret_reaches_the_disk(plain_bank, tmp_path):
    memory = plain_bank.record(a_memory(content=f"push with {SECRET}"))
    assert memory.content == "push with [secret:github-token]"
    assert plain_bank.get(memory.id).content == memory.content
    plain_bank.update(memory.id, description=f"when {SECRET} is at hand")
    plain_bank.feedback(memory.id, helpful=True, comment=f"works with {SECRET}")
    plain_bank.archive(memory.id, reason=f"leaked {SECRET}")
    trace = plain_bank.store_trace(a_trace(task=f"use {SECRET}"))
    assert trace.task == "use [secret:github-token]"
    plain_bank.distil(a_trace(task=f"learn from {SECRET}"))
    assert SECRET.encode() not in everything_of(plain_bank, tmp_path)


@requirement("SEC-4")
def test_no_secret_comes_in_by_an_import(open_bank, tmp_path):
    careless = open_bank("careless", settings=UNSCRUBBED)
    memory = careless.record(a_memory(content=f"push with {SECRET}"))
    assert careless.get(memory.id).content.endswith(SECRET)
    careless.update(memory.id, title=f"Push {SECRET}")
    careless.feedback(memory.id, helpful=True, comment=SECRET)
    careless.store_trace(a_trace(task=SECRET))
    log = io.StringIO()
    careless.export(log)

    folder = tmp_path / "careful"
    folder.mkdir()
    url = f"sqlite:///{folder}/bank.db"
    with Bank.open(url, workspace=tmp_path, settings=replace(UNSCRUBBED, scrub=True)) as careful:
        careful.import_(io.StringIO(log.getvalue()), trusted=True)
        plain = a_memory(content=f"plain {SECRET}").to_json()
        careful.import_(io.StringIO(json.dumps(plain)), trusted=True)
        assert len(careful.within(open_bank.project()).memories()) == 1
        told = io.StringIO()
        careful.export(told)
    assert SECRET not in told.getvalue()
    assert SECRET.encode() not in everything_of(careful, folder)


def test_a_placeholder_that_does_not_fit_is_refused_by_its_field(plain_bank):
    title = "x" * 181 + " password=abcde1"
    assert len(title) < 200
    with pytest.raises(InvalidInput, match="title") as refused:
        plain_bank.record(a_memory(title=title + "yyy"))
    assert refused.value.field == "title"
    assert plain_bank.memories() == []


def test_searching_does_not_load_the_engine(tmp_path):
    code = (
        "import sys; from reasonbank import Bank\n"
        f"with Bank.open('sqlite:///{tmp_path}/b.db', workspace='{tmp_path}') as bank:\n"
        "    bank.search('anything')\n"
        "    assert 're2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
