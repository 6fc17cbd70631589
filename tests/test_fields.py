"""A rule beside a field: what it lets pass, makes fit or refuses, in one sentence everywhere."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from reasonbank import InvalidInput, Memory
from reasonbank.fields import (
    ENDLESS,
    LIMITS,
    SHARE,
    Choice,
    Flag,
    Id,
    Json,
    Limits,
    Many,
    Moment,
    Nested,
    Number,
    OneOf,
    Span,
    Text,
    Whole,
    check_payload,
    checked,
    from_json,
    moment,
    parse_id,
    plain,
    rule,
    rule_of,
    ruled,
    text,
    to_json,
)
from reasonbank.ledger.payloads import Table
from reasonbank.surfaces import shapes
from tests.surfaces.http_server import LESSON
from tests.surfaces.mcp_agent import connected

ID = "01900000-0000-7000-8000-000000000001"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Wheel:
    size: Annotated[int, Whole(1, 30), "In inches."]
    spare: bool = False


@dataclass(frozen=True, kw_only=True)
class RaceCar:
    name: Annotated[str, Text("title", strip=True)]
    colour: Colour = Colour.RED
    wheels: tuple[Wheel, ...] = ()
    owners: Annotated[tuple[str, ...], Many(Id(), 2, unique=True)] = ()
    colours: tuple[Colour, ...] = ()
    fuel: Annotated[float, SHARE] | None = None
    built: datetime | None = None
    laps: Annotated[tuple[int, int], Span()] | None = None
    gear: Annotated[str, OneOf("low", "high")] = "low"
    notes: Annotated[dict[str, Any], Json(2)] = field(default_factory=dict)
    spare: Wheel | None = None

    def check_together(self) -> None:
        if self.spare and not self.wheels:
            raise InvalidInput("spare", "is of no use without wheels")


def a_car(**known: Any) -> RaceCar:
    return RaceCar(**{"name": "Ant"} | known)


def refusal(of: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        of()
    assert str(refused.value) == f"{refused.value.field}: {refused.value.problem}"
    return str(refused.value)


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({"name": 5}, "name: must be text, got int"),
        ({"name": " "}, "name: must not be blank"),
        ({"name": "x" * 201}, "name: has 201 characters; at most 200 are allowed"),
        ({"name": "a\0b\0"}, "name: has a NUL character at 1; remove it"),
        ({"name": "é\ud800"}, "name: has a lone surrogate at 1, which is not text; remove it"),
        ({"colour": "green"}, "colour: must be one of red, blue (got 'green')"),
        ({"colour": None}, "colour: must be one of red, blue (got 'None')"),
        ({"colour": "x" * 81}, f"colour: must be one of red, blue (got '{'x' * 80}')"),
        ({"colours": ("red",) * 3}, "colours: has 3 entries; at most 2 are allowed"),
        ({"wheels": 5}, "wheels: must be a list, got int"),
        ({"wheels": (5,)}, "wheels: must be an object, got int"),
        ({"wheels": (Wheel(size=0),)}, "wheels.size: 0 is not a whole number from 1 to 30"),
        ({"wheels": (Wheel(size=True),)}, "wheels.size: True is not a whole number from 1 to 30"),
        ({"wheels": ({"size": 1, "grip": 2},)}, "wheels.grip: is not a field of a wheel"),
        ({"wheels": ({},)}, "wheels.size: is missing"),
        ({"wheels": (Wheel(size=1, spare="no"),)}, "wheels.spare: must be true or false"),
        ({"owners": "me"}, "owners: must be a list, got str"),
        ({"owners": (5,)}, "owners: must contain only strings (found int)"),
        ({"owners": ("me",)}, "owners: 'me' is not a UUID; give the whole id"),
        ({"owners": (ID,) * 3}, "owners: has 3 entries; at most 2 are allowed"),
        ({"fuel": 2}, "fuel: 2 is not a number from 0 to 1"),
        ({"fuel": float("nan")}, "fuel: nan is not a number from 0 to 1"),
        ({"fuel": True}, "fuel: True is not a number from 0 to 1"),
        ({"built": "today"}, "built: must be a time, got str"),
        ({"laps": (1,)}, "laps: must be two numbers: the first and the last step"),
        ({"laps": (2, 1)}, "laps: begins at 2, after its end at 1"),
        ({"gear": "middle"}, "gear: must be one of low, high (got 'middle')"),
        ({"notes": []}, "notes: must be an object"),
        ({"notes": {"a": {"b": {"c": 1}}}}, "notes.a.b.c: is nested too deeply"),
        ({"notes": {"a": float("inf")}}, "notes: cannot be stored as JSON"),
        ({"spare": Wheel(size=1)}, "spare: is of no use without wheels"),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused_by_name_and_reason(known: Any, sentence: str) -> None:
    assert refusal(lambda: checked(a_car(**known))).startswith(sentence)


def test_what_is_fit_is_not_copied() -> None:
    car = a_car(wheels=(Wheel(size=3),), owners=(ID,), fuel=0.5, spare=Wheel(size=4))
    assert checked(car) is car


def test_what_can_be_made_fit_is() -> None:
    owner = ID.upper().replace("-", "")
    made = checked(a_car(name=" Ant ", colour="blue", owners=[owner, ID], colours=["red", "red"]))
    assert made == a_car(name="Ant", colour=Colour.BLUE, owners=(ID,), colours=(Colour.RED,))
    assert made.colour is Colour.BLUE
    assert made.colours[0] is Colour.RED
    assert checked(a_car(colours=("blue",))).colours[0] is Colour.BLUE
    assert checked(a_car(colours=(Colour.RED, Colour.RED))).colours == (Colour.RED,)


def test_limits_may_be_lowered_and_are_found_by_name() -> None:
    low = Limits(title=3)
    assert checked(a_car(name="Ant"), low).name == "Ant"
    assert refusal(lambda: checked(a_car(name="Bees"), low)).endswith("at most 3 are allowed")


def test_json_follows_from_the_types_and_leads_back() -> None:
    car = a_car(
        colour=Colour.BLUE, wheels=(Wheel(size=3),), colours=(Colour.RED,), laps=(1, 2),
        built=datetime(2026, 1, 2, tzinfo=UTC), notes={"a": [1]}, spare=Wheel(size=4, spare=True),
    )  # fmt: skip
    told = to_json(car)
    assert json.loads(json.dumps(told)) == told
    assert told["wheels"] == [{"size": 3, "spare": False}]
    assert (told["laps"], told["built"]) == ([1, 2], "2026-01-02T00:00:00+00:00")
    assert from_json(RaceCar, told) == from_json(RaceCar, json.dumps(told)) == car
    assert plain([car, {"at": car.built}, Colour.RED])[1:] == [{"at": told["built"]}, "red"]


class Engine(Wheel):
    def to_json(self) -> str:
        return f"{self.size} litres"


def test_a_part_may_tell_itself_in_its_own_way() -> None:
    engine = Engine(size=3)
    assert to_json(a_car(spare=engine))["spare"] == plain(engine) == "3 litres"
    assert plain((Wheel(size=3), {1: None})) == [{"size": 3, "spare": False}, {"1": None}]
    assert (type(plain(Colour.RED)), type(plain(1.5))) == (str, float)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("{", "a race car: is not JSON: '{'"),
        ("x" * 81, f"a race car: is not JSON: '{'x' * 80}'"),
        ([], "a race car: must be an object, got list"),
        ({}, "name: is missing"),
        ({"name": None}, "name: is missing"),
        ({"name": "x", "wings": 2}, "wings: is not a field of a race car"),
        ({"name": "x", "wings": 2, 5: 1}, "5: is not a field of a race car"),
        ({"name": "x", "built": "soon"}, "built: 'soon' is not an ISO 8601 time"),
        ({"name": "x", "built": "x" * 81}, f"built: '{'x' * 80}' is not an ISO 8601 time"),
        ({"name": "x", "spare": {"size": 1, "x": 1}}, "spare.x: is not a field of a wheel"),
        ({"name": "x", "spare": 5}, "spare: must be an object, got int"),
        ({"name": "x", "colour": "green"}, "colour: must be one of red, blue (got 'green')"),
        ({"name": "x", "colours": ["green"]}, "colours: must be one of red, blue (got 'green')"),
        ({"name": "x", "colours": [5]}, "colours: must contain only strings (found int)"),
        ({"name": "x", "wheels": {}}, "wheels: must be a list, got dict"),
        ({"name": "x", "laps": [2, 1]}, "laps: begins at 2, after its end at 1"),
    ],
    ids=str,
)
def test_json_that_is_none_of_it_is_refused(value: Any, sentence: str) -> None:
    assert refusal(lambda: from_json(RaceCar, value)) == sentence


def test_a_refusal_names_the_kind_with_its_article() -> None:
    assert refusal(lambda: from_json(Engine, [])) == "an engine: must be an object, got list"
    assert refusal(lambda: from_json(Wheel, [])) == "a wheel: must be an object, got list"


def test_json_may_leave_out_a_list_or_say_null() -> None:
    assert from_json(RaceCar, {"name": "x", "wheels": None, "fuel": None}) == a_car(name="x")


@dataclass(frozen=True, kw_only=True)
class Place:
    row: Annotated[int, Whole(1)] | None
    side: Colour = Colour.RED


def test_json_may_say_null_for_what_it_must_not_leave_out() -> None:
    assert from_json(Place, {"row": None}) == Place(row=None)
    assert refusal(lambda: from_json(Place, {})) == "row: is missing"


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_time_is_in_utc_wherever_it_is_read() -> None:
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    two_hours_east = noon.astimezone(timezone(timedelta(hours=2)))
    for told in (noon, two_hours_east, two_hours_east.isoformat(), "2026-01-02T12:00"):
        assert moment(told, "x") == noon
        assert moment(told, "x").tzinfo is UTC


def test_an_id_is_refused_by_its_first_characters() -> None:
    assert refusal(lambda: parse_id("x" * 81)) == (
        f"id: '{'x' * 80}' is not a UUID; give the whole id, as you were told it"
    )


def test_a_payload_may_know_more_but_not_less() -> None:
    check_payload(Wheel, {"size": 3, "of a later version": 1})
    assert refusal(lambda: check_payload(Wheel, {"grip": 3})) == "size: is missing"
    assert refusal(lambda: check_payload(Wheel, {"size": 31})).startswith("size: 31 is not")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (Whole(3), [3, 1 << 62], [2, (1 << 62) + 1, 3.0, "3", None, 1 << 80]),
        (Whole(-1, 1), [-1, 0, 1], [-2, 2]),
        (Number(0.5), [0.5, 1, 1e9], [0.4, float("inf"), float("nan"), True, "1", None]),
        (Number(0, 2), [0, 2.0], [-0.1, 2.1]),
        (Table(Whole(1, 9)), [{}, {"a": 1}], [{"a": 10}, [], None]),
        (Table(SHARE, Id()), [{ID: 1}], [{"x": 1}]),
        (Text(2, blank=True), ["", " ", "ab"], ["abc", None]),
        (Span(), [(0, 0), (0, 10**9)], [(-1, 0), (0, 10**9 + 1), (0, True), (1, 0)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_rule_has_exact_edges(rule: Any, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert rule.check(value, "x", Limits()) == value
    for value in bad:
        assert refusal(lambda value=value: rule.check(value, "x", Limits()))[:3] == "x: "


def test_text_is_kept_as_it_is_and_not_blank_unless_said_otherwise() -> None:
    assert text(" a ", "x", 3) == Text(3).check(" a ", "x", Limits()) == " a "
    assert text(" a ", "x", 1, strip=True) == "a"
    assert text(" ", "x", 1, blank=True) == " "
    assert refusal(lambda: text(" ", "x", 1)) == "x: must not be blank"
    assert refusal(lambda: Text(1).check(" ", "x", Limits())) == "x: must not be blank"


def test_a_rule_is_what_it_was_made_with() -> None:
    assert Many(Text(2)).check(("a", "a"), "x", Limits()) == ("a", "a")
    assert OneOf("", "low").check("low", "x", Limits()) == "low"
    deep: dict[str, Any] = {"a": [[1]], "b" * 41: {"c": [2]}}
    assert Json(3).check(deep, "x", Limits()) is deep
    assert refusal(lambda: Json(2).check({"a": [[1]]}, "x", Limits())) == (
        "x.a: is nested too deeply"
    )
    assert refusal(lambda: Json(1).check({"b" * 41: {"c": 2}}, "x", Limits())) == (
        f"x.{'b' * 40}.c: is nested too deeply"
    )


@pytest.mark.parametrize(
    ("hint", "kind", "optional"),
    [
        (Colour, Choice, False),
        (Wheel, Nested, False),
        (datetime, Moment, False),
        (bool, Flag, False),
        (bool | None, Flag, True),
        (bool | str, Flag, False),
        (Annotated[str, Id()] | None, Id, True),
        (Annotated[bool | None, "With a meaning."], Flag, True),
        (tuple[Wheel, ...], Many, False),
        (tuple[Colour, ...], Many, False),
        (tuple[int], type(None), False),
        (str, type(None), False),
        (Any, type(None), False),
    ],
)
def test_a_type_implies_its_rule(hint: Any, kind: type, optional: bool) -> None:
    found, may_be_none = rule_of(hint)
    assert (type(found), may_be_none) == (kind, optional)


def test_a_list_of_choices_holds_each_once_and_a_list_of_others_any_number() -> None:
    colours, wheels = rule_of(tuple[Colour, ...])[0], rule_of(tuple[Wheel, ...])[0]
    assert isinstance(colours, Many) and isinstance(wheels, Many)
    assert (colours.most, wheels.most) == (2, ENDLESS)
    assert colours.check(["red", "red"], "x", Limits()) == (Colour.RED,)
    assert len(wheels.check([{"size": 3}, {"size": 3}], "x", Limits())) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ((1 << 64) - 1, "18446744073709551615"),
        (1 << 64, "that"),
        (-(1 << 64), "that"),
        ("x" * 78, f"'{'x' * 78}'"),
        ("x" * 79, f"'{'x' * 79}…"),
    ],
    ids=["largest", "too large", "too small", "longest", "too long"],
)
def test_a_refusal_shows_as_much_of_a_value_as_can_be_read(value: Any, shown: str) -> None:
    sentence = refusal(lambda: Whole(1, 9).check(value, "x", Limits()))
    assert sentence == f"x: {shown} is not a whole number from 1 to 9"


@pytest.mark.parametrize(
    ("rule", "schema"),
    [
        (Id(), {"minLength": 32, "maxLength": 64}),
        (Text(5), {"minLength": 1, "maxLength": 5}),
        (Text("tag", blank=True), {"maxLength": 64}),
        (Number(0), {"minimum": 0}),
        (Number(0, 1), {"minimum": 0, "maximum": 1}),
        (OneOf("low", ""), {"enum": ["low", ""]}),
        (Choice(Colour), {"enum": ["red", "blue"]}),
        (Many(Text(5), "tags"),
         {"items": {"type": "string", "minLength": 1, "maxLength": 5}, "maxItems": 32}),
        (Many(Number(0), 3), {"maxItems": 3}),
        (Many(Flag()), {}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_rule_has_a_schema(rule: Any, schema: dict[str, Any]) -> None:
    assert rule.schema() == schema


def test_a_rule_is_told_in_words_and_as_a_schema() -> None:
    assert [str(f.rule) for f in ruled(Wheel)] == ["from 1 to 30", "true or false"]
    assert [f.meaning for f in ruled(Wheel)] == ["In inches.", ""]
    assert str(Whole(1)) == str(Number(1)) == "from 1 on"
    assert str(Text("content")) == "at most 32,000 characters"
    assert str(OneOf("low", "", "high")) == "low or high"
    assert isinstance(rule(Wheel, "spare"), Flag)
    schema = TypeAdapter(shapes.given(Memory)).json_schema()["properties"]
    assert schema["title"] == {
        "type": "string", "minLength": 1, "maxLength": 200, "title": "Title",
        "description": "A short, telling name.",
    }  # fmt: skip
    assert schema["tags"]["items"] == {"type": "string", "minLength": 1, "maxLength": 64}
    assert (schema["tags"]["maxItems"], schema["outcome"]["enum"]) == (
        32, ["success", "failure", "mixed"],
    )  # fmt: skip


def test_pydantic_refuses_the_wrong_type_even_where_the_rule_would_do() -> None:
    doors = TypeAdapter(Annotated[int, Number(0, 9)])
    assert doors.validate_python(4) == 4
    with pytest.raises(ValidationError, match="valid integer"):
        doors.validate_python(4.5)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "wrong",
    [{"title": "x" * 201}, {"title": " "}, {"content": 5}, {"tags": ["x"] * 33}, {"tags": [5]},
     {"tags": ["x" * 65]}, {"description": "a\0b"}],
    ids=lambda wrong: str(wrong)[:30],
)  # fmt: skip
async def test_library_http_and_mcp_say_the_same_sentence(plain_bank, wrong: Any) -> None:
    lesson = LESSON | wrong
    sentence = refusal(lambda: plain_bank.record(Memory.from_json(lesson)))
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(shapes.given(Memory)).validate_json(json.dumps(lesson), strict=True)
    (found,) = refused.value.errors()
    assert f"{'.'.join(map(str, found['loc']))}: {shapes.problem(found)}" == sentence
    async with connected(plain_bank) as agent:
        assert (await agent.refused("memory_record", **lesson)).startswith(f"{sentence}. ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bell:
    """A single field."""

    note: Annotated[str, Text(9, strip=True)] = "a"


def test_a_dataclass_with_one_field_is_checked_and_written_like_any_other() -> None:
    assert checked(Bell(note=" b ")) == Bell(note="b")
    assert to_json(Bell()) == {"note": "a"}
    assert from_json(Bell, {"note": "c"}) == Bell(note="c")


def test_a_list_may_need_an_entry() -> None:
    some = Many(Text(9), 3, least=2)
    assert some.check(("a", "b"), "names", LIMITS) == ("a", "b")
    assert refusal(lambda: some.check(("a",), "names", LIMITS)) == (
        "names: must have at least 2 (got 1)"
    )
    assert some.schema() == {
        "items": {"type": "string", "minLength": 1, "maxLength": 9},
        "minItems": 2,
        "maxItems": 3,
    }
    assert "minItems" not in Many(Text(9)).schema()
