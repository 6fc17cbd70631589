"""Other programs' memories, written as they write them; each maker takes more texts to put in."""

import json
from pathlib import Path

import apsw


def a_memory_json(folder: Path, *more: str) -> Path:
    lines = [
        {"type": "entity", "name": "uploader", "entityType": "service",
         "observations": ["Needs a retry when the network blinks", "Runs as user www", *more]},
        {"type": "entity", "name": "s3", "entityType": "storage",
         "observations": ["Keeps every version of an object for 30 days"]},
        {"type": "entity", "name": "ghost", "entityType": "service", "observations": []},
        {"type": "relation", "from": "uploader", "to": "s3", "relationType": "depends_on"},
        {"type": "relation", "from": "ghost", "to": "s3", "relationType": "uses"},
    ]  # fmt: skip
    written = [json.dumps(line) for line in lines]
    written[4:4] = ['{"type": "entity", "name": "cut', '{"type": "note"}']
    path = folder / "memory.json"
    path.write_text("\n".join(written) + "\n")
    return path


def a_basic_memory_folder(folder: Path, *more: str) -> Path:
    notes = folder / "notes"
    for name in ("deep", ".obsidian"):
        (notes / name).mkdir(parents=True, exist_ok=True)
    written = {
        "coffee.md": "---\ntitle: Coffee Brewing\ntype: note\ntags: [coffee, brewing]\n"
                     "permalink: coffee-brewing\n---\n\n# Coffee Brewing\n\n## Observations\n"
                     "- [method] Pour over gives more clarity #brewing\n\n## Relations\n"
                     "- relates_to [[Beans]]\n",
        "deep/plain.md": "A note without front matter is called after its file.\n",
        "deep/person.md": "---\ntype: schema\n---\nname: string\n",
        "broken.md": "---\ntitle: [unclosed\n---\ntext\n",
        "empty.md": "---\ntitle: Empty\n---\n",
        "picture.png": "no picture",
        ".obsidian/workspace.md": "hidden",
    }  # fmt: skip
    written |= {f"more-{number}.md": text for number, text in enumerate(more)}
    for name, text in written.items():
        (notes / name).write_text(text)
    return notes


def a_memory_service_database(folder: Path, *more: str) -> Path:
    path = folder / "sqlite_vec.db"
    path.unlink(missing_ok=True)
    database = apsw.Connection(str(path))
    database.execute("""
        create table memories (
            id integer primary key autoincrement, content_hash text unique not null,
            content text not null, tags text, memory_type text, metadata text, created_at real,
            updated_at real, created_at_iso text, updated_at_iso text,
            deleted_at real default null, superseded_by text)
    """)
    rows = [
        ("The staging database listens on port 5432.", "postgres,ports", "reference", None, None),
        ("Migrations run before the new version starts.", None, None, None, None),
        ("Was deleted.", "", "note", 1.5, None),
        ("Was replaced.", "", "note", None, "hash-0"),
        *((text, "", "note", None, None) for text in more),
    ]
    for number, row in enumerate(rows):
        database.execute(
            "insert into memories (content_hash, content, tags, memory_type, deleted_at, "
            "superseded_by) values (?, ?, ?, ?, ?, ?)", (f"hash-{number}", *row),
        )  # fmt: skip
    database.close()
    return path


def a_mem0_export(folder: Path, *more: str) -> Path:
    results = [
        {"id": "m-1", "memory": "Prefers async communication to meetings", "user_id": "dev",
         "hash": "h", "metadata": {"type": "preference"}, "categories": ["preferences"],
         "created_at": "2025-01-02T03:04:05Z"},
        {"id": "m-2", "memory": "Reviews must not wait longer than a day", "user_id": "dev"},
        {"id": 3, "memory": None},
        *({"id": f"more-{number}", "memory": text} for number, text in enumerate(more)),
    ]  # fmt: skip
    relations = [{"source": "dev", "relationship": "works_at", "target": "TechCorp"}]
    path = folder / "mem0.json"
    path.write_text(json.dumps({"results": results, "relations": relations}))
    return path


def a_project_with_instructions(folder: Path, *more: str) -> Path:
    project = folder / "repository"
    rules = project / ".cursor" / "rules"
    rules.mkdir(parents=True, exist_ok=True)
    (project / "CLAUDE.md").write_text(
        "# Working here\n<!-- not\nfor agents -->\n## Testing\n\n"
        "- Run `make test` before every commit.\n"
        "- Never mock the database in tests,\n  it starts in a second.\n  - not even once\n"
        "- Be kind.\n\nWhen a test is flaky:\n\n1. run it alone\n2. run it in order\n\n"
        "```sh\n# as CI does\npytest -p no:randomly\n```\n\n## Deploy\n\n@docs/deploy.md\n\n"
        "Releases leave on Tuesdays, and nobody deploys on a Friday.\n---\n" + "\n\n".join(more)
    )
    (rules / "exports.mdc").write_text(
        "---\ndescription:\nglobs: *.ts,*.tsx\nalwaysApply: false\n---\n\n"
        "- Prefer named exports in every module.\n"
    )
    return project
