"""The page at `/`: what runs here, and how to connect; the frame of all pages.

A page that needs a token is sent empty, and its one script asks for it again with the token
that came behind the # of an address: no server, log or history ever sees that part.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.metadata import version

from reasonbank.bank import Bank
from reasonbank.surfaces.connecting import snippets

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --ground: #fbfbfa;
  --card: #ffffff; --line: #dcdfe3; --accent: #1a5fb4; --good: #1a7f37; --poor: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa3ad;
  --ground: #131517; --card: #1c1f22; --line: #33383d; --accent: #7ab7ff; --good: #5fd07b;
  --poor: #e3b341; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { margin: 0; font-size: 1.8rem; letter-spacing: -.01em; }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.15rem; }
h3 { margin: 1.2rem 0 .3rem; font-size: 1rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; margin: 0;
  padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.good { color: var(--good); } .poor { color: var(--poor); }
pre { margin: 0; padding: .8rem 1rem; overflow-x: auto; background: var(--card);
  border: 1px solid var(--line); border-radius: 10px; font: 13.5px/1.5 ui-monospace, monospace; }
a { color: var(--accent); } a:focus-visible, pre:focus-visible { outline: 3px solid
  var(--accent); outline-offset: 2px; border-radius: 10px; }
ul { margin: 0; padding-left: 1.2rem; }
.lines { white-space: pre-line; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; margin: .8rem 0; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem; }
td, th { padding: .2rem 1rem .2rem 0; text-align: left; }
svg { display: block; max-width: 24rem; }
.drawing { overflow-x: auto; } .drawing svg { max-width: none; }
.drawing:focus-visible { outline: 3px solid var(--accent); border-radius: 10px; }
.drawing path { fill: none; stroke: var(--soft); stroke-width: 1.5; }
.drawing rect { fill: var(--card); stroke: var(--line); stroke-width: 1.5; }
.drawing .self { stroke: var(--accent); stroke-width: 3; }
.drawing text { fill: var(--ink); font-size: 13px; text-anchor: middle; }
.drawing a:hover rect, .drawing a:focus-visible rect { stroke: var(--accent); stroke-width: 3; }
"""
_SCRIPT = """
(() => {
  const kept = "reasonbank-token";
  const show = async () => {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given) {
      sessionStorage.setItem(kept, given);
      history.replaceState(null, "", location.pathname + location.search);
    }
    const token = sessionStorage.getItem(kept);
    const empty = document.querySelector("main[data-locked]");
    if (!token || !empty) return;
    const answer = await fetch(location.pathname + location.search, {
      headers: { Authorization: "Bearer " + token, Accept: "text/html" },
    });
    if (!answer.ok) {
      if (answer.status === 401) sessionStorage.removeItem(kept);
      const told = await answer.json();
      empty.querySelector("[role=status]").textContent = told.message;
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    empty.replaceWith(document.adoptNode(page.querySelector("main")));
  };
  addEventListener("hashchange", show);
  show();
})();
"""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


POLICY = (
    f"default-src 'none'; style-src 'sha256-{_digest(_STYLE)}'; "
    f"script-src 'sha256-{_digest(_SCRIPT)}'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
).encode()


NEWEST = 8


def page(bank: Bank, address: str, *, known: bool, locked: bool, whole: bool = True) -> str:
    """``known``: somebody who may read asks; to others nothing is said of what the bank holds.

    ``locked``: a token is needed here. ``whole``: they may hear of the whole bank.
    """
    facts = [("Version", escape(version("reasonbank")))]
    embedder = bank.store.indexing.embedder
    state = (
        '<span class="good">sound</span>'
        if embedder.semantic
        else '<span class="poor">degraded: the embedder knows nothing of meaning</span>'
    )
    facts += [("State", state), ("Embedder", escape(embedder.name))]
    if known and whole:
        facts += [
            ("Store", escape(bank.store.ledger.url)),
            ("Workspaces", str(len(bank.workspaces()))),
        ]
    access = "with a bearer token" if locked else "from this machine, without a token"
    facts += [("Access", access)]
    rows = "\n".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    ways = "\n".join(
        f"<h3>{escape(s.agent)} <span class=soft>· {escape(s.where)}</span></h3>\n"
        f'<pre tabindex="0" aria-label="{escape(s.agent)}">{escape(s.text)}</pre>'
        for s in snippets(address, locked=locked)
    )
    newest = _newest(bank) if known else _UNKNOWN
    return document(
        "ReasonBank",
        f"""<h1>ReasonBank</h1>
<p class="soft">A memory that learns, for LLM agents.</p>
<h2>What runs here</h2>
<dl>
{rows}
</dl>
{newest}<h2>Connect an agent</h2>
{ways}
<h2>Addresses</h2>
<ul>
<li><code>/mcp</code> MCP, streamable HTTP</li>
<li><code>/api/v1</code> the JSON API, described in <a href="/openapi.json">/openapi.json</a></li>
<li><a href="/livez">/livez</a> and <a href="/readyz">/readyz</a>, for probes</li>
<li><code>/memory/ID</code> a memory, what it was made from and led to</li>
<li><a href="/report">/report</a> what memory is worth here</li>
<li><code>/metrics</code> for Prometheus</li>
</ul>""",
        locked=not known,
    )


_UNKNOWN = """<p role="status">To see what is in the bank, open the address with
<code>#token=</code> in it that <code>reasonbank serve</code> printed when it started.</p>
"""


def empty_page() -> str:
    """In the place of a page that needs a token, for a browser that has not shown one yet."""
    return document("ReasonBank", f"<h1>ReasonBank</h1>\n{_UNKNOWN}", locked=True)


def _newest(bank: Bank) -> str:
    """A way to the pages of memories."""
    found = "\n".join(
        f'<li><a href="/memory/{memory.id}">{escape(memory.title)}</a></li>'
        for memory in bank.memories(limit=NEWEST)
    )
    return f"<h2>Newest memories</h2>\n<ul>\n{found}\n</ul>\n" if found else ""


def report_page(bank: Bank) -> str:
    from reasonbank.surfaces.show.report_page import body

    back = '<p><a href="/">ReasonBank</a></p>'
    return document("Learning report", f"{back}\n{body(bank.report())}")


def document(title: str, body: str, *, locked: bool = False) -> str:
    """A whole page; ``body`` is HTML. ``locked``: there is more for whoever has a token."""
    main = "<main data-locked>" if locked else "<main>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{main}
{body}
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""
