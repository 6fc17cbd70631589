"""What a user says when the agent went wrong, and what to do otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.fields import LIMITS
from reasonbank.learn.rules.lesson import Finding, at_home, finding_id, name_of, short
from reasonbank.learn.rules.shell import invocation
from reasonbank.learn.session import Call, Command, Edit, Entry, Session, Turn
from reasonbank.model import ErrorContext, Memory, Outcome, Source
from reasonbank.safety.patterns import brief, compile, spaced
from reasonbank.search import subjects

_words = str.split

LONGEST = 500
MOST_STEPS = 20
"""So many steps before a correction may be what it speaks of."""
MOST_CORRECTIONS = 10
"""So many of one session are looked at, the latest."""

# How a correction begins. An answer to a question, praise or a new wish may begin alike.
_OBJECTING = compile(
    "(?i)"
    + spaced(r"""^\s* (?: (?:ugh|hm+|oh|hey|wait|sorry|well|eh) [,.!\ ]+ )? (?:
      no+[,.!\ ] | nope\b | wrong\b | stop\b | this\ is\ wrong | undo\b | revert\b
    | never\b | always\b
    | that(?:'?s|\ is)\ (?:not|wrong|incorrect) | not\ (?:like\ that|what|quite\ right|that)
    | don'?t\b | do\ not\b | please\ (?:don'?t|do\ not|use|stop)\b | why\ did\ you\b
    | you\ (?:forgot|broke|must(?:n'?t|\ not)
             |should(?:n'?t|\ not|\ (?:have\ )?(?:use|call|put|run|keep|name|write)))
    | i\ (?:said|told\ you|asked)\b | actually[,\ ] | instead[,\ ]
    | we\ (?:don'?t|never|always|use|\w+\ (?:with|via|through))\b
    | use\ \S+.{0,60}\b(?:instead|not)\b
    )""")
)
_DIRECTING = brief(
    r"""(?ix) \buse\s+(?!(?:it|this|that)\b)\S+ | \binstead\b | \brather\ than\b | ,\s*not\s+\w+
    | \b(?:don'?t|do\ not|never|always|must|mustn'?t|should(?:n'?t)?|only)\b\s+\w+
    | \bwe\s+(?:use|call|keep|put|write|have|\w+\s+(?:with|via|through))\b
    | \bnot\s+\S+\s*[,.]?\s*but\b | \bit'?s\ called\b | \bbelongs?\ (?:in|to)\b""",
    LONGEST,
)
_CONTENT = compile(
    "(?i)"
    + spaced(r"""^\s* (?:
      no\ (?:problem|worries|need|thanks?|rush|idea|changes|more|further|way
             |that'?s\ (?:fine|ok|great|good|all|it))
    | no,?\ (?:thanks|thank\ you|that'?s|it'?s|looks|all\ good)\b
    | don'?t\ worry | never\ ?mind | not\ bad | stop\ here | do(?:n'?t|\ not)\ (?:commit|push)\ yet
    | actually,?\ (?:yes|never\ mind|(?:can\ you\ |could\ you\ )?also
                   |(?:that|this|it)\ (?:looks|is|works))
    )""")
)
_PRAISING = compile(
    r"(?i)\b(?:amazing|awesome|perfect|well done|great|nice|love it|looks good|lgtm|brilliant)\b"
)


# Where nothing was done that one could object to, only a rule of the house is one.
_HOUSE = compile(
    r"(?i)\b(?:we (?:always|never|only|use|don'?t|do not)|in (?:this|our) (?:repo\w*|project|team|"
    r"code ?base|company)|our (?:convention|policy|style|rule)s?|from now on)\b"
)

_AFTER_A_SENTENCE = compile(r"([.!?])\s+")


def correction(text: str) -> str | None:
    """The sentences of a user's turn that say what to do otherwise, if it has any."""
    if _CONTENT.match(text) or _PRAISING.search(text) or not _OBJECTING.match(text[:1_500]):
        return None
    sentences = _AFTER_A_SENTENCE.sub(r"\1\n", text.strip()).splitlines()
    said = [s for s in sentences if _DIRECTING.search(s) and not s.rstrip().endswith("?")]
    rule = " ".join(said[:3]).strip()
    return rule[:LONGEST] if len(rule.split()) >= 3 else None


# What a correction is about: what it names, which need not be what was done last.

_OBJECTION = compile(r"(?i)^(?:ugh|no+|nope|wrong|stop|actually|hey|wait)\b[,.! ]*")
_NAME = compile(r"[A-Za-z][\w-]{1,}")
_PLAIN_WORDS = frozenset(_words("""
    the this that these those here there use used using run running never always must should not
    don dont do does did instead please stop undo revert wrong with via for and but you we it
    its is are was be been have has had our your my in on to of at by an as or if so no yes only
    just them they any all again told said asked actually rather than without within when where
    what which how why who will would can could put keep write call add make like want need repo
    project code base file files touch change edit good
"""))  # fmt: skip


def names_in(text: str) -> frozenset[str]:
    """The words of a text that name something, without what only joins them."""
    found = {_stem(word.lower()) for word in _NAME.findall(text[:2_000])}
    return frozenset(found - _PLAIN_WORDS)


def _stem(word: str) -> str:
    word = word.removesuffix("n't").removesuffix("n-t")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def meant(said: str, done: Sequence[Command | Edit]) -> Command | Edit | None:
    """The step that a correction speaks of: the latest that has to do with what it names."""
    names = names_in(said)
    best: tuple[int, Command | Edit | None] = (0, None)
    for step in done:
        shared = _shared(names, step)
        if shared and shared >= best[0]:
            best = (shared, step)
    return best[1]


def _shared(names: frozenset[str], step: Command | Edit) -> int:
    if isinstance(step, Edit):
        return 2 * len(names & names_in(step.path.replace("/", " "))) + len(
            names & names_in(step.change)
        )
    what = invocation(step)
    same = len(names & names_in(step.command.replace("/", " ")))
    # `use pnpm` speaks of what npm was used for.
    kind = subjects.of_program(what.program)
    rivals = [name for name in names if kind and subjects.of_program(name) == kind]
    return 2 * same + bool(rivals and not what.looks_around)


def corrections(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    """What somebody wants who is served is no rule for anybody else."""
    if session.serves:
        return
    acted = False
    done: list[Command | Edit] = []
    found: list[tuple[Turn, str, list[Command | Edit]]] = []
    for entry in entries:
        if not isinstance(entry, Turn):
            acted = True
            if not isinstance(entry, Call):
                done = [*done[-MOST_STEPS:], entry]
            continue
        if not entry.by_user:
            acted = True
            continue
        if acted and (said := correction(entry.text)):
            found.append((entry, said, done))
        acted = False
    for turn, said, before in found[-MOST_CORRECTIONS:]:
        if before or _HOUSE.search(said):
            yield _corrected(session, turn, said, meant(said, before))


def _corrected(session: Session, turn: Turn, said: str, step: Command | Edit | None) -> Finding:
    did, first = "", turn.number - 1
    match step:
        case Command(command=command, number=first):
            did = f"running `{short(at_home(command), 120)}`"
        case Edit(path=path, number=first):
            did = f"the edit of {name_of(path)}"
    gist = _OBJECTION.sub("", said) or said
    error = ErrorContext(
        error_type="UserCorrection",
        failure_pattern=f"the user objected to {did}" if did else f"not as the user said: {gist}",
        corrective_guidance=said,
    )
    about = f"Before {did} or the like" if did else "Before anything that this is about"
    memory = Memory(
        id=finding_id(session, "correction", turn.number),
        title=short(f"As the user wants it: {gist}", LIMITS.title),
        description=short(f"{about}: the user said {gist}", LIMITS.description),
        content=f"After {did}, the user said: {said}" if did else f"The user said: {said}",
        outcome=Outcome.FAILURE,
        error_context=error,
        domain=_domain(said, step),
        source=Source.DISTILLED,
        source_session=session.id[: LIMITS.label],
        tags=("user-correction",),
    )
    return Finding(
        memory=memory, rule="correction", first=max(1, first), last=turn.number, weight=0.9
    )


def _domain(said: str, step: Command | Edit | None) -> str | None:
    named = subjects.most(subjects.of_program(word.lower()) for word in _NAME.findall(said))
    if named or step is None:
        return named
    if isinstance(step, Edit):
        return subjects.of_file(step.path)
    return subjects.of_program(invocation(step).program)
