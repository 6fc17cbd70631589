"""What sessions of all kinds teach by rules alone, and where they had better be silent."""

import pytest
from tests.requirement import requirement

from reasonbank import Outcome, Trace
from reasonbank.learn.rules.rules import findings
from reasonbank.learn.session import of_trace
from reasonbank.model import Step


def learned(task, *steps, outcome=None):
    """The lessons of a session of ``(action, content, feedback)``."""
    told = [
        Step(iteration=n, action=action, content=content, feedback=(rest or [None])[0])
        for n, (action, content, *rest) in enumerate(steps, 1)
    ]
    trace = Trace(task=task, trajectory=tuple(told), outcome=outcome)
    return findings(of_trace(trace), outcome=outcome)


def only(found, rule):
    [lesson] = found
    assert lesson.rule == rule
    return lesson.memory


# Reflections: as far as what followed bears them out.

TASK = 'def teens(numbers):\n    """Return those from 13 to 19."""\n'
TRY = ("edit", "solution.py", "def teens(numbers):\n    return [n for n in numbers if 13 < n < 19]")
DONE = (
    "edit",
    "solution.py",
    "def teens(numbers):\n    kept = []\n    for n in numbers:\n        if 13 <= n <= 19:\n"
    "            kept.append(n)\n    return kept",
)


def wrote(text):
    return "reflection", text


BOUNDS = wrote("The implementation is wrong because it leaves 13 and 19 out, which belong to it.")
WORDS = wrote("The current program fails because numbers that come as text are never converted.")
ORDER = wrote("It is incorrect because the result must keep the order of the list, not sort it.")


@requirement("DIS-4", "DIS-9")
def test_one_reflection_before_a_checked_success_helped():
    memory = only(learned(TASK, TRY, BOUNDS, DONE, outcome=Outcome.SUCCESS), "reflection")
    assert memory.outcome is Outcome.SUCCESS
    assert "leaves 13 and 19 out" in memory.content
    assert "`teens`: Return those from 13 to 19." in memory.content


@requirement("DIS-9")
def test_who_reflects_again_and_again_only_guesses():
    again = [BOUNDS, TRY, WORDS, TRY, ORDER, TRY]
    shown = f"{TASK}    >>> teens([12, 13])\n    [13]\n"
    assert learned(shown, TRY, *again, DONE, outcome=Outcome.SUCCESS) == []
    assert learned(TASK, TRY, *again, BOUNDS, DONE, outcome=Outcome.SUCCESS) == [], "said before"
    assert learned(TASK, TRY, *again, DONE, outcome=Outcome.FAILURE) == []
    assert learned(TASK, TRY, BOUNDS, TRY, BOUNDS, DONE, outcome=Outcome.SUCCESS) == []
    assert learned(TASK, TRY, *again[:-1], outcome=Outcome.FAILURE) == []


@requirement("DIS-9")
def test_a_reflection_that_what_passed_does_not_follow_is_no_lesson():
    strict = wrote("The check is wrong because it should use less than or equal for the upper end.")
    assert learned(TASK, TRY, strict, TRY, outcome=Outcome.SUCCESS) == []
    assert learned(TASK, TRY, strict, DONE, outcome=Outcome.SUCCESS) != []
    named = wrote("It is wrong because the test should be `n in range(13, 20)` and nothing else.")
    assert learned(TASK, TRY, named, DONE, outcome=Outcome.SUCCESS) == []


INSIDE = wrote(
    "The implementation is incorrect because it counts 13 and 19 as teens, while the failed test "
    "expects that both ends are left out of the result."
)
OUTSIDE = wrote(
    "The program does not work because the two ends are missing from what it gives back; 13 and "
    "19 are teens as well and must be kept."
)


@requirement("DIS-4", "DIS-9")
def test_of_two_readings_in_turn_the_lines_that_passed_are_told():
    steps = [INSIDE, TRY, OUTSIDE, TRY, INSIDE, TRY, OUTSIDE, DONE]
    memory = only(learned(TASK, TRY, *steps, outcome=Outcome.SUCCESS), "readings")
    assert "if 13 <= n <= 19:" in memory.content and "def teens" not in memory.content
    assert "both ends are left out" in memory.content and "must be kept" in memory.content
    longer = ("edit", "solution.py", "\n".join(f"line_{n} = {n}" for n in range(30)))
    assert learned(TASK, TRY, *steps[:-1], longer, outcome=Outcome.SUCCESS) == []


@requirement("DIS-4", "DIS-9")
def test_the_only_correction_before_a_checked_failure_is_told_as_one_that_failed():
    memory = only(learned(TASK, TRY, INSIDE, DONE, outcome=Outcome.FAILURE), "misled")
    assert memory.outcome is Outcome.FAILURE
    assert "a correction that failed" in memory.title
    assert "rewritten to this, checked, and failed" in memory.content


@requirement("DIS-9")
def test_a_plan_in_the_midst_of_a_session_that_nothing_checked_is_no_lesson():
    plan = "### Root cause of the failure\nThe site was not searched because the form did not work."
    on = [("agent", f"I clicked 'Page {n}'.") for n in range(5)]
    assert learned("Find the price", ("agent", plan), *on) == []


# Policies: what decided, and what no tool checks.

POLICY = """# Rules of the shop
- You should hand the customer over to a person if and only if no tool can do what is asked for.
## Cancel order
- Sent orders cannot be cancelled, and sale items only if they are faulty. The API does not check \
this, so the agent must make sure of it before calling the API!
## Change order
- Gift wrap: The customer can add but not remove gift wrap.
"""
ASKED = ("user", "Hello! My user ID is ann_bell_4711. Please cancel my order of the red lamp.")
LOOKED_UP = (
    "tool", 'get_order({"order_id": "W-2231"})',
    '{"order_id": "W-2231", "kind": "sale_items", "faulty": "no", "colour": "red"}',
)  # fmt: skip
CANCELLED = ("tool", 'cancel_order({"order_id": "W-2231"})', '{"order_id": "W-2231"}')


@requirement("DIS-4", "DIS-9")
def test_in_a_task_that_failed_the_rule_is_told_that_the_tool_does_not_check():
    steps = [("system", POLICY), ASKED, LOOKED_UP, CANCELLED]
    memory = only(learned("Serve", *steps, outcome=Outcome.FAILURE), "unchecked")
    assert memory.title.startswith("Before `cancel_order`, the policy (Cancel order): Sent orders")
    assert "kind = sale_items; faulty = no" in memory.content and "red;" not in memory.content
    assert "ann_bell" not in str(memory.to_json()), "who asked is nobody's business"
    assert memory.outcome is Outcome.FAILURE
    assert learned("Serve", *steps) == [], "nothing shows that it went wrong"
    assert learned("Serve", *steps, outcome=Outcome.SUCCESS) == []


@requirement("DIS-9")
def test_a_rule_that_does_not_name_the_case_is_not_blamed():
    harmless = (*LOOKED_UP[:2], '{"order_id": "W-2231", "kind": "book", "colour": "red"}')
    steps = [("system", POLICY), ASKED, harmless, CANCELLED]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == []
    other = ("tool", 'book_order({"order_id": "W-2231"})', '{"order_id": "W-2231"}')
    steps = [("system", POLICY), ASKED, LOOKED_UP, other]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == []


@requirement("DIS-9")
def test_a_hand_over_before_a_failure_says_nothing_that_its_rule_does_not():
    given = 'hand_over_to_person({"why": "The customer does not know the number of the order."})'
    steps = [("system", POLICY), ASKED, ("tool", given, "Done, the customer was handed over")]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == []


@requirement("DIS-9")
def test_a_rule_is_not_blamed_where_its_condition_may_be_met_or_something_else_was_asked_for():
    faulty = (*LOOKED_UP[:2], LOOKED_UP[2].replace('"no"', '"yes"'))
    steps = [("system", POLICY), ASKED, faulty, CANCELLED]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == []
    other = ("user", "Please change the address of my order of the red lamp. It is a new plan.")
    steps = [("system", POLICY), other, LOOKED_UP, CANCELLED]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == [], "nobody asked to cancel it"


SEATS = """# Rules of the theatre
## Change ticket
- Seats: Standing room tickets cannot be changed to another day. The API does not check this, so \
the agent must make sure of it before calling the API!
- Price group: All tickets, also of standing room, can change the price group of the ticket for \
the difference in price.
## Cancel ticket
- Standing room tickets can be cancelled only if the insurance for standing room was bought. The \
API does not check this, so the agent must make sure of it before calling the API!
"""
TICKET = (
    "tool", 'get_ticket({"ticket_id": "T-88120"})',
    '{"ticket_id": "T-88120", "kind": "standing_room", "insurance": "no"}',
)  # fmt: skip
NO_CHANGE = ("agent", "I am sorry: standing room tickets cannot be changed to another day.")
NO_CANCEL = (
    "agent", "Standing room tickets can be cancelled only if the insurance was bought, and it was "
    "not.",
)  # fmt: skip
TO_CHANGE = ("user", "Please change my ticket to another day.")
TO_CANCEL = ("user", "Then cancel my ticket.")


@requirement("DIS-4", "DIS-9")
def test_a_refusal_names_the_rule_of_the_request_that_it_answers():
    steps = [("system", SEATS), TO_CHANGE, TICKET, NO_CHANGE]
    for outcome in (Outcome.SUCCESS, None):
        memory = only(learned("Serve", *steps, outcome=outcome), "policy")
        assert memory.title.startswith("Policy, Change ticket: ")
        assert "somebody said: Please change my ticket to another day." in memory.content
    both = [("system", SEATS), TO_CHANGE, TICKET, ("agent", "Let me see."), TO_CANCEL, NO_CANCEL]
    memory = only(learned("Serve", *both, outcome=Outcome.SUCCESS), "policy")
    assert memory.title.startswith("Policy, Cancel ticket: ")
    assert "somebody said: Then cancel my ticket." in memory.content


@requirement("DIS-9")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (TO_CHANGE, NO_CANCEL),
        (TO_CANCEL, NO_CHANGE),
        (("user", "Please upgrade my ticket to a box."), NO_CHANGE),
        (("user", "Please change the price group of my ticket."), NO_CHANGE),
        (("user", "I have had a change of plans, about my ticket to another day."), NO_CHANGE),
        (("user", "Can I change my voucher?"), NO_CHANGE),
    ],
)
def test_a_rule_is_not_tied_to_a_request_that_it_does_not_govern(asked, answer):
    steps = [("system", SEATS), asked, TICKET, answer]
    for outcome in (Outcome.SUCCESS, Outcome.FAILURE, None):
        assert learned("Serve", *steps, outcome=outcome) == []


@requirement("DIS-9")
def test_what_was_refused_in_a_task_that_failed_shows_no_rule():
    """The agent may have taken a rule of days for one of price groups."""
    steps = [("system", SEATS), TO_CHANGE, TICKET, NO_CHANGE]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == []


@requirement("DIS-9")
def test_what_a_call_changes_is_not_the_case_that_a_rule_forbids():
    changed = 'change_ticket({"ticket_id": "T-88120", "kind": "%s"})'
    to_box = ("tool", changed % "box", '{"ticket_id": "T-88120"}')
    steps = [("system", SEATS), TO_CHANGE, TICKET, to_box]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == []
    to_friday = ("tool", changed % "standing_room", '{"ticket_id": "T-88120"}')
    steps = [("system", SEATS), TO_CHANGE, TICKET, to_friday]
    memory = only(learned("Serve", *steps, outcome=Outcome.FAILURE), "unchecked")
    assert "kind = standing_room" in memory.content
    another = ("tool", TICKET[1].replace("T-88120", "T-1"), TICKET[2].replace("T-88120", "T-1"))
    plain = (*TICKET[:2], TICKET[2].replace("standing_room", "box"))
    steps = [("system", SEATS), TO_CHANGE, plain, another, to_friday]
    assert learned("Serve", *steps, outcome=Outcome.FAILURE) == [], "that is another ticket"


@requirement("DIS-4", "DIS-9")
def test_a_refusal_that_a_checked_success_bears_out_is_told_with_what_was_asked():
    steps = [("system", POLICY), ("user", "Hi there! What about my order?"),
             ("agent", "Could you tell me more?"),
             ("user", "My order number is W-2231. Please remove the gift wrap."),
             ("agent", "I can add gift wrap for you, but not remove it.")]  # fmt: skip
    memory = only(learned("Serve", *steps, outcome=Outcome.SUCCESS), "policy")
    assert memory.title.endswith("Gift wrap: The customer can add but not remove gift wrap.")
    assert "somebody said: Please remove the gift wrap." in memory.content
    assert "W-2231" not in memory.content


# Tools: what counts into an amount, and what a search wants.


@requirement("DIS-4")
def test_where_amounts_do_not_agree_the_lesson_has_all_that_counts():
    paid = 'book({"payments": [{"by": "card", "amount": 40}], "seats": ["a", "b"], "bags": 1})'
    refused = "Error: payments do not add up, the total is 90, but 40 was paid"
    memory = only(learned("Book two seats", ("tool", paid, refused)), "refused")
    assert "Beside it the call had: 2 seats, `bags` = 1." in memory.content


@requirement("DIS-4", "DIS-9")
def test_a_search_is_learned_by_how_much_less_was_asked_and_not_by_its_words():
    nothing = "Error: No results found for query. Use a less specific query."
    narrow = (
        'search({"query": "site:example.org \\"blue heron\\" nesting places of the year 2019"})'
    )
    wide = 'search({"query": "blue heron nesting"})'
    steps = [("tool", narrow, nothing), ("tool", wide, "1. Herons: where they nest")]
    memory = only(learned("Where do herons nest?", *steps), "loosened")
    assert memory.title == (
        "`search` finds nothing for narrow queries: it found something with 3 words instead of 9, "
        "without `site:` or the like, without quoted phrases"
    )
    other = 'search({"query": "grey heron nesting sites in the whole of Europe 2020"})'
    assert learned("Where?", ("tool", narrow.replace("site:", "").replace('\\"', ""), nothing),
                   ("tool", other, "1. Herons")) == []  # fmt: skip


# Surroundings and programs.

FIRST = "from helpers import ask\n\nrows = ask('herons')\nprint(len(rows))\n"
SECOND = "rows = ask('storks')\nprint(len(rows))\n"
UNDEFINED = """exit code 1
Traceback (most recent call last):
  File "/srv/run.py", line 1, in <module>
    rows = ask('storks')
NameError: name 'ask' is not defined"""


@requirement("DIS-4", "DIS-9")
def test_programs_that_start_afresh_are_a_warning():
    ran = ("execute", FIRST, "exit code 0\n12")
    memory = only(learned("Count", ran, ("execute", SECOND, UNDEFINED)), "afresh")
    assert "`from helpers import ask`" in memory.content
    shown = ("agent", f"Let us do it:\n```python\n{FIRST}```\n```python\n{SECOND}```")
    assert only(learned("Count", shown, ("execute", SECOND, UNDEFINED)), "afresh")
    assert learned("Count", ("execute", SECOND, UNDEFINED)) == [], "nobody had it before"
    inside = ("execute", "def f():\n    from helpers import ask\n", "exit code 0\n")
    assert learned("Count", inside, ("execute", SECOND, UNDEFINED)) == []


@requirement("DIS-4")
@pytest.mark.parametrize(
    ("command", "printed", "rule"),
    [
        ("{'a': 1}", "exit code 1\nunknown language json", "language"),
        ("    import csv\n    print(1)\n",
         'exit code 1\n  File "x.py", line 1\n    import csv\nIndentationError: unexpected indent',
         "indented"),
    ],
)  # fmt: skip
def test_what_runs_programs_has_its_ways(command, printed, rule):
    assert only(learned("Count", ("execute", command, printed)), rule).outcome is Outcome.FAILURE


@requirement("DIS-4")
def test_a_text_that_ends_its_own_quotes_is_a_warning():
    patch = 'submit("""--- a/x.py\n+++ b/x.py\n+    """What it is for."""\n""")\n'
    printed = 'Code parsing failed: SyntaxError\n+    """What it is for."""\nError: invalid syntax'
    memory = only(learned("Mend x", ("execute", patch, printed)), "quotes")
    assert "between '''" in memory.content
    assert learned("Mend x", ("execute", 'x = """a"""\ny = (\n', "SyntaxError: never closed")) == []


@requirement("DIS-9")
def test_a_script_that_speaks_of_an_unknown_language_itself_is_none():
    assert learned("Set it", ("execute", "python set.py", "exit code 1\nunknown language xy")) == []


WALL = "Address: https://birds.example/list\nTitle: Error 403\n\n## Error 403\n"
PAGE = "Address: https://birds.example/home\nTitle: Birds\n\nHerons nest in trees.\n"


@requirement("DIS-4")
def test_a_site_that_lets_no_program_in_is_a_warning_unless_it_let_one_in():
    opened = ("tool", 'visit_page({"url": "https://birds.example/list"})', WALL)
    memory = only(learned("How many herons?", opened, opened), "shut-out")
    assert memory.title == "birds.example lets no program in: “Error 403”"
    assert "was opened 2 times" in memory.content
    home = ("tool", 'visit_page({"url": "https://birds.example/home"})', PAGE)
    assert learned("How many herons?", opened, home) == []


@requirement("DIS-4")
def test_where_a_helper_comes_from_is_learned_from_the_program_that_ran():
    alone = ("execute", SECOND, UNDEFINED)
    ran = ("execute", f"import csv\n{FIRST}with open('a') as f:\n    print(f)\n", "exit code 0\n12")
    memory = only(learned("Count", alone, ran), "program")
    assert "+ from helpers import ask\n" in memory.content and "open(" not in memory.content


LOOKED_FOR = """import requests

url = "https://code.example/api/issues"
label = "Bug"
answer = requests.get(url, params={"label": label, "state": "closed"})
issues = answer.json()
if not issues:
    print("No issues found with this label.")
else:
    print(min(issue["closed"] for issue in issues))
"""


@requirement("DIS-4", "DIS-9")
def test_a_program_that_found_nothing_teaches_the_value_that_did():
    nothing = ("execute", LOOKED_FOR, "exit code 0\nNo issues found with this label.")
    named = ("execute", LOOKED_FOR.replace('"Bug"', '"01 - Bug"'), "exit code 0\n2020-08-27")
    memory = only(learned("When was the first bug closed?", nothing, named), "found")
    assert '- label = "Bug"\n+ label = "01 - Bug"' in memory.content
    assert "its result was not checked" in memory.content
    still = (*named[:2], "exit code 0\nNo issues found with this label.")
    assert learned("When was the first bug closed?", nothing, still) == []


@requirement("DIS-4")
def test_what_a_service_says_beside_the_error_is_what_it_refused():
    printed = """exit code 1
Traceback (most recent call last):
  File "/srv/run.py", line 3, in <module>
    text = captions("x1")
KeyError: 'transcript'
{'message': 'You are not subscribed to this API.'}"""
    program = "from helpers import captions\n\ntext = captions('x1')\n"
    memory = only(learned("What is said in the film?", ("execute", program, printed)), "forbidden")
    assert "You are not subscribed to this API" in memory.title


# An answer that nobody looked up.


@requirement("DIS-9")
def test_that_one_should_look_things_up_is_no_lesson():
    plan = ("think", "1. Ask the search_agent to retrieve the count of herons from the report.")
    claim = ("think", "I have verified the number in the yearly report of the herons.")
    answered = ("execute", 'final_answer("12")', "12")
    assert learned("How many herons?", plan, claim, answered) == []
    told = ("agent", "I've checked the online database of herons: there are 12.")
    assert learned("How many herons?", told, ("agent", "TERMINATE")) == []


# A limit of what runs the programs.


@requirement("DIS-4", "DIS-9")
def test_a_limit_is_told_with_its_number_and_what_helps_against_it():
    code = "rows = list(range(9_000_000))\nseen = {}\nfor row in rows:\n    seen[row] = row * row"
    told = (
        "exit code 1\nInterpreterError: Reached the max number of operations of 10000000. Maybe "
        "there is an infinite loop somewhere."
    )
    memory = only(learned("Sum the squares of the rows", ("execute", code, told)), "forbidden")
    assert memory.title == "Programs here are broken off after 10,000,000 operations " + (
        "(InterpreterError)"
    )
    assert "Sum the squares of the rows" in memory.content
    assert "more than 10,000,000 operations: cut the data down" in memory.content
    assert "another way" not in memory.content
