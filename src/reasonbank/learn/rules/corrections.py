"""What a user says when the agent went wrong, and what to do otherwise."""

from __future__ import annotations

from reasonbank.safety.patterns import brief, compile, spaced

LONGEST = 500

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


_AFTER_A_SENTENCE = compile(r"([.!?])\s+")


def correction(text: str) -> str | None:
    """The sentences of a user's turn that say what to do otherwise, if it has any."""
    if _CONTENT.match(text) or _PRAISING.search(text) or not _OBJECTING.match(text[:1_500]):
        return None
    sentences = _AFTER_A_SENTENCE.sub(r"\1\n", text.strip()).splitlines()
    said = [s for s in sentences if _DIRECTING.search(s) and not s.rstrip().endswith("?")]
    rule = " ".join(said[:3]).strip()
    return rule[:LONGEST] if len(rule.split()) >= 3 else None
