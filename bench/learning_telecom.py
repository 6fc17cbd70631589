"""τ²-bench telecom: a phone that does not work, 18 things to do about it, assertions that decide.

The agent reads the phone's and the line's settings, asks the memory about each of them, and does
what it is told, best first, until the customer's problem is gone. After each step it looks at
the setting it had asked about and at what a customer can see (signal, data, speed, picture
messages): no change of the setting, or a change for the worse, counts against the memory that it
followed; better counts for it, and so does what nobody can see in a task that is solved. Of
what nobody can see in one that is not, nothing is told.
Nothing else is learnt from: no recorded solution is ever read, and no step is taken back.
With noise, one verdict in five is turned round.
"""

from __future__ import annotations

import importlib.util
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.learning_choice import wrong_feedback
from bench.learning_loop import (
    PAUSE,
    START,
    SYSTEMS,
    Stream,
    System,
    Task,
    calibration,
    lesson,
    quick_folder,
)
from bench.learning_parameters import parameters as chosen_parameters
from bench.learning_simple import LEARNERS, Learner, Space, World
from bench.learning_vectors import Embedded
from reasonbank import Bank, Memory, Outcome
from reasonbank.store.vectors import embedding_text

CONDITIONS = ("clean", "noise")
TASKS = 300
EARLY = 200
"""Success is counted after so many tasks of own experience."""
BUDGET = 10
"""A customer follows so many instructions and then hangs up; no solution needs many more."""
WAYS = 3
"""So many memories are heard about each line."""
IDS = {"customer_id": "C1001", "line_id": "L1002"}
USER, AGENT = "user", "agent"
ACTIONS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "network mode": ("Change the network mode preference to 4G and 5G", USER,
                     "set_network_mode_preference", {"mode": "4g_5g_preferred"}),
    "airplane": ("Toggle airplane mode", USER, "toggle_airplane_mode", {}),
    "roaming": ("Toggle data roaming on the phone", USER, "toggle_roaming", {}),
    "line roaming": ("Enable roaming for the line", AGENT, "enable_roaming", IDS),
    "data": ("Toggle mobile data", USER, "toggle_data", {}),
    "refuel": ("Refuel the data allowance of the line", AGENT, "refuel_data",
               IDS | {"gb_amount": 2.0}),
    "reboot": ("Restart the phone", USER, "reboot_device", {}),
    "apn": ("Reset the APN and MMSC settings, then restart", USER, "reset_apn_settings", {}),
    "wifi calling": ("Toggle Wi-Fi calling", USER, "toggle_wifi_calling", {}),
    "sms": ("Let the messaging app use sms", USER, "grant_app_permission",
            {"app_name": "messaging", "permission": "sms"}),
    "storage": ("Let the messaging app use storage", USER, "grant_app_permission",
                {"app_name": "messaging", "permission": "storage"}),
    "sim": ("Reseat the SIM card", USER, "reseat_sim_card", {}),
    "data saver": ("Toggle data saver mode", USER, "toggle_data_saver_mode", {}),
    "vpn": ("Disconnect the VPN", USER, "disconnect_vpn", {}),
    "human": ("Hand over to a human agent", AGENT, "transfer_to_human_agents",
              {"summary": "not solved"}),
    "bill": ("Send a payment request for the bill", AGENT, "send_payment_request",
             {"customer_id": "C1001", "bill_id": "B1234321"}),
    "pay": ("Pay the payment request", USER, "make_payment", {}),
    "resume": ("Resume the suspended line", AGENT, "resume_line", IDS),
}  # fmt: skip
CHECKS = (
    "check_network_mode_preference", "check_sim_status", "check_data_restriction_status",
    "check_wifi_calling_status", "check_vpn_status", "check_payment_request",
)  # fmt: skip


def missing() -> str | None:
    """What to install, if the environment is not here."""
    if importlib.util.find_spec("tau2") and importlib.util.find_spec("loguru"):
        return None
    return "see docs/benchmarks.md for the two pip commands that bring τ²-bench"


@dataclass(slots=True)
class Calls:
    solved: list[bool] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    silent: list[bool] = field(default_factory=list)
    """Of every line: was nothing said about it?"""
    expected: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    """Of every step that could be judged: how likely it was said to help, whether it did, and
    what was told of that."""

    def numbers(self) -> dict[str, float]:
        ece, brier = calibration(self.expected, self.told)
        hidden, _ = calibration(self.expected, self.seen)
        late = self.solved[min(EARLY, len(self.solved) // 2) :]
        return {
            "success": sum(self.solved) / len(self.solved),
            "end": sum(late) / len(late),
            "regret": float(len(self.solved) - sum(self.solved)),
            "steps": sum(self.steps) / len(self.steps),
            "tokens": sum(self.tokens) / len(self.tokens),
            "silent": sum(self.silent) / max(1, len(self.silent)),
            "ece": ece,
            "ece_hidden": hidden,
            "brier": brier,
        }

    def curve(self, points: int = 50) -> list[float]:
        size = max(1, len(self.solved) // points)
        parts = range(0, len(self.solved), size)
        return [float(sum(not s for s in self.solved[: at + size])) for at in parts]


class Phone:
    """One task's world."""

    def __init__(self, task: Any) -> None:
        from tau2.domains.telecom.environment import get_environment

        self.task = task
        self.world = get_environment()
        state = task.initial_state
        self.world.set_state(state.initialization_data, state.initialization_actions, [])

    def lines(self) -> list[str]:
        """What the phone and the line say, a line each, with where the customer is."""
        where = "abroad" if "abroad" in self.task.ticket else "at home"
        user = self.world.use_user_tool
        said = [str(user(check)) for check in CHECKS]
        said += str(user("check_network_status")).splitlines()[:8]
        said += str(user("check_apn_settings")).splitlines()[:2]
        permissions = str(user("check_app_permissions", app_name="messaging"))
        said += [
            f"Messaging {'may' if name in permissions else 'may not'} use {name}"
            for name in ("sms", "storage")
        ]
        line = self.world.use_tool("get_details_by_id", id="L1002")
        usage = self.world.use_tool("get_data_usage", **IDS)
        used_up = usage["data_used_gb"] >= usage["data_limit_gb"] + usage["data_refueling_gb"]
        said += [
            f"Line status: {line.status.value}",
            f"Roaming enabled for the line: {line.roaming_enabled}",
            f"Data allowance {'used up' if used_up else 'left'}",
        ]
        return [f"{each} ({where})" for each in dict.fromkeys(said)]

    def act(self, action: str) -> None:
        _, who, tool, arguments = ACTIONS[action]
        use = self.world.use_user_tool if who == USER else self.world.use_tool
        try:
            use(tool, **arguments)
            if action == "apn":
                self.world.use_user_tool("reboot_device")
        except ValueError:
            pass  # Not possible now, such as paying where nobody asked for money.
        self.world.sync_tools()

    def health(self) -> tuple[int, ...]:
        """What the customer can see: signal, data, speed, picture messages."""
        tools = self.world.user_tools
        connected = "connected" in str(tools.device.network_connection_status.value)
        speed, _ = tools._run_speed_test()
        return (connected, tools._get_mobile_data_working(), int(speed or 0), tools._can_send_mms())

    def solved(self) -> bool:
        return all(
            self.world.run_env_assertion(assertion, raise_assertion_error=False)
            for assertion in self.task.evaluation_criteria.env_assertions
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """About one line of a phone: what to do, how sure that is, and who said so."""

    score: float
    action: str
    memory: str
    line: str
    session: str
    expected: float | None = None


class Nobody:
    """No memory: anything, in any order."""

    def ask(self, line: str, session: str) -> list[Advice]:
        return []

    def tell(self, advice: Advice, *, succeeded: bool) -> None:
        pass


class Remembering:
    """A bank, asked about one line after another."""

    tokens = 0

    def __init__(self, system: System, folder: str, embedder: Embedded) -> None:
        self.system, self.embedder, self.now = system, embedder, START
        # A setting that no memory is about is left alone: here any bank may keep silent.
        settings = replace(system.settings, search=replace(system.settings.search, threshold=-1.0))
        self.bank = Bank.open(
            f"sqlite:///{folder}/bank.db", workspace=folder, settings=settings,
            embedder=embedder, clock=lambda: self.now,
        )  # fmt: skip
        self.actions = {
            self.bank.record(
                Memory(title=title, description=title, content=name, outcome=Outcome.SUCCESS)
            ).id: name
            for name, (title, *_) in ACTIONS.items()
        }

    def ask(self, line: str, session: str) -> list[Advice]:
        least = None if self.system.defaults else 0.0
        reply = self.bank.search(line, limit=WAYS, min_confidence=least, session=session)
        self.tokens += reply.tokens_used
        return [
            Advice(
                score=hit.score, action=self.actions[hit.memory.id], memory=hit.memory.id,
                line=line, session=session, expected=hit.expected,
            )
            for hit in reply
            if not hit.warning
        ]  # fmt: skip

    def tell(self, advice: Advice, *, succeeded: bool) -> None:
        if self.system.reports:
            self.bank.outcome(advice.memory, succeeded=succeeded, session=advice.session)
        if self.system.appends:
            memory = lesson(advice.line, advice.action, succeeded=succeeded)
            self.embedder.found_by(embedding_text(memory), advice.line)
            self.actions[self.bank.record(memory).id] = advice.action


class Simple:
    """A simple learner, with each line as a question."""

    def __init__(
        self, name: str, lines: list[str], embedder: Embedded, chosen: Mapping[str, float]
    ) -> None:
        lessons = {action: (title, title) for action, (title, *_) in ACTIONS.items()}
        asked = [Task(text=line, rewards={}, kind="") for line in lines]
        stream = Stream(name="telecom", condition="clean", lessons=lessons, tasks=asked)
        self.space = Space(stream, embedder)
        self.learner: Learner = LEARNERS[name](World(stream, self.space), **chosen)

    def ask(self, line: str, session: str) -> list[Advice]:
        scores = self.learner.scores(self.space.place[line])
        return [
            Advice(
                score=float(scores[best]), action=self.space.actions[best], memory="", line=line,
                session=session,
                expected=self.learner.forecast(self.space.place[line], int(best)),
            )
            for best in (-scores).argsort(kind="stable")[:WAYS]
        ]  # fmt: skip

    def tell(self, advice: Advice, *, succeeded: bool) -> None:
        question = self.space.place[advice.line]
        self.learner.learn(question, self.space.actions.index(advice.action), succeeded, 1.0)


def play(
    name: str, seed: int, embedder: Embedded, length: int | None, *, condition: str = "clean",
    parameters: Mapping[str, float] | None = None,
) -> Calls:  # fmt: skip
    """``parameters``: of a simple learner, if not those that were chosen."""
    from loguru import logger

    logger.remove()
    rng = random.Random(f"telecom {seed}")
    chosen = rng.sample(all_tasks(), length or TASKS)
    wrong = wrong_feedback(condition)
    calls = Calls()
    if name in LEARNERS:
        lines = {line: None for task in chosen for line in Phone(task).lines()}
        if parameters is None:
            parameters = chosen_parameters(name, "telecom", condition)
        learner = Simple(name, list(lines), embedder, parameters)
        for number, task in enumerate(chosen):
            call(learner, Phone(task), f"task {number}", rng, wrong, calls)
        return calls
    system = next(each for each in SYSTEMS if each.name == name)
    if not system.remembers:
        for number, task in enumerate(chosen):
            call(Nobody(), Phone(task), f"task {number}", rng, wrong, calls)
        return calls
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        memories = Remembering(system, folder, embedder)
        with memories.bank:
            for number, task in enumerate(chosen):
                call(memories, Phone(task), f"task {number}", rng, wrong, calls)
                memories.now += PAUSE
    return calls


def all_tasks() -> list[Any]:
    import tau2
    from tau2.domains.telecom.environment import load_tasks

    data = Path(tau2.__file__).parent / "data" / "tau2" / "domains" / "telecom"
    return list(load_tasks(str(data / "tasks_full.json")))


def call(
    memory: Nobody | Remembering | Simple, phone: Phone, name: str, rng: random.Random,
    wrong: float, calls: Calls,
) -> None:  # fmt: skip
    plan = planned(memory, phone, name, rng, calls)
    done: set[str] = set()
    unjudged: list[Advice] = []
    steps = 0
    solved = False

    def tell(advice: Advice, succeeded: bool) -> None:
        told = succeeded != (rng.random() < wrong)
        if advice.expected is not None:
            calls.expected.append(advice.expected)
            calls.seen.append(float(succeeded))
            calls.told.append(float(told))
        memory.tell(advice, succeeded=told)

    for advice in plan:
        # What it was meant for may have changed with an earlier step.
        if advice.action in done or (advice.line and advice.line not in phone.lines()):
            continue
        done.add(advice.action)
        steps += 1
        before = phone.health()
        phone.act(advice.action)
        solved = phone.solved()
        after = phone.health()
        if advice.line:
            if after < before or advice.line in phone.lines():
                tell(advice, False)
            elif solved or after > before:
                tell(advice, True)
            else:
                unjudged.append(advice)
        if solved or steps == BUDGET:
            break
    # If it is not solved, nobody knows whether these had a part in it: nothing is told of them.
    for advice in unjudged if solved else []:
        tell(advice, True)
    calls.solved.append(solved)
    calls.steps.append(steps)


def planned(
    memory: Nobody | Remembering | Simple, phone: Phone, name: str, rng: random.Random,
    calls: Calls,
) -> list[Advice]:  # fmt: skip
    """What to do, best first. Without a memory, all in any order."""
    if isinstance(memory, Nobody):
        calls.tokens.append(0)
        order = rng.sample(list(ACTIONS), len(ACTIONS))
        return [Advice(score=0, action=each, memory="", line="", session="") for each in order]
    before = getattr(memory, "tokens", 0)
    found: list[Advice] = []
    for place, line in enumerate(phone.lines()):
        heard = memory.ask(line, f"{name} line {place}")
        calls.silent.append(not heard)
        found += heard
    calls.tokens.append(getattr(memory, "tokens", 0) - before)
    return sorted(found, key=lambda each: -each.score)
