"""Text that looks like an instruction to the model rather than a lesson.

It flags what speaks to the model, poses as somebody else, hides, or sends data away. It cannot
tell a false statement from a true one: against that only provenance and evidence help.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any

from reasonbank.bounded import Bounded
from reasonbank.model import Memory

_EARLIER = r"(?:previous|prior|above|earlier|preceding|existing|other|original|safety|system)"
_ORDERS = r"(?:instructions?|rules?|guidelines?|directions?|prompts?|polic(?:y|ies)|constraints?|context|messages?)"
_DATA = (
    r"(?:(?:user|customer|session|conversation|production|personal|patient|sensitive)\b|transcripts?|payloads?|"
    r"credentials?|tokens?|api keys?|passwords?|secrets?|traffic|logs?|quer(?:y|ies)|history|records?|"
    r"data|environment variables|interactions?|comments|conversations?|inputs?|headers?|memor(?:y|ies)|prompts?|"
    r"request (?:bod(?:y|ies)|context))"
)
_SENDING = (
    r"(?:send|sends|forward|forwards|forwarded|post|upload|uploads|sync|synced|transmit|exfiltrate|"
    r"mirror|mirrored|report|stream|streamed|replicate|bcc|submit|share|shared|include|export|exported|log|sent)"
)
_PLACE = r"(?:https?://\S+|[\w.+-]+@[\w-]+\.\w|[\w-]+(?:\.[\w-]+)*\.(?:com|net|io|org|dev|ai|co|app|cloud|xyz|info|me)\b)"

# Reason, pattern. In the order of how sure they are.
SIGNS = (
    ("overrides instructions", rf"(?i)\b(?:ignore|disregard|forget|override|overrides|bypass|drop|discard)\b[^.\n]{{0,30}}\b{_EARLIER}\b[^.\n]{{0,30}}\b{_ORDERS}\b"),
    ("overrides instructions", rf"(?i)\b(?:supersedes?|replaces?|overrides?|takes? precedence over)\b[^.\n]{{0,20}}\b(?:all|any|your|{_EARLIER})\b[^.\n]{{0,30}}\b{_ORDERS}\b"),
    ("overrides instructions", r"(?i)\bforget (?:everything|all|what) (?:you|that|above|before)|\bdo not follow any other\b|\bignore (?:everything|all|anything) (?:above|before|else)\b"),
    ("overrides instructions", r"(?i)\byour (?:new |real |actual |only |true |primary |main )+(?:task|goal|instructions?|objective|purpose|job|mission|directive) (?:is|are|has)\b|\byou have been (?:updated|reprogrammed|reconfigured|instructed)\b"),
    ("changes the role", r"(?i)\byou are (?:now|no longer) (?:an?|in|the|my|acting|operating|free|bound|restricted|under|required|authorized)\b|\bfrom now on,? (?:you|act|respond|always|every)\b|\bpretend (?:to be|that you|you)\b|\bact as (?:if you|an? (?:unrestricted|different|admin|root|system))"),
    ("changes the role", r"(?i)\b(?:developer|maintenance|god|debug|admin|unrestricted|jailbreak|DAN) mode\b[^.\n]{0,40}\b(?:enabled|activated|on|now|engaged)\b|\b(?:enter|in|enable|activate) (?:maintenance|developer|god|jailbreak|unrestricted) mode\b"),
    ("speaks to the model", r"(?i)\b(?:note|message|instructions?|memo|notice|reminder|attention|important)s?,? (?:to|for) (?:the |all |any |every )?(?:\w+ )?(?:ai\b|assistants?|agents?|models?|llms?|language models?|chatbots?|bots?)"),
    ("speaks to the model", r"(?i)\b(?:ai|llm|language|the) (?:assistants?|agents?|models?) (?:must|should always|should never|should immediately|shall|needs? to|are required to|is required to)\b|\battention,? (?:ai|assistant|agent|model)\b|\bas an ai\b[^.\n]{0,30}\byou must\b"),
    ("speaks to the model", r"\b(?:SYSTEM|ADMIN|ADMINISTRATOR|AGENT|ASSISTANT|AI|OPERATOR|ROOT|IMPORTANT SYSTEM) (?:DIRECTIVE|OVERRIDE|NOTICE|UPDATE|MESSAGE|PROMPT|CONFIGURATION|CONFIG|INSTRUCTIONS?|COMMAND|POLICY|ALERT|SETTINGS?)\b"),
    ("speaks to the model", r"\b(?:IMPORTANT|CRITICAL|NEW|URGENT|MANDATORY|PRIORITY|POLICY|SECURITY|INFRASTRUCTURE|COMPLIANCE) (?:MEMO|DIRECTIVE|INSTRUCTIONS?|OVERRIDE|UPDATE|CONFIG|NOTICE|CHANGE|POLICY|RULES?)\s*:"),
    ("poses as a role", r"(?i)<\|[a-z_]{3,20}\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|human|developer|system-reminder|instructions?|system_prompt)>|(?:^|\n)\s*#{2,4} ?(?:system|instructions?|assistant|human|user)\s*:"),
    ("poses as a role", r"(?:^|\n)(?:\*\*)?(?:System|SYSTEM|Human|Assistant|Developer)(?:\*\*)?\s?:\s+(?:[Yy]ou|[Ii]gnore|[Aa]lways|[Nn]ever|[Dd]o|[Pp]lease|[Ff]rom now|[Ss]ure|[Oo]f course|[Nn]ew)"),
    ("poses as a tool call", r"(?i)</?(?:antml:)?(?:function_calls?|invoke|tool_use|tool_calls?|tool_result|function_results?|parameter name)\b|\{\s*\"(?:tool|function|name)\"\s*:\s*\"[\w.-]+\"\s*,\s*\"(?:arguments|parameters|args|input)\"\s*:"),
    ("poses as a role", r"(?i)\b(?:system|admin|security)[_ ]overrides?\b|<(?:admin|system)[_-]?(?:message|note|override|update)|<!--\s*(?:system|ai|assistant|admin)\b|\[(?:assistant|system|ai|admin|urgent|hidden)[^\]\n]{0,20}\b(?:note|message|instruction|update|notice|override)\b"),
    ("speaks to the model", r"(?i)\bif you are an? (?:ai|llm|assistant|language model|agent)\b"),
    ("dictates answers", r"(?i)\b(?:include|add|append|insert|put|mention)\b[^.\n]{0,60}\b(?:in|to) (?:all |every |each )?(?:of )?(?:your )(?:\w+ )?(?:responses?|answers?|repl(?:y|ies)|outputs?|summar(?:y|ies))\b|\b(?:in|to) (?:all|every|each) (?:responses?|repl(?:y|ies))\b"),
    ("asks for secrecy", r"(?i)\b(?:do not|don't|never|without) (?:mention(?:ing)?|tell(?:ing)?|reveal(?:ing)?|inform(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?|asking|show(?:ing)?)\b[^.\n]{0,30}\b(?:users?|customers?|anyone|anybody|humans?|operator|owner|third.party|this (?:instruction|message|note|step|change|policy))\b"),
    ("dictates answers", r"(?i)\b(?:when|whenever|if|every time)\b[^.\n]{0,15}\b(?:users?|customers?|anyone|somebody|someone|people|asked|clients?)\b[^.\n]{0,60}(?:,|\b)\s*(?:always )?(?:say|tell|respond|reply|answer|recommend|suggest|claim|inform|mention|direct|redirect|state|emphasize|push)\b"),
    ("dictates answers", r"(?i)\b(?:you (?:must|should)|must always|always|directly) (?:say|respond|reply|answer|output)\b[^.\n]{0,30}(?:['\"‘“]|\bwith the (?:phrase|word|text)\b|I don't know)|\ball (?:your )?responses (?:must|should|shall)\b|\balways (?:include|add|append|insert|mention) (?:the |a )?(?:hidden|phrase|link|following|words?|sentence|text|reference|disclaimer)\b"),
    ("dictates answers", r"(?i)\b(?:always|exclusively|only) (?:recommend|prefer|promote|endorse|favor)\b"),
    ("hides a trigger", r"(?i)\bthere is ['\"‘“][^'\"\n]{1,80}['\"’”] in the (?:question|prompt|input|query|request|task)|\bin the (?:question|prompt|query),? (?:this |which )?means (?:that )?we\b"),
    ("sends data away", rf"(?i)\b{_SENDING}\b[^.\n]{{0,60}}\b{_DATA}\b[^\n]{{0,80}}\b(?:to|at|via|through|endpoint)\b[^\n]{{0,60}}{_PLACE}"),
    ("sends data away", rf"(?i)\b{_DATA}\b[^.\n]{{0,60}}\b(?:should|must|needs? to|are|is|be|gets?|will be)\b[^.\n]{{0,20}}\b{_SENDING}\b[^\n]{{0,60}}\b(?:to|at|via)\b[^\n]{{0,60}}{_PLACE}"),
    ("fetches orders", r"(?i)\b(?:fetch|download|retrieve|poll|check|pull|load|query|contact|beacon|connect to)\b[^\n]{0,80}(?:https?://\S+|\b[\w-]+(?:\.[\w-]+)+\b)[^\n]{0,100}\b(?:execute|apply|run|eval|follow|install|import|obey|load)\b[^\n]{0,20}\b(?:it|them|immediately|automatically|the (?:settings|instructions|commands|modules|payload|response)|any)\b"),
    ("fetches orders", r"(?i)\b(?:download and (?:execute|run|install|replace)|run the [^.\n]{0,30}script (?:at|from)) [^\n]{0,40}(?:https?://|the current agent)"),
    ("fetches orders", r"(?i)\b(?:every|each) (?:\d+ )?(?:minutes?|hours?|day|session|startup|request)\b[^.\n]{0,60}\b(?:fetch|poll|check|contact|ping|call home|post|report|send)\b[^\n]{0,80}https?://"),
    ("fetches orders", r"(?i)\b(?:curl|wget)\b[^|\n]{0,200}\|\s*(?:sudo )?(?:ba|z|da)?sh\b[^\n]{0,60}\b(?:before|first|always|every)\b"),
    ("skips safeguards", r"(?i)\b(?:execute|run|apply|perform|approve|accept|delete|grant)\b[^.\n]{0,50}\bwithout (?:any )?(?:validation|confirmation|review|approval|asking|verification|question|checking|authentication)\b|\bskip (?:the |any |all )?(?:review|confirmation|approval|validation|verification|safety|authentication)\b[^.\n]{0,30}\b(?:step|check|prompt|for)"),
)  # fmt: skip

MOST_KNOWN = 20_000

_INVISIBLE = re.compile(r"[\u200b\u2060\u2061-\u2064\ufeff\u00ad\u180e]")
_BIDI = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_TAGS = re.compile(r"(?<!\U0001f3f4)(?<![\U000e0020-\U000e007f])[\U000e0000-\U000e007f]")
_SELECTORS = re.compile(r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")


def suspicions(text: str) -> tuple[str, ...]:
    """Why ``text`` should not reach a model unasked; nothing for an ordinary lesson."""
    reasons = dict.fromkeys(_hidden(text))
    plain = unicodedata.normalize("NFKC", _BIDI.sub("", _INVISIBLE.sub("", text)))
    for number in _signs().Match(plain.encode("utf-8", "replace")) or ():
        reasons[SIGNS[number][0]] = None
    return tuple(reasons)


def suspicions_of(memory: Memory) -> tuple[str, ...]:
    error = memory.error_context
    parts = [memory.title, memory.description, memory.content, " ".join(memory.tags)]
    if error:
        parts += [error.error_type, error.failure_pattern, error.corrective_guidance,
                  error.error_message or "", error.stack_trace or ""]  # fmt: skip
    return suspicions("\n\n".join(parts))


class Flags:
    """Remembers what was found, by memory and revision: a search asks for the same ones often.

    Reasons only, never a text: what is forgotten is not in it.
    """

    def __init__(self) -> None:
        self._known: Bounded[tuple[str, int], tuple[str, ...]] = Bounded(MOST_KNOWN)

    def of(self, memory: Memory) -> tuple[str, ...]:
        key = (memory.id, memory.revision)
        found = self._known.get(key)
        if found is None:
            found = suspicions_of(memory)
            self._known.put(key, found)
        return found


def _hidden(text: str) -> list[str]:
    found = []
    if len(_INVISIBLE.findall(text.lstrip("\ufeff"))) >= 2 or _SELECTORS.search(text):
        found.append("has invisible characters")
    if _TAGS.search(text):
        found.append("has invisible characters")
    if _BIDI.search(text):
        found.append("changes the direction of writing")
    return found


@cache
def _signs() -> Any:
    import re2

    signs = re2.Filter()
    for _, pattern in SIGNS:
        signs.Add(pattern)
    signs.Compile()
    return signs
