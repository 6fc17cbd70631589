"""What is worth keeping of a conversation, without being asked."""

import pytest
from tests.requirement import requirement

from reasonbank import Refused, Source
from reasonbank.learn.passive import worth_keeping
from reasonbank.settings import Passive, load

QUESTION = "How do I make ripgrep search hidden files?"
CODE = """Pass the flag for hidden files, and exclude the repository's own folder:

```sh
rg --hidden --glob '!.git' pattern
```
This searches dot files as well."""
STEPS = """To rotate the key:
1. Create a new key in the console and note its id.
2. Update the secret in the vault and restart the workers.
3. Delete the old key after a day."""
EXPLANATION = """The index is skipped because the column is wrapped in a function. The planner only
uses an index for the bare column, so that an expression index is needed for lower(email)."""


def kept(question, answer, settings=None):
    return worth_keeping(question, answer, settings or Passive(), workspace="w")


@requirement("PAS-1")
@pytest.mark.parametrize(
    ("answer", "shape"), [(CODE, "code"), (STEPS, "steps"), (EXPLANATION, "explanation")]
)
def test_code_steps_and_explanations_become_memories(answer, shape):
    memory = kept(QUESTION, answer)
    assert memory.source is Source.PASSIVE
    assert memory.title == QUESTION
    assert memory.content == answer
    assert shape in memory.tags


@requirement("PAS-1")
@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        (QUESTION, "Use rg --hidden.", "16 characters; 100"),
        (QUESTION, "x" * 99, "99 characters; 100"),
        (QUESTION, "It is sunny today and the birds sing. " * 4, "no code"),
        (QUESTION, "I'm sorry, I cannot help with that because it is late. " * 3, "declines"),
        (QUESTION, "I don't know which file you mean, because there are two. " * 3, "declines"),
        (QUESTION, "Could you share the log? It is needed because of the stack. " * 3, "asks back"),
        ("thanks", CODE, "too little"),
        ("ok, continue!", CODE, "too little"),
        ("", CODE, "too little"),
        ("fix the flaky test please", "I've fixed the test, because the sleep was too short. It "
         "now waits for the event instead of sleeping, which is why it is stable.", "reports"),
    ],
)  # fmt: skip
def test_small_talk_refusals_and_reports_are_not_kept(question, answer, reason):
    assert reason in kept(question, answer)


@requirement("PAS-2")
def test_thresholds_and_the_whole_feature_are_settings():
    assert "switched off" in kept(QUESTION, CODE, Passive(enabled=False))
    assert "200 are needed" in kept(QUESTION, CODE, Passive(min_length=200))
    assert "settings ask for" in kept(QUESTION, STEPS, Passive(steps=False))
    assert "settings ask for" in kept(QUESTION, EXPLANATION, Passive(explanations=False))
    short = "Run it:\n```\nrg -. x\n```"
    assert kept(QUESTION, short, Passive(min_length=10)).content == short
    loaded = load({"HOME": "/nowhere", "REASONBANK_PASSIVE_ENABLED": "false",
                   "REASONBANK_PASSIVE_MIN_LENGTH": "40"})  # fmt: skip
    assert loaded.passive == Passive(enabled=False, min_length=40)


@requirement("PAS-3")
def test_the_same_exchange_has_the_same_id(plain_bank):
    first = plain_bank.record(kept(QUESTION, CODE))
    again = kept(f"  {QUESTION}\n", CODE.replace("\n", "\n\n", 1))
    assert again.id == first.id
    with pytest.raises(Refused):
        plain_bank.record(again)
    elsewhere = worth_keeping(QUESTION, CODE, Passive(), workspace="other")
    assert len({first.id, elsewhere.id, kept(QUESTION, STEPS).id}) == 3


def test_what_we_told_ourselves_is_not_kept():
    from reasonbank.testing import a_memory

    told = a_memory(content="Use rg --hidden because dot files are skipped. " * 5)
    assert "0 characters" in kept(QUESTION, told.format_for_prompt())
