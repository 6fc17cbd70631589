"""What is taken from sets of requests, collections of commands, and plain English."""

from __future__ import annotations

import json
import re

from tools.train_embedding.collect import Collection
from tools.train_embedding.parse import PARSERS, Pair


def pairs(kind: str, files: dict[str, str]) -> list[Pair]:
    found = PARSERS[kind](files, re.compile(".+"))
    return [one for one in found if isinstance(one, Pair)]


def asked(kind: str, files: dict[str, str]) -> dict[str, str]:
    return {one.question: one.document for one in pairs(kind, files)}


def test_a_request_leads_to_the_tool_it_calls():
    tool = {"api_name": "getTide", "api_description": "Tell the tide", "field": "Sea/Coast"}
    row = {"query": "When is high water in Brest?", "calling": [{"api": "getTide"}]}
    files = {"tool.jsonl": json.dumps(tool), "dev.jsonl": json.dumps(row)}
    found = asked("seal_tools", files)
    assert found["When is high water in Brest?"] == "getTide. Tell the tide"
    assert {one.group for one in pairs("seal_tools", files)} == {"Sea/Coast"}


def test_the_right_one_of_the_functions_offered_is_taken():
    offered = [{"name": n, "description": f"Do {n} to it"} for n in ("fold", "tear")]
    said = [[{"role": "user", "content": "Please fold the paper twice"}]]
    files = {
        "a.json": json.dumps({"id": "1", "question": said, "function": offered}),
        "possible_answer/a.json": json.dumps({"id": "1", "ground_truth": [{"fold": {}}]}),
    }
    found = asked("function_calls", files)
    assert found["Please fold the paper twice"] == "fold. Do fold to it"
    assert found["tear"] == "Do tear to it"


def test_an_answer_to_the_assistant_is_no_request_for_a_tool():
    talk = [
        {"role": "User", "text": "Can you wake me at six?"},
        {"role": "User", "text": "My name is Ann and it is Monday today."},
        {"role": "API", "api_name": "AddAlarm"},
    ]
    files = {
        "apis/add.py": 'class AddAlarm(API):\n    description = "Sets an alarm."\n',
        "talk.jsonl": "\n".join(map(json.dumps, talk)),
    }
    assert asked("dialogues", files) == {
        "AddAlarm": "Sets an alarm.",
        "Can you wake me at six?": "AddAlarm. Sets an alarm.",
    }


def test_requests_of_one_intent_lead_to_each_other_and_others_share_their_group():
    rows = "text,category\nwhere is my card,arrival\ncard not here yet,arrival\n"
    rows += "close my account,closing\nend my contract,closing\nthe only one,alone\n"
    found = pairs("intents", {"banking/train.csv": rows})
    assert {(one.question, one.document) for one in found} == {
        ("where is my card", "card not here yet"),
        ("card not here yet", "where is my card"),
        ("close my account", "end my contract"),
        ("end my contract", "close my account"),
    }
    groups: dict[str, set[str]] = {}
    for one in found:
        assert one.meaning not in groups.setdefault(one.group, set())
        groups[one.group].add(one.meaning)
    assert all(len(meanings) == 2 for meanings in groups.values())


def test_commands_meet_what_they_do_in_each_form():
    sheet = "---\ntags: [ x ]\n---\n# To list an archive:\ntar -tf foo.tar\n"
    assert asked("cheats", {"tar": sheet})["list an archive"].startswith("tar -tf foo.tar")
    page = "# find\n\nonly directories in a place\n\n    find ./place -type d\n"
    found = asked("recipes", {"find.md": page})
    assert found["only directories in a place"].startswith("find ./place -type d")
    fenced = "##### Get the length of variable\n```bash\necho ${#var}\n```\n"
    assert asked("recipes", {"a.md": fenced})["Get the length of variable"] == "echo ${#var}"
    cmdlet = "### Example 1: Copy a file\n\nThis copies it.\n\n```powershell\nCopy-Item a b\n```\n"
    assert asked("cmdlets", {"a.md": cmdlet})["Copy a file"] == "Copy-Item a b\nThis copies it."


def test_examples_of_cloud_commands_keep_title_sentence_and_command():
    text = "**Example 1: To describe an instance**\n\nThe following ``x`` shows one. ::\n\n"
    text += "    aws ec2 describe \\\n        --ids i-1\n\nOutput::\n\n    {}\n"
    found = asked("aws_examples", {"examples/ec2/a.rst": text})
    assert found["Describe an instance"].startswith("aws ec2 describe --ids i-1\nThe following x")
    text = '\nhelps[\'vm create\'] = """\nshort-summary: Create a machine.\nexamples:\n'
    text += '  - name: Create one in a zone.\n    text: az vm create -n a\n"""\n'
    found = asked("azure_help", {"_help.py": text})
    assert found["Create one in a zone"] == "az vm create -n a\nCreate a machine."
    assert found["Create a machine."] == "az vm create"


def test_plain_english_is_kept_without_a_question():
    talk = [{"utterances": [{"text": "Hello, one coffee to go please."}, {"text": "Ok."}]}]
    book = '<document xmlns="http://x"><para>A list can <b>grow</b> at any time.</para></document>'
    files = {
        "talk.json": json.dumps(talk),
        "book.cnxml": book,
        "pep-1.rst": "Title\n=====\n\nNobody gave this text away to anyone.\n",
        "lines.jsonl": json.dumps({"question": "How many apples does Tom have now?"}),
    }
    found = pairs("prose", files)
    assert {one.question for one in found} == {""}
    assert {one.document for one in found} == {
        "Hello, one coffee to go please.",
        "A list can grow at any time.",
        "How many apples does Tom have now?",
    }


def test_what_is_measured_on_is_not_trained_on():
    collected = Collection(frozenset({"list all files here"}))
    assert collected._is_measured(Pair("", "List all files here", "ls -a and some more words"))
    assert collected._is_measured(Pair("", "ls -a", "List all files here\nls: list"))
    assert not collected._is_measured(Pair("", "list all folders here", "ls -d"))
