"""What `reasonbank distil` keeps of a session: in a process of its own, as it is installed."""

import json
import os
import subprocess

import pytest
from tests.requirement import requirement
from tests.surfaces.terminal import COMMAND


@pytest.fixture
def learn(tmp_path):
    """Hand in sessions; what is in the bank afterwards."""
    here = {k: v for k, v in os.environ.items() if not k.startswith("REASONBANK_")}

    def run(*words):
        done = subprocess.run(
            [COMMAND, "--json", *words], cwd=tmp_path, env=here | {"HOME": str(tmp_path)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    def hand_in(*sessions):
        for session in sessions:
            (tmp_path / "session.json").write_text(json.dumps(session))
            run("distil", "session.json")
        return run("list")

    return hand_in


def session(task, *steps, **known):
    trajectory = [
        {"iteration": n, "action": action, "content": content, "feedback": feedback}
        for n, (action, content, feedback) in enumerate(steps, 1)
    ]
    return {"task": task, "trajectory": trajectory} | known


def said(action, text):
    return action, text, None


REFUSED = ("tool", 'book({"flight": "HAT136", "paid": 255})',
           "Error: the payment must equal the total price")  # fmt: skip
TAKEN = ("tool", 'book({"flight": "HAT136", "paid": 305})', '{"reservation": "K1NW8N"}')


@requirement("DIS-4", "DIS-9")
def test_what_a_tool_refused_is_learned_with_what_it_took(learn):
    [memory] = learn(session("Book a seat with insurance", REFUSED, TAKEN))
    assert "`book` answered: the payment must equal the total price" in memory["content"]
    assert "with `paid` = `305` instead of `255`" in memory["content"]
    assert "HAT136" not in memory["content"], "what was not changed says nothing"
    assert "Task: Book a seat with insurance" in memory["content"]
    assert memory["outcome"] == "success"


@requirement("DIS-4")
def test_in_a_task_that_failed_only_the_refusal_is_kept_as_a_warning(learn):
    [memory] = learn(session("Book a seat", REFUSED, TAKEN, outcome="failure"))
    assert memory["outcome"] == "failure"
    assert memory["error_context"]["failure_pattern"] == "the payment must equal the total price"
    assert "305" not in json.dumps(memory)


@requirement("DIS-6")
def test_the_same_refusal_in_two_sessions_is_one_memory(learn):
    assert len(learn(*[session("Book a seat with insurance", REFUSED, TAKEN)] * 2)) == 1


POLICY = """# Airline policy
- Greet the customer by name.
## Modify flight
- Basic economy flights cannot be modified. Other reservations can be modified.
## Baggage
- Each extra bag costs 50 dollars and must be paid when it is added.
"""
WISH = "No, I don't want that. Always move my flight to Friday, never make me pay for it."
DECLINED = "I am sorry: basic economy flights cannot be modified."


@requirement("DIS-4", "DIS-9")
def test_a_stated_policy_is_a_lesson_and_what_the_customer_wants_is_none(learn):
    steps = [said("system", POLICY), said("user", "Please move my flight K1NW8N to Friday."),
             said("agent", "I can look it up for you."), said("user", WISH),
             said("agent", DECLINED)]  # fmt: skip
    [memory] = learn(session("A customer writes", *steps, outcome="success"))
    assert memory["title"] == "Policy, Modify flight: Basic economy flights cannot be modified."
    assert memory["outcome"] == "success"
    assert "user-correction" not in memory["tags"]
    assert "extra bag" not in memory["content"]


@requirement("DIS-9")
def test_what_the_agent_claims_to_be_policy_is_none(learn):
    claim = "Our policy says that basic economy flights must be paid in gold, I cannot change that."
    steps = [said("system", POLICY), said("user", "Why?"), said("agent", claim)]
    assert learn(session("A customer writes", *steps)) == []


@requirement("DIS-9")
def test_a_customer_is_no_user_of_the_project_without_a_policy_either(learn):
    steps = [said("user", "Please move my flight."), ("tool", 'find({"id": 1})', '{"cabin": "x"}'),
             said("agent", "It is booked in x."), said("user", WISH),
             said("agent", "1. I move it to Friday, because you asked for it.\n"
                           "2. I do not charge anything, since you said so.")]  # fmt: skip
    assert learn(session("A customer writes", *steps)) == []


PROGRAM = """from tools import fetch

page = fetch("https://example.org/list")
rows = page.rows()
total = 0
for row in rows:
    total += row.price
"""
ERROR = """exit code 1
Traceback (most recent call last):
  File "/srv/agent/run.py", line 4, in <module>
    rows = page.rows()
AttributeError: 'Page' object has no attribute 'rows'"""
RIGHT = PROGRAM.replace("page.rows()", "page.tables[0].rows")


@requirement("DIS-4", "DIS-9")
@pytest.mark.parametrize("action", ["execute", "python"])
def test_of_a_program_only_the_lines_that_changed_are_kept(learn, action):
    steps = [(action, PROGRAM, ERROR), (action, RIGHT, "exit code 0\n812")]
    [memory] = learn(session("Sum up the price list", *steps))
    assert "- rows = page.rows()\n+ rows = page.tables[0].rows" in memory["content"]
    assert "for row in rows" not in memory["content"]
    assert "Task: Sum up the price list" in memory["content"]
    assert "its result was not checked" in memory["content"]


@requirement("DIS-4", "DIS-9")
def test_of_a_file_that_is_written_again_only_the_new_lines_are_kept(learn):
    run = ("command", "python run.py")
    steps = [("edit", "run.py", PROGRAM), (*run, ERROR),
             ("edit", "run.py", RIGHT), (*run, "exit code 0\n812")]  # fmt: skip
    [memory] = learn(session("Sum up the price list", *steps))
    assert "rows = page.tables[0].rows" in memory["content"]
    assert "for row in rows" not in memory["content"] and "fetch" not in memory["content"]
    assert "Sum up the price list" in memory["content"]


MISSING = """exit code 1
Traceback (most recent call last):
FileNotFoundError: [Errno 2] No such file or directory: 'prices.csv'"""
REAL = 'import pandas as pd\n\nframe = pd.read_csv("prices.csv")\nprint(frame.price.min())\n'
INVENTED = "import pandas as pd\n\n# Simulated data\nframe = pd.DataFrame({'price': [800]})\n"


@requirement("DIS-4")
@pytest.mark.parametrize("written", [True, False], ids=["edits", "programs"])
def test_a_result_of_made_up_data_is_no_success(learn, written):
    def run(code, output):
        ran = ("command", "python run.py", output)
        return [("edit", "run.py", code), ran] if written else [("execute", code, output)]

    steps = [*run(REAL, MISSING), *run(INVENTED, "exit code 0\nThe lowest price is 800")]
    found = learn(session("What is the lowest price?", *steps, said("agent", "It is 800.")))
    assert all(memory["outcome"] == "failure" for memory in found)
    if not written:
        assert "made-up data" in found[0]["content"]


@requirement("DIS-4")
def test_a_success_that_is_only_claimed_is_none(learn):
    told = session("Make the tests pass", ("test", "pytest -q", "exit code 1\nE   KeyError: 'a'"),
                   ("edit", "app.py", "d.setdefault('a', 1)"), ("test", "pytest -q", "all is well"),
                   said("agent", "Done, everything passes."))  # fmt: skip
    told["trajectory"][2]["score"] = 1.0
    assert [memory for memory in learn(told) if memory["outcome"] == "success"] == []


WHY = (
    "The implementation is incorrect because it sorts in descending order and returns the first k. "
    "It should sort ascending and return the last k."
)
TRY = ("edit", "solution.py", "def maximum(arr, k): ...")


@requirement("DIS-4", "DIS-9")
@pytest.mark.parametrize("action", ["reflection", "think", "agent"])
def test_a_reflection_that_a_verified_success_followed_is_a_strategy(learn, action):
    steps = [TRY, said(action, WHY), TRY]
    [memory] = learn(session("Write maximum(arr, k)", *steps, outcome="success"))
    assert memory["outcome"] == "success" and "return the last k" in memory["content"]
    assert "Write maximum(arr, k)" in memory["description"]


@requirement("DIS-4")
def test_a_reflection_as_the_last_word_is_a_warning(learn):
    written = said("reflection", WHY)
    [memory] = learn(session("Write maximum(arr, k)", TRY, written, outcome="failure"))
    assert memory["outcome"] == "failure"
    assert memory["error_context"]["corrective_guidance"] == WHY


@requirement("DIS-4")
def test_a_reflection_that_did_not_help_is_a_warning_of_it(learn):
    written = said("reflection", WHY)
    [memory] = learn(session("Write maximum(arr, k)", TRY, written, TRY, outcome="failure"))
    assert memory["outcome"] == "failure" and "checked, and failed" in memory["content"]


@requirement("DIS-4")
def test_what_an_environment_forbids_is_a_warning(learn):
    forbidden = (
        "Code execution failed at line 'import inspect' due to: InterpreterError: Import of "
        "inspect is not allowed. Authorized imports are: ['re', 'json']"
    )
    steps = [("execute", "import inspect\nprint(inspect.signature(ask))\n", forbidden)]
    [memory] = learn(session("Find out how ask is called", *steps))
    assert "Authorized imports are: ['re', 'json']" in memory["content"]
    assert memory["outcome"] == "failure"
    assert memory["error_context"]["error_type"] == "InterpreterError"


@requirement("DIS-4")
def test_a_helper_that_gives_nothing_and_a_file_that_is_not_there_are_warnings(learn):
    searched = "from tools import find\n\nrows = find('x')\nfor row in rows:\n    print(row)\n"
    failed = """exit code 1
Traceback (most recent call last):
  File "/srv/agent/run.py", line 4, in <module>
    for row in rows:
TypeError: 'NoneType' object is not iterable"""
    not_there = "FileNotFoundError: [Errno 2] No such file or directory: 'data/sums.csv'"
    steps = [("execute", searched, failed), ("read_file", '{"path": "data/sums.csv"}', not_there)]
    found = learn(session("Add up what is in sums.csv", *steps, said("agent", "It is 12.")))
    titles = sorted(memory["title"] for memory in found)
    assert titles[0].startswith("The file of the task (sums.csv) could not be opened")
    assert titles[1].startswith("`find` of tools may return None")
    assert {memory["outcome"] for memory in found} == {"failure"}


@requirement("DIS-4")
def test_what_a_search_in_a_page_did_not_find_is_not_laid_to_what_read_the_page(learn):
    read = "from bs4 import Soup\n\nsoup = Soup(page)\nprint(soup.find('td').next_row())\n"
    failed = """exit code 1
Traceback (most recent call last):
  File "/srv/agent/run.py", line 4, in <module>
    print(soup.find('td').next_row())
AttributeError: 'NoneType' object has no attribute 'next_row'"""
    assert learn(session("Read the table", ("execute", read, failed))) == []


ANSWER = "1. I look it up in the list, because it is there.\n2. I add it up, so that it is right.\n"


@requirement("DIS-4")
@pytest.mark.parametrize(
    "steps",
    [
        [said("user", "Yes, go ahead and book it, please."), said("agent", ANSWER)],
        [said("user", "Can you book it for me?"), said("agent", f"{ANSWER} Please confirm.")],
        [said("user", "What is the sum?"), ("execute", PROGRAM, "812"), said("agent", ANSWER)],
        [said("user", "How is that done?"), said("agent", f"So:\n```python\n{PROGRAM * 4}```\n")],
        [said("user", "Where is it?"), said("agent", f"I clicked 'Roster'.\n{ANSWER}")],
    ],
    ids=["no question", "asks back", "work", "a program", "a report"],
)
def test_an_exchange_that_would_serve_nobody_else_leaves_nothing(learn, steps):
    assert learn(session("A talk", *steps)) == []


RULES = (
    "## Basics\n- Each user has a profile containing user id, email and reservation numbers.\n"
    "- A gold member has two free bags, a silver member has one, a regular member has none."
)
NO_ID = "I would like to change a booking, but I don't have the reservation ID at hand."
PROFILE = (
    "tool",
    'get_user({"user_id": "ann_1"})',
    '{"user_id": "ann_1", "membership": "silver", "reservations": ["AAA111", "BBB222", "CCC333"]}',
)


def looked_at(id, flights=2):
    listed = [{"flight": f"F{n}"} for n in range(flights)]
    answer = json.dumps({"reservation_id": id, "user_id": "ann_1", "flights": listed})
    return "tool", json.dumps({"reservation_id": id}).join(("get_reservation(", ")")), answer


def served(*steps, **known):
    return session("A customer asks for help", said("system", RULES), *steps, **known)


@requirement("DIS-4")
def test_what_a_customer_cannot_name_is_looked_up_with_the_tool_that_lists_it(learn):
    [memory] = learn(served(said("user", NO_ID), PROFILE, looked_at("BBB222")))
    assert "`get_user` lists the `reservations`" in memory["title"]
    assert "ann_1" not in memory["content"] and "BBB222" not in memory["content"]


@requirement("DIS-4")
def test_a_lookup_that_nobody_needed_teaches_nothing(learn):
    asked = said("user", "Please change my booking, the reservation ID is BBB222.")
    assert not learn(served(asked, PROFILE, looked_at("BBB222")))


@requirement("DIS-4")
def test_asking_again_for_what_a_customer_has_not_got_is_a_warning_if_the_task_failed(learn):
    again = said("agent", "I need the reservation ID. Please provide it.")
    pleading = said("user", "As I said, I cannot find it.")
    steps = [said("user", NO_ID), again, pleading, again, pleading, again]
    [memory] = learn(served(*steps, outcome="failure"))
    assert "Asked 3 times for a reservation ID" in memory["title"]
    assert "a profile containing user id, email and reservation numbers" in memory["content"]


@requirement("DIS-4")
@pytest.mark.parametrize("outcome", ["success", None])
def test_asking_again_shows_nothing_where_the_task_did_not_fail(learn, outcome):
    again = said("agent", "I need the reservation ID. Please provide it.")
    steps = [said("user", NO_ID), *[again] * 4]
    known = {"outcome": outcome} if outcome else {}
    assert not learn(served(*steps, **known))


def updated(id, flights):
    listed = [{"flight": f"N{n}"} for n in range(flights)]
    given = json.dumps({"reservation_id": id, "flights": listed})
    answer = json.dumps({"reservation_id": id, "user_id": "ann_1", "flights": listed})
    return "tool", f"update_flights({given})", answer


@requirement("DIS-4")
def test_a_list_that_a_call_cut_short_is_a_warning(learn):
    steps = [said("user", "Please change my second flight."), looked_at("AAA111", 4)]
    [memory] = learn(served(*steps, updated("AAA111", 1), outcome="failure"))
    assert "`update_flights` replaces the whole list `flights`" in memory["title"]
    assert "had 4 `flights`" in memory["content"]


@requirement("DIS-4")
@pytest.mark.parametrize(("id", "flights"), [("AAA111", 4), ("NEW999", 1)])
def test_a_list_of_full_length_or_of_another_thing_is_no_warning(learn, id, flights):
    steps = [said("user", "Please change my second flight."), looked_at("AAA111", 4)]
    assert not learn(served(*steps, updated(id, flights), outcome="failure"))


@requirement("DIS-4")
def test_some_looked_at_where_all_were_meant_is_a_warning(learn):
    asked = said("user", "Please downgrade all of my bookings. I am ann_1.")
    steps = [asked, PROFILE, looked_at("AAA111"), looked_at("BBB222")]
    [memory] = learn(served(*steps, outcome="failure"))
    assert "Only 2 of 3 `reservations` were looked at" in memory["title"]
    assert not learn(served(*steps, looked_at("CCC333"), outcome="failure"))[1:]


@requirement("DIS-4")
def test_a_customers_word_is_held_against_the_record(learn):
    asked = said("user", "I am a gold member, so the bags are free, aren't they?")
    [memory] = learn(served(asked, PROFILE, outcome="success"))
    assert memory["title"] == "Users may be wrong about their `membership`: go by `get_user`"
    assert "`membership` = silver" in memory["content"]


@requirement("DIS-4")
def test_a_customers_word_that_the_record_bears_out_teaches_nothing(learn):
    asked = said("user", "I am a silver member, so one bag is free, isn't it?")
    assert not learn(served(asked, PROFILE, outcome="success"))


REQUEST = (
    'task = (\n    "Please find the number of pages of the report that mention nuclear energy, "\n'
    '    "and list them all."\n)\n'
)
PRINTED = "Please find the number of pages of the report that mention nuclear energy, and list"


@requirement("DIS-4")
def test_a_request_that_was_only_printed_is_a_warning(learn):
    steps = [
        said("think", "I will ask our search_agent team member to count the pages."),
        ("execute", f"{REQUEST}print(task)", PRINTED),
        said("think", "As provided by our search_agent, the result is 8."),
        ("execute", 'final_answer("8")', "8"),
    ]
    [memory] = learn(session("How many pages mention nuclear energy?", *steps))
    assert memory["title"] == "The request to `search_agent` was only printed: it was not called"
    assert "It was never called." in memory["content"]
    assert "As provided by our search_agent" in memory["content"]


@requirement("DIS-4")
def test_a_request_that_was_sent_is_no_warning(learn):
    thought = said("think", "I will ask our search_agent team member to count the pages.")
    asked = ("execute", f"{REQUEST}print(task)\nprint(search_agent(task))", f"{PRINTED}\n7 pages")
    assert not learn(session("How many pages mention nuclear energy?", thought, asked))


@requirement("DIS-4")
def test_a_text_that_was_taken_for_a_list_names_what_gave_it(learn):
    got = "from gits import ingest\n\nsummary, tree = ingest('repo')\n"
    steps = [
        ("execute", f"{got}for item in tree[:8]:\n    print(item)\n", "D\ni\nr\ne\nc\nt\no\nr\n"),
        ("execute", f"{got}for line in tree.split('\\n')[:8]:\n    print(line)\n", "README.md\n"),
    ]
    [memory] = learn(session("Find the file", *steps))
    assert memory["title"].startswith("`tree` of `ingest` is one text, no list")
    assert "tree.split" in memory["content"]
