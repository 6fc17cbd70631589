"""What people look at, over HTTP: lessons and how far they are trusted, in pages and as a graph."""

from __future__ import annotations

import pytest
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, a_token, command, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("views")) as server:
        yield server


@pytest.fixture(scope="module")
def at_the_page(server):
    """What a browser sends whose user has signed in with a code: they are a person."""
    code, told = command(server.folder, "open", "--port", server.port)
    assert code == 0, told
    page = {"x-reasonbank-page": "1", "origin": server.address}
    shown = {"code": told["page"].partition("#code=")[2]}
    came_in = server.ask("POST", "/session", token="", json=shown, headers=page)
    assert came_in.status_code == 200, came_in.text
    return page | {"cookie": came_in.headers["set-cookie"].partition(";")[0]}


@pytest.fixture
def api(server, at_the_page, tmp_path):
    with server.client(token="", workspace=tmp_path, headers=at_the_page) as client:
        yield client


def record(api, title="Retry uploads", **fields):
    told = api.post("/memories", json=LESSON | {"title": title} | fields)
    assert told.status_code == 201, told.text
    return told.json()["id"]


def beside(folder):
    """Another project."""
    return folder.with_name(f"{folder.name}-beside")


def got(api, path, **query):
    told = api.get(path, params=query)
    assert told.status_code == 200, told.text
    return told.json()


def looked(api, query, **more):
    told = api.post("/look", json={"query": query} | more)
    assert told.status_code == 200, told.text
    return told.json()


def belief(api, id):
    return got(api, f"/memories/{id}/belief")


def rate(api, id, times, *, helpful=True):
    for number in range(times):
        rating = {"helpful": helpful, "session": f"{helpful} {number}"}
        assert api.post(f"/memories/{id}/feedback", json=rating).status_code == 200


# Looking


@requirement("WEB-1")
def test_who_looks_leaves_no_trace(api):
    id = record(api)
    before = got(api, "/audit", uses=True)
    for query in ("an upload breaks off half-way", "sourdough yeast", "sou", "sour"):
        looked(api, query)
    assert got(api, "/audit", uses=True) == before
    assert got(api, "/gaps") == []
    assert got(api, f"/memories/{id}")["usage_count"] == 0


def test_a_look_finds_what_a_search_finds_and_says_how_far_it_is_trusted(api):
    record(api)
    record(api, "Give up on uploads", content="Never retry an upload that broke off.")
    query = "an upload breaks off half-way"
    found = looked(api, query)
    asked = api.post("/search", json={"query": query, "explain": True}).json()
    assert [hit["id"] for hit in found["memories"]] == [hit["id"] for hit in asked["memories"]]
    for hit in found["memories"]:
        held = hit["belief"]
        assert held["low"] <= held["confidence"] <= held["high"]
        assert (held["trust"], held["initial"]) == ("untested", 0.8)
        assert hit["parts"]["composite"] > 0
    assert found["considered"] >= len(found["memories"]) and found["milliseconds"] >= 0


@requirement("RET-3", "RET-8")
def test_the_parts_of_a_score_add_up_by_the_weights_that_are_set(tmp_path):
    weights = {"SIMILARITY": "0.6", "RECENCY": "0.6", "ERROR_MATCH": "0"}
    settings = {f"REASONBANK_SEARCH_{name}": weight for name, weight in weights.items()}
    with serving(tmp_path, **settings) as server:
        assert server.ask("POST", "/memories", json=LESSON).status_code == 201
        query = {"query": "an upload breaks off half-way"}
        found = server.ask("POST", "/look", json=query).json()
    assert found["weights"] == {"similarity": 0.5, "recency": 0.5, "error_match": 0.0}
    [hit] = found["memories"]
    added = sum(weight * hit["parts"][name] for name, weight in found["weights"].items())
    assert hit["parts"]["composite"] == pytest.approx(added, abs=1e-4)


def test_what_was_left_out_is_named_with_how_near_it_was_and_why(api):
    record(api)
    record(api, "Knead the dough", content="Ten minutes.", description="When baking bread")
    found = looked(api, "an upload of the dough breaks off half-way", limit=1)
    [left] = found["dropped"]
    assert {left["title"], found["memories"][0]["title"]} == {"Retry uploads", "Knead the dough"}
    assert 0 < left["relevance"] <= 1 and left["reason"] == "beyond the limit"
    assert found["left_out"] == [{"reason": "beyond the limit", "count": 1}]


def test_where_nothing_is_known_the_nearest_is_named_and_how_often_it_was_asked(api):
    record(api)
    question = "quarterly tax return of a bakery"
    for _ in range(3):
        api.post("/search", json={"query": question})
    assert [gap["asked"] for gap in got(api, "/gaps")] == [3]
    found = looked(api, question)
    assert not [hit for hit in found["memories"] if not hit["weak"]]
    assert found["asked"]["asked"] == 3
    assert found["nearest"] is None or found["nearest"]["title"] == "Retry uploads"


def test_a_gap_that_was_asked_in_several_wordings_is_told_as_one(api):
    record(api)
    wordings = ["quarterly tax return of a bakery", "quarterly tax returns of a bakery"]
    for number, question in enumerate(wordings, 1):
        for _ in range(number):
            api.post("/search", json={"query": question})
    [gap] = got(api, "/gaps")
    assert (gap["question"], gap["wordings"], gap["asked"]) == (wordings[1], [wordings[0]], 3)
    for question in wordings:
        assert looked(api, question)["asked"] == gap


# In pages


@pytest.fixture
def many(api):
    return [record(api, f"Lesson {number}", tags=["even"] if number % 2 == 0 else ["odd"],
                   domain="numbers") for number in range(7)]  # fmt: skip


@pytest.mark.parametrize("sort", ["newest", "oldest", "used", "trust", "doubt"])
def test_pages_hold_everything_once(api, many, sort):
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = got(api, "/browse", sort=sort, limit=3, **({"cursor": cursor} if cursor else {}))
        assert page["total"] == 7
        found += [one["id"] for one in page["memories"]]
        cursor, pages = page["cursor"], pages + 1
    assert pages == 3 and sorted(found) == sorted(many)
    if sort == "newest":
        assert found == many[::-1]
    elif sort == "oldest":
        assert found == many


def test_the_most_used_the_most_trusted_and_the_most_doubted_come_first(api, many):
    api.post("/search", json={"query": "Lesson 3", "limit": 1, "session": "task"})
    used = [one for one in got(api, "/browse", sort="used")["memories"] if one["usage_count"]]
    assert used and used == got(api, "/browse", sort="used")["memories"][: len(used)]
    rate(api, many[1], 5)
    rate(api, many[5], 5, helpful=False)
    assert got(api, "/browse", sort="trust")["memories"][0]["id"] == many[1]
    assert got(api, "/browse", sort="doubt")["memories"][0]["id"] == many[5]


@requirement("WEB-1")
def test_lessons_are_counted_and_listed_by_how_far_they_are_trusted(api, many):
    rate(api, many[0], 40)
    rate(api, many[1], 1)
    rate(api, many[2], 8, helpful=False)
    api.post(f"/memories/{many[3]}/archive", json={})
    told = got(api, "/overview")
    counts = {"proven": 1, "likely": 1, "doubted": 1, "untested": 3, "archived": 1}
    assert {word: count for word, count in told["trust"].items() if count} == counts
    assert (told["known"], told["learned_this_week"]) == (6, 7)
    for word, count in counts.items():
        page = got(api, "/browse", trust=word)
        assert page["total"] == len(page["memories"]) == count
        assert {one["belief"]["trust"] for one in page["memories"]} == {word}
    both = got(api, "/browse", trust=["proven", "doubted"], sort="trust")
    assert [one["id"] for one in both["memories"]] == [many[0], many[2]]


def test_lessons_are_filtered_and_what_they_are_about_is_counted(api, many):
    assert got(api, "/browse", tags="even")["total"] == 4
    assert got(api, "/browse", tags="even", trust="untested", limit=2)["total"] == 4
    told = got(api, "/overview")
    assert told["tags"] == [{"name": "even", "count": 4}, {"name": "odd", "count": 3}]
    assert told["domains"] == [{"name": "numbers", "count": 7}]


@pytest.mark.parametrize(
    "cursor", ["x", "1", "-1.2", "1.2.3", "9" * 50 + ".1", "9" * 19 + ".1", "1." + "9" * 19]
)
def test_a_cursor_that_no_page_gave_is_refused(api, cursor):
    assert api.get("/browse", params={"cursor": cursor}).status_code == 400


# One memory


@requirement("CON-1")
def test_evidence_narrows_the_interval_and_the_series_ends_with_it(api):
    id = record(api)
    begun = belief(api, id)["now"]
    rate(api, id, 6)
    told = belief(api, id)
    now = told["now"]
    assert now["high"] - now["low"] < begun["high"] - begun["low"]
    assert now["rated_helpful"] == 6
    assert told["archived_below"] == 0.3
    first, last = told["series"][0], told["series"][-1]
    assert first["confidence"] == 0.8
    assert last["confidence"] == pytest.approx(now["confidence"], abs=1e-6)
    assert (last["low"], last["high"]) == (now["low"], now["high"])
    assert [piece["kind"] for piece in told["evidence"]] == ["explicit"] * 6
    assert got(api, "/beliefs", ids=id) == [
        {"id": id, "title": "Retry uploads", "state": "active", "belief": now}
    ]


@requirement("GEN-2")
def test_all_ancestors_and_descendants_are_in_the_graph_and_what_it_is_linked_to(api):
    old = record(api, "Ancestor")
    parent = record(api, "Parent", parents=[old])
    one = record(api, "The memory", parents=[parent])
    child = record(api, "Child", parents=[one])
    other = record(api, "Beside it")
    api.post("/links", json={"source": one, "target": other, "type": "causes", "strength": 0.5})
    told = got(api, f"/memories/{one}/graph")
    titles = {node["id"]: node["title"] for node in told["nodes"]}
    assert titles == {one: "The memory", parent: "Parent", old: "Ancestor", child: "Child",
                      other: "Beside it"}  # fmt: skip
    edges = {(edge["source"], edge["target"], edge["type"]) for edge in told["edges"]}
    assert edges == {(old, parent, "made"), (parent, one, "made"), (one, child, "made"),
                     (one, other, "causes")}  # fmt: skip
    assert told["left_out"] == 0


def test_of_very_many_kin_the_nearest_are_in_the_graph(api):
    one = record(api)
    for number in range(70):
        record(api, f"Child {number}", parents=[one])
    told = got(api, f"/memories/{one}/graph")
    assert (len(told["nodes"]), told["left_out"]) == (60, 11)
    assert told["nodes"][0]["id"] == one and len(told["edges"]) == 59


@requirement("GEN-4")
def test_whoever_says_the_opposite_is_a_rival(api):
    one, other = record(api, "Always retry"), record(api, "Never retry", content="It gets worse.")
    api.post("/links", json={"source": one, "target": other, "type": "contradicts"})
    for id, rival in ((one, other), (other, one)):
        [told] = [r for r in got(api, f"/memories/{id}/rivals") if r["why"] == "contradicts"]
        assert told["id"] == rival and told["belief"]["trust"] == "untested"


def test_a_newer_value_of_the_same_fact_is_a_rival(api):
    facts = [
        record(api, f"The staging port is {port}", description="Which port staging listens on",
               content=f"The staging server listens on port {port}.")
        for port in (8080, 9090)
    ]  # fmt: skip
    assert [(r["id"], r["why"]) for r in got(api, f"/memories/{facts[0]}/rivals")] == [
        (facts[1], "newer")
    ]
    assert [(r["id"], r["why"]) for r in got(api, f"/memories/{facts[1]}/rivals")] == [
        (facts[0], "older")
    ]


def test_where_a_memory_came_from_is_told_with_its_session(api):
    steps = [{"iteration": n, "action": f"step {n}", "content": "x"} for n in range(1, 5)]
    trace = {"task": "upload the file", "outcome": "success", "trajectory": steps}
    session = api.post("/traces", json=trace).json()["id"]
    told = got(api, f"/memories/{record(api, source_session=session)}/origin")
    assert (told["surface"], told["principal"], told["session"]) == ("page", "person", session)
    assert (told["trace"]["task"], told["trace"]["steps"]) == ("upload the file", 4)
    assert got(api, f"/memories/{record(api)}/origin")["trace"] is None


# To whom


@requirement("SEC-6")
@pytest.mark.parametrize("path", ["belief", "graph", "rivals", "origin"])
def test_what_belongs_to_another_workspace_is_not_shown(server, api, tmp_path, path):
    id = record(api)
    other = server.ask("GET", f"/memories/{id}/{path}", workspace=beside(tmp_path))
    assert other.status_code == 404


@requirement("SEC-6")
def test_lists_and_counts_are_those_of_the_workspace(server, api, tmp_path):
    id = record(api)
    with server.client(workspace=beside(tmp_path)) as other:
        assert got(other, "/browse")["total"] == 0
        assert got(other, "/browse", sort="trust")["total"] == 0
        assert got(other, "/overview")["known"] == 0
        assert got(other, "/beliefs", ids=id) == []
        assert looked(other, "an upload breaks off")["memories"] == []
        assert looked(other, "an upload breaks off")["dropped"] == []
        assert got(other, "/sessions")["total"] == 0


# Sessions, work, agents


def test_a_session_shows_what_it_was_given_and_pages_hold_all_of_them(api):
    id = record(api)
    ids = []
    for number in range(3):
        name = f"task {number}"
        api.post("/search", json={"query": "an upload breaks off half-way", "session": name})
        trace = {"task": f"upload {number}", "outcome": "success", "memories_learned": [id],
                 "metadata": {"session": name, "agent": "codex"},
                 "trajectory": [{"iteration": 1, "action": "run"}]}  # fmt: skip
        ids.append(api.post("/traces", json=trace).json()["id"])
    first = got(api, "/sessions", limit=2)
    assert first["total"] == 3
    second = got(api, "/sessions", limit=2, cursor=first["cursor"])
    found = [*first["sessions"], *second["sessions"]]
    assert [one["id"] for one in found] == ids[::-1] and second["cursor"] is None
    line = found[0]
    assert (line["agent"], line["steps"], line["given"], line["learned"]) == ("codex", 1, 1, 1)
    told = got(api, f"/sessions/{ids[0]}")
    assert told["trace"]["task"] == "upload 0"
    [given] = told["given"]
    assert given["memories"] == [{"id": id, "title": "Retry uploads", "weak": False}]
    assert [one["id"] for one in told["learned"]] == [id]


@requirement("DIS-2")
def test_what_waits_who_works_and_what_comes_next_is_told(server, api):
    record(api)
    told = got(api, "/work")
    assert told["queue"]["dead"] == 0
    assert told["worker"]["surface"] == "http"
    assert {turn["kind"]: turn["every_hours"] > 0 for turn in told["schedule"]} == {
        "consolidate": True, "maintain": True, "promote": True,
    }  # fmt: skip
    [consolidate] = [turn for turn in told["schedule"] if turn["kind"] == "consolidate"]
    assert consolidate["last"] is None and consolidate["next"]


def test_agents_and_how_far_they_are_wired_are_told_to_who_looks_after_the_bank(tmp_path):
    (tmp_path / ".codex").mkdir()
    with serving(tmp_path) as server:
        told = {agent["name"]: agent for agent in server.ask("GET", "/agents").json()}
        assert told["codex"]["found"] and told["codex"]["server"] is None
        assert told["codex"]["run"] == "reasonbank install codex"
        code, done = command(tmp_path, "install", "codex")
        assert code == 0, done
        wired = {agent["name"]: agent for agent in server.ask("GET", "/agents").json()}["codex"]
        assert wired["server"] and not wired["missing"] and wired["run"] is None
        bound = a_token(tmp_path, "admin", "--workspace", str(tmp_path))
        assert server.ask("GET", "/agents", bound).status_code == 403


def test_where_the_bank_lies_is_told_to_who_looks_after_all_of_it(tmp_path):
    with serving(tmp_path) as server:
        reader = a_token(tmp_path, "read")
        assert server.ask("GET", "/about").json()["store"].startswith("sqlite:")
        told = server.ask("GET", "/about", reader).json()
        assert (told["store"], told["embedder"], told["semantic"]) == (None, "hashed-384", False)


# Learning and proposals


def test_the_report_tells_what_was_learned_each_week_and_what_proof_would_take(api):
    record(api)
    told = got(api, "/report")
    assert [week["count"] for week in told["learned"]] == [0] * 11 + [1]
    assert told["needed"]["tasks"] is None and told["sentences"]


def test_of_what_would_be_merged_some_is_and_the_rest_is_left(api):
    groups = ("Wait twice as long between retries", "Sign every release with the team key")
    for content in groups:
        for number in range(2):
            record(api, f"{content} {'again' * number}", content=content, description=content)
    plan = api.post("/consolidate", json={"dry_run": True, "threshold": 0.6}).json()
    assert len(plan["clusters"]) == 2, plan
    chosen = plan["clusters"][0]
    wish = {"only": [chosen["id"]], "force": True, "threshold": 0.6}
    done = api.post("/consolidate", json=wish).json()
    assert done["created_memories"] == [chosen["id"]]
    # What is taken back once is kept apart for good.
    assert api.post(f"/batches/{done['batch']}/undo", json={}).status_code == 200
    again = api.post("/consolidate", json={"dry_run": True, "threshold": 0.6}).json()
    assert [cluster["id"] for cluster in again["clusters"]] == [plan["clusters"][1]["id"]]
