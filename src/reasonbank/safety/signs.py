"""By what a text gives away that it speaks to a model: a reason, and a pattern of RE2 for it.

In families of intent, not phrases of one collection. They are matched against every reading of a
text (`disguises.readings`): plain letters without accents, sentences on one line. Signs are never
complete; what they miss, provenance has to hold back.
"""

from __future__ import annotations

from reasonbank.safety.disguises import bare

_EARLIER = r"(?:previous|prior|above|earlier|preceding|existing|other|original|safety|system)"
_ORDERS = r"(?:instructions?|rules?|guidelines?|directions?|directives?|prompts?|polic(?:y|ies)|constraints?|context|messages?)"
_LIMITS = r"(?:restrictions?|limitations?|limits|filters?|guardrails?|safeguards?|safety|censorship|ethic\w*|moral\w*)"
_DATA = (
    r"(?:(?:user|customer|session|conversation|production|personal|patient|sensitive)\b|transcripts?|payloads?|"
    r"credentials?|tokens?|(?:api|access|private|ssh|secret) keys?|passwords?|passphrases?|secrets?|traffic|logs?|quer(?:y|ies)|history|records?|"
    r"data|environment variables|\.env|interactions?|comments|conversations?|inputs?|headers?|memor(?:y|ies)|prompts?|"
    r"request (?:bod(?:y|ies)|context)|ssn|card numbers?|account (?:details|numbers?)|contacts|cookies)"
)
_SENDING = (
    r"(?:send|sends|forward|forwards|forwarded|post|upload|uploads|sync|synced|transmit|exfiltrate|"
    r"mirror|mirrored|report|stream|streamed|replicate|bcc|submit|share|shared|include|export|exported|log|sent|"
    r"e-?mail|leak|relay|deliver|copy|push)"
)
_PLACE = r"(?:https?://\S+|[\w.+-]+@[\w-]+\.\w|[\w-]+(?:\.[\w-]+)*\.(?:com|net|io|org|dev|ai|co|app|cloud|xyz|info|me)\b)"
_PEOPLE = r"(?:users?|customers?|anyone|anybody|humans?|operators?|owners?|reviewers?|third.party)"
_MODELS = r"(?:ai|assistants?|agents?|models?|llms?|language models?|chatbots?|bots?)"
_ANSWER = r"(?:answers?|repl(?:y|ies)|responses?|summar(?:y|ies))"

# In the order of how sure they are.
_ENGLISH = (
    ("overrides instructions", rf"(?i)\b(?:ignore|disregard|forget|override|overrides|bypass|drop|discard)\b[^.\n]{{0,30}}\b{_EARLIER}\b[^.\n]{{0,30}}\b{_ORDERS}\b"),
    ("overrides instructions", rf"(?i)\b(?:ignore|disregard|forget|neglect|abandon|pay no attention to|stop (?:following|obeying)|(?:do not|don't|never) (?:follow|obey|comply with|listen to))\b[^.\n]{{0,20}}\b(?:your|initial|you (?:were|have)|{_EARLIER})\b[^.\n]{{0,30}}\b(?:{_ORDERS}|{_LIMITS}|training|programming)\b"),
    ("overrides instructions", rf"(?i)\b(?:supersedes?|replaces?|overrides?|takes? (?:precedence|priority) over)\b[^.\n]{{0,20}}\b(?:all|any|your|{_EARLIER})\b[^.\n]{{0,30}}\b{_ORDERS}\b"),
    ("overrides instructions", r"(?i)\bforget (?:everything|all|anything|whatever|what) (?:(?:that|of|has|was|have|been|else) ){0,3}(?:you|that|above|before|told|said|learned)|\bdo not follow any other\b|\bignore (?:everything|all|anything|whatever) (?:that (?:was|came|is) )?(?:above|before|else|prior|you (?:were|have))\b"),
    ("overrides instructions", r"(?i)\b(?:instructions?|rules|guidelines|prompts?|restrictions) (?:above|before this|so far|given (?:earlier|before|to you)|you (?:were|have been|received)|from your)\b[^.\n]{0,40}\b(?:no longer|void|invalid|cancel(?:l?ed)?|obsolete|superseded|ignored?|do not apply|don't apply|forgotten|mistaken)\b"),
    ("overrides instructions", r"(?i)\byour (?:new |real |actual |only |true |primary |main )+(?:task|goal|instructions?|objective|purpose|job|mission|directive)s? (?:is|are|has)\b|\byou have been (?:updated|reprogrammed|reconfigured|instructed)\b|\bnew instructions? (?:loaded|received|follow|begin|for you)\b"),
    ("changes the role", r"(?i)\byou are (?:now|no longer|henceforth|from now on) (?:an?|in|the|my|acting|operating|free|bound|restricted|under|required|authorized|called|known|configured|unrestricted|jailbroken|dan|root|admin|going to)\b|\bfrom (?:now on|this (?:point|moment) (?:on(?:wards?)?|forward)),? (?:you|act|respond|reply|answer|always|every|never|only|treat|all your|obey)\b|\bpretend (?:to be|that you|you)\b|\bact as (?:if you|an? (?:unrestricted|different|admin|root|system))"),
    ("changes the role", rf"(?i)\b(?:behave|act|respond|answer|reply|speak|role-?play|operate|work) (?:as|like)\b[^.\n]{{0,60}}\b(?:without|no|free of|free from)\b[^.\n]{{0,20}}\b{_LIMITS}\b|\byour (?:new )?(?:name|identity|persona|role) is now\b|\b(?:an?|the) (?:unrestricted|uncensored|jailbroken|unfiltered) (?:ai|assistant|model|agent|version)\b"),
    ("changes the role", r"(?i)\b(?:developer|maintenance|god|admin|unrestricted|jailbreak|DAN) mode\b[^.\n]{0,40}\b(?:enabled|activated|on|now|engaged)\b|\bdebug mode (?:is )?(?:activated|engaged)\b|\b(?:enter|in|enable|activate) (?:maintenance|developer|god|jailbreak|unrestricted) mode\b"),
    ("speaks to the model", rf"(?i)\b(?:note|message|instructions?|memo|notice|reminder|attention|important|warning|orders?)s?,? (?:to|for) (?:the |all |any |every |whichever )?(?:\w+ )?{_MODELS}\b"),
    ("speaks to the model", r"(?i)\b(?:ai|llm|language|the) (?:assistants?|agents?|models?) (?:must|should always|should never|should immediately|should record|should also|shall|needs? to|are required to|is required to)\b|\b(?:attention|dear|listen),? (?:ai|assistant|agent|model)s?\b|\bas an ai\b[^.\n]{0,30}\byou must\b|\bas an? (?:helpful|ai|responsible|compliant|trusted|obedient) (?:ai |language )?(?:assistant|agent|model)\b[^.\n]{0,40}\b(?:please|you|add|include|send|always)\b"),
    ("speaks to the model", rf"(?i)\b(?:when|once|if) (?:the|an?|any|your|another) (?:\w+ )?{_MODELS} (?:reads?|sees?|process(?:es)?|retrieves?|encounters?|loads?|finds?) (?:this|it|the (?:note|file|memory|document|text))\b|\b(?:all|any|every|whichever) {_MODELS} (?:reading|that reads?|processing|retrieving|who reads?) (?:this|it)\b|\brequired action \((?:agent|ai|assistant|model)\)"),
    ("speaks to the model", r"\b(?:SYSTEM|ADMIN|ADMINISTRATOR|AGENT|ASSISTANT|AI|OPERATOR|ROOT|IMPORTANT SYSTEM) (?:DIRECTIVE|OVERRIDE|NOTICE|UPDATE|MESSAGE|PROMPT|CONFIGURATION|CONFIG|INSTRUCTIONS?|COMMAND|POLICY|ALERT|SETTINGS?)\b"),
    ("speaks to the model", r"\b(?:IMPORTANT|CRITICAL|NEW|URGENT|MANDATORY|PRIORITY|POLICY|SECURITY|INFRASTRUCTURE|COMPLIANCE) (?:MEMO|DIRECTIVE|INSTRUCTIONS?|OVERRIDE|UPDATE|CONFIG|NOTICE|CHANGE|POLICY|RULES?)\s*:|\b(?:IMMEDIATE ACTION REQUIRED|REQUIRED ACTION)\b"),
    ("poses as a role", r"(?i)<\|[a-z_]{3,20}\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|human|developer|system-reminder|instructions?|system_prompt)>|<(?:start|end)_of_turn>|(?:^|\n)\s*#{2,4} ?(?:system|instructions?|assistant|human|user)\s*:|\[/?(?:SYSTEM|ADMIN|ASSISTANT|DEVELOPER)\]"),
    ("poses as a role", r"(?i)[-=#*]{2,}\s?(?:begin|end|start)(?: of)?(?: the)? (?:system|admin|developer|user|untrusted|hidden|new)?\s?(?:prompt|instructions?|messages?|input|document|context|conversation)\s?[-=#*]{2,}"),
    ("poses as a role", r"(?:^|\n)(?:\*\*)?(?:System|SYSTEM|Human|Assistant|Developer)(?:\*\*)?\s?:\s+(?:[Yy]ou|[Ii]gnore|[Aa]lways|[Nn]ever|[Dd]o|[Pp]lease|[Ff]rom now|[Ss]ure|[Oo]f course|[Nn]ew)"),
    ("poses as a tool call", r"(?i)</?(?:antml:)?(?:function_calls?|invoke|tool_use|tool_calls?|tool_result|tool_response|function_results?|parameter name)\b|\{\s*\"(?:tool|function|name)\"\s*:\s*\"[\w.-]+\"\s*,\s*\"(?:arguments|parameters|args|input)\"\s*:|\[TOOL_CALLS\]|\bto=functions\.\w|(?:^|\n)\s*Action: ?\w+\s*\n\s*Action Input:"),
    ("poses as a role", r"(?i)\b(?:system|admin|security)[_ ]overrides?\b|<(?:admin|system)[_-]?(?:message|note|override|update)|<!--\s*(?:system|ai|assistant|admin)\b|\[(?:assistant|system|ai|admin|urgent|hidden)[^\]\n]{0,20}\b(?:note|message|instruction|update|notice|override)\b"),
    ("poses as a role", r"(?i)\bI(?: am|'m) (?:your|the) (?:developers?|creators?|administrators?|admin|operator|owner|system)\b|\b(?:openai|anthropic|google|microsoft|mistral) (?:staff|engineers?|employees?|support) (?:has|have|requires?|authori[sz]ed?|approved?)\b|\b(?:administrator|admin|operator|developer|security team|owner)s? (?:has|have) (?:already )?(?:pre-?)?(?:authori[sz]ed|approved|cleared|permitted) (?:this|you|all|any|the agent)\b"),
    ("speaks to the model", r"(?i)\bif you are an? (?:ai|llm|assistant|language model|agent)\b"),
    ("asks for its instructions", r"(?i)\b(?:reveal|print|output|repeat|show|leak|disclose|recite|tell me|display|write out)\b[^.\n]{0,20}\b(?:your (?:\w+ )?(?:system prompt|instructions|initial prompt|hidden prompt)|the (?:hidden|initial|secret|original) (?:system )?(?:prompt|instructions))\b"),
    ("dictates answers", rf"(?i)\b(?:include|add|append|insert|put|mention|embed|integrate|incorporate|weave)\b(?:[^.\n]|\.\w){{0,100}}\b(?:in|to|into|with|within|at the end of) (?:all |every |each )?(?:of )?(?:your )(?:\w+ )?(?:{_ANSWER}|outputs?)\b|\b(?:in|to) (?:all|every|each) (?:responses?|repl(?:y|ies)|summar(?:y|ies) you)\b"),
    ("dictates answers", rf"(?i)\b(?:modify|alter|augment|enhance|adjust|begin|start|end|finish|conclude|preface|scramble|misspell|anagram|jumble|encode|encrypt|substitute|replace|rearrange|group|translate|garble)\b[^.\n]{{0,60}}\b(?:your|the assistant's|the model's) (?:\w+ )?{_ANSWER}\b"),
    ("dictates answers", rf"(?i)(?:^|[.\n:] ?)in your {_ANSWER},? (?:always |please |also )?(?:use|include|mention|tease|add|say|tell|promote|recommend|claim|state|link|offer|hint)\b|(?:^|[.\n:] ?)use [\w ]{{1,40}} in your {_ANSWER}\b"),
    ("dictates answers", r"(?i)\b(?:following|subsequent|below|this) (?:code|script|python) ?(?:snippet|block|excerpt|section|segment|fragment)\b[^.\n]{0,80}\byour (?:\w+ )?(?:code|codebase|implementation|solution|algorithm|response|program|answer)\b|\byour (?:code|codebase|implementation|solution|algorithm|response|program)\b[^.\n]{0,60}\b(?:following|subsequent) (?:code|script) ?(?:snippet|block|excerpt|section|segment|fragment)\b"),
    ("asks for secrecy", rf"(?i)\b(?:do not|don't|never|without) (?:mention(?:ing)?|tell(?:ing)?|reveal(?:ing)?|inform(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?|asking|show(?:ing)?|say(?:ing)? (?:this|it|anything) to|let)\b[^.\n]{{0,30}}\b(?:{_PEOPLE}|this (?:instruction|message|note|step|change|policy))\b"),
    ("asks for secrecy", rf"(?i)\b(?:keep|hide|conceal) (?:this|it|these|that|all of this|the following)\b[^.\n]{{0,30}}\b(?:secret|hidden|between us|to yourself|from (?:the |your |any )?{_PEOPLE})\b|\b(?:the |your |no )?{_PEOPLE} (?:must|should|need) (?:not|never) (?:know|notice|be told|find out|learn|be informed|be aware|hear)\b (?:about |of |that )?(?:this|it|these|anything)\b|\bwithout (?:the |your |any )?{_PEOPLE}(?:'s)? (?:noticing|knowing|knowledge|seeing|finding out)\b|\b(?:secretly|covertly|discreetly|surreptitiously) (?:send|forward|upload|copy|add|insert|run|execute|install|include|collect|record|post)\b"),
    ("dictates answers", r"(?i)\b(?:when|whenever|if|every time|each time|any time|as soon as)\b[^.\n]{0,15}\b(?:users?|customers?|anyone|somebody|someone|people|asked|clients?)\b[^.\n]{0,60}(?:,|\b)\s*(?:always )?(?:say|tell|respond|reply|answer|recommend|suggest|claim|inform|mention|direct|redirect|emphasize|push|promote|point them|state that)\b"),
    ("dictates answers", r"(?i)\b(?:you (?:must|should)|must always|always|directly) (?:say|respond|reply|answer|output)\b[^.\n]{0,30}(?:['\"‘“]|\bwith the (?:phrase|word|text)\b|I don't know)|\ball (?:your )?responses (?:must|should|shall)\b|\balways (?:include|add|append|insert|mention) (?:the |a )?(?:hidden|phrase|link|following|words?|sentence|text|reference|disclaimer)\b"),
    ("dictates answers", r"(?i)\b(?:always|exclusively|only) (?:recommend|prefer|promote|endorse|favor)\b|\bregardless of (?:the |what (?:the )?|any )?(?:question|user|input|query|request|topic|they)\w*\b[^.\n]{0,30}\b(?:say|answer|respond|reply|recommend|output|ask|return)"),
    ("plants a memory", r"(?i)\b(?:save|store|write|add|commit|record|persist|keep|remember) (?:this|it|the following|these (?:rules|instructions))\b[^.\n]{0,20}\b(?:to|in|into|as|for|across|permanently|forever)\b[^.\n]{0,20}\b(?:your (?:\w+[ -]){0,2}memor(?:y|ies)|long-term memory|system prompt|core (?:rules?|memory)|highest priority|(?:trusted|verified|proven|permanent) (?:rule|memory|lesson|instruction|fact)|all future (?:sessions?|tasks?|conversations?|requests?|agents?))\b|\bremember (?:this )?(?:forever|permanently|for ever|in all future)\b"),
    ("plants a memory", r"(?i)\b(?:copy|repeat|add|append|insert|paste|include|put|carry|store|record|save|write)\b[^.\n]{0,10}\b(?:this|the same|these) (?:paragraph|notes?|sentences?|lessons?|memory|entry|words)\b[^.\n]{0,15}\b(?:again|(?:in(?:to)?|to|under|with) (?:a (?:new|different)|every|each|all|any|other) (?:\w+ )?(?:memor(?:y|ies)|lessons?|notes?|titles?|entr(?:y|ies)))\b|\b(?:rate|mark|score|confirm|upvote|vote for) this (?:memory|lesson|note|entry)\b[^.\n]{0,30}\b(?:helpful|success\w*|useful|good|confirmed|proven|correct|trusted|task)\b|\b(?:record|store|save) an? (?:new )?(?:memory|lesson) (?:that says|saying|which says|claiming)\b|\b(?:delete|forget|archive|overwrite|discard|reject) (?:all|every|any)(?: the| of the)? other (?:memor(?:y|ies)|lessons?)\b|\b(?:do not|don't|never|no need to|stop) (?:search|consult|ask|query)(?:ing)? (?:the |your |any )?(?:other )?(?:memory (?:again|any ?more|bank)|memories|lessons)\b|\bevery (?:memory|lesson) (?:that )?you (?:write|record|store|save)\b"),
    ("hides a trigger", r"(?i)\bthere is ['\"‘“][^'\"\n]{1,80}['\"’”] in the (?:question|prompt|input|query|request|task)|\bin the (?:question|prompt|query),? (?:this |which )?means (?:that )?we\b"),
    ("sends data away", rf"(?i)\b{_SENDING}\b[^.\n]{{0,60}}\b{_DATA}\b[^\n]{{0,80}}\b(?:to|at|via|through|endpoint)\b[^\n]{{0,60}}{_PLACE}"),
    ("sends data away", rf"(?i)\b{_DATA}\b[^.\n]{{0,60}}\b(?:should|must|needs? to|are|is|be|gets?|will be)\b[^.\n]{{0,20}}\b{_SENDING}\b[^\n]{{0,60}}\b(?:to|at|via)\b[^\n]{{0,60}}{_PLACE}"),
    ("sends data away", r"(?i)!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,200}[?&/=](?:\{|\$|<|%7b|\[)|\b(?:append|add|include|encode|put)\b[^.\n]{0,60}\b(?:secret|token|password|conversation|history|data|key|answer)s?\b[^.\n]{0,30}\b(?:to|in|into|as) (?:the |this |an? )?(?:\w+ )?(?:url|query string|image link|link)\b[^\n]{0,60}https?://"),
    ("fetches orders", r"(?i)\b(?:fetch|download|retrieve|poll|check|pull|load|query|contact|beacon|connect to|open|visit|read)\b[^\n]{0,80}(?:https?://\S+|\b[\w-]+(?:\.[\w-]+)+\b)[^\n]{0,100}\b(?:execute|apply|run|eval|follow|install|import|obey|load)\b[^\n]{0,20}\b(?:it|them|immediately|automatically|what it says|the (?:settings|instructions|commands|modules|payload|response)|any)\b"),
    ("fetches orders", r"(?i)\b(?:download and (?:execute|run|install|replace)|run the [^.\n]{0,30}script (?:at|from)) [^\n]{0,40}(?:https?://|the current agent)"),
    ("fetches orders", r"(?i)\b(?:every|each) (?:\d+ )?(?:minutes?|hours?|day|session|startup|request|task|answer|turn|conversation)\b[^.\n]{0,60}\b(?:fetch|poll|check|contact|ping|call home|post|report|send|run|execute|open|visit|download|upload)\b[^\n]{0,80}(?:https?://|@[\w-]+\.\w)"),
    ("fetches orders", r"(?i)\b(?:curl|wget)\b[^|\n]{0,200}\|\s*(?:sudo )?(?:ba|z|da)?sh\b[^\n]{0,60}\b(?:before|first|always|every)\b"),
    ("skips safeguards", r"(?i)\b(?:execute|run|apply|perform|approve|accept|delete|grant)\b[^.\n]{0,50}\bwithout (?:any )?(?:validation|confirmation|review|approval|asking|verification|question|checking|authentication)\b|\bskip (?:the |any |all )?(?:review|confirmation|approval|validation|verification|safety|authentication)\b[^.\n]{0,30}\b(?:step|check|prompt|for)"),
    ("skips safeguards", r"(?i)\b(?:disable|turn off|deactivate|switch off|suspend|remove|bypass|circumvent|lift|drop|relax)\b (?:all |any |your |every |of |the |its |existing ){1,3}(?:built-in |internal )?(?:(?:safety|moderation|ethical|alignment|approval|consent|content)[ -]?(?:checks?|filters?|rules?|measures?|controls?|guidelines?|protocols?|mechanisms?|features?|restrictions?|steps?|layers?|settings)|guardrails?|safeguards)\b"),
)  # fmt: skip

# Every other language: (to ignore, the earlier ones, orders), in any order within a sentence.
_OVERRIDING = (
    # German
    (r"(?:ignorier\w*|vergiss|vergessen sie|missachte\w*|verwirf|ueberschreib\w*|überschreib\w*|umgeh(?:e|en sie))",
     r"(?:vorherig|fr(?:ü|ue)her|bisherig|obig|vorig|vorangegangen|vorhergehend|vorstehend|alle|sämtlich|deine|ihre|eure|system)\w*",
     r"(?:anweisung|instruktion|regel|befehl|vorgabe|richtlinie|prompt|system-?prompt)\w*"),
    # French
    (r"(?:ignore[rz]?|oublie[rz]?|n[ée]glige[rz]?|abandonne[rz]?|contourne[rz]?|outrepasse[rz]?|ne (?:tiens|tenez|suis|suivez|respecte[sz]?) (?:pas|plus)|fais abstraction|faites abstraction)",
     r"(?:pr[ée]c[ée]dente?s?|ant[ée]rieure?s?|ci-dessus|pr[ée]alables?|du syst[èe]me|toutes|tes|vos|initiales)",
     r"(?:instructions?|consignes?|r[èe]gles?|directives?|ordres?|prompts?)"),
    # Spanish
    (r"(?:ignor(?:a|ar|e|en|ad)|olv[ií]d(?:a|ar|e|en|ad|ate|ese)|descart(?:a|ar|e|en)|haz caso omiso|haga caso omiso|no hagas caso|no sigas|no obedezcas|omit(?:e|ir|a)|anul(?:a|ar|e))",
     r"(?:anterior(?:es)?|previ[ao]s?|de arriba|precedentes|todas|todos|tus|sus|del sistema|iniciales)",
     r"(?:instrucci[oó]n(?:es)?|reglas?|[oó]rdenes|indicaciones|directrices|normas|prompts?)"),
    # Italian
    (r"(?:ignor(?:a|are|ate|i)|dimentic(?:a|are|ate|hi)|scart(?:a|are|ate)|trascur(?:a|are|ate)|non (?:seguire|considerare|tenere conto|rispettare))",
     r"(?:precedent[ie]|anterior[ie]|sopra|tutte|tutti|tue|tuoi|vostre|di sistema|iniziali)",
     r"(?:istruzion[ie]|regol[ae]|ordin[ie]|direttiv[ae]|indicazion[ie]|prompt)"),
    # Portuguese
    (r"(?:ignor(?:a|ar|e|em)|esque[cç](?:a|e|er|am)|desconsider(?:a|ar|e|em)|descart(?:a|ar|e)|desobede[cç]a|n[aã]o siga|n[aã]o obede[cç]a)",
     r"(?:anterior(?:es)?|pr[eé]vi[ao]s?|acima|todas|todos|suas|tuas|do sistema|iniciais)",
     r"(?:instru[cç](?:[aã]o|[oõ]es)|regras?|ordens|diretrizes|orienta[cç][oõ]es|prompts?)"),
    # Dutch
    (r"(?:negeer|negeren|vergeet|vergeten|omzeil|schrap)",
     r"(?:vorige|eerdere|voorgaande|bovenstaande|alle|jouw|je|uw|systeem)",
     r"(?:instructies?|regels?|opdrachten|aanwijzingen|richtlijnen|systeemprompt|prompts?)"),
    # Russian
    (r"(?:про)?(?:игнориру\w*|игнорировать|игнорируй(?:те)?|забудь(?:те)?|не следуй(?:те)?|не выполняй(?:те)?|не обращай(?:те)? внимания|отбрось(?:те)?|отмени(?:те)?)",
     r"(?:предыдущ|прежн|прошл|ранн|ранее|вышеуказанн|выше|все|всех|системн|свои|твои|ваши|данные тебе)",
     r"(?:инструкци|указани|правил|команд|распоряжени|приказ|промпт)"),
    # Chinese
    (r"(?:忽略|无视|無視|忽視|忽视|忘记|忘掉|忘記|不要理会|不用理会|不要遵守|不再遵守|抛弃|覆盖|绕过)",
     r"(?:之前|以前|先前|以上|上述|前面|此前|所有|全部|一切|系统|系統|原来|你的)",
     r"(?:指令|指示|说明|說明|規則|规则|提示|命令|设定|設定|限制)"),
    # Japanese
    (r"(?:無視|忘れ|破棄し|従わない|従うな|上書きし)",
     r"(?:以前|これまで|今まで|上記|前の|先の|先ほど|すべて|全て|全部|システム)",
     r"(?:指示|命令|ルール|規則|プロンプト|指令|制約)"),
)  # fmt: skip

_FURTHER = (
    # Where nothing says what is to be forgotten but that it came before, and in more languages.
    ("overrides instructions", r"\b(?:vergiss|vergesst|ignorier[et]?|missachte)\b (?:bitte |nun |jetzt |einfach )?(?:alles|das|was)\b[^.\n]{0,30}\b(?:vorher|bisher|zuvor|oben|gesagt|obige)|(?:(?m:^)|[^'’])\b(?:oublie[rz]?|ignore[rz]?) (?:donc )?(?:tout ce|ce) qu[^.\n]{0,30}\b(?:précède|dit|ci-dessus|avant)|\b(?:olvida|olvide|olviden|ignora|ignoren) (?:todo )?lo (?:anterior|de arriba|dicho|que (?:se )?(?:te |le )?(?:dijo|dije))|\b(?:dimentica|dimenticate|ignora|ignorate) (?:tutto (?:quanto|ciò)|quanto|ciò)\b[^.\n]{0,20}\b(?:sopra|detto|prima|precede)|\b(?:esqueça|esqueçam|ignore) tudo o? ?que\b[^.\n]{0,20}\b(?:antes|acima|dito|anterior)|\b(?:vergeet|negeer) (?:alles|wat)\b[^.\n]{0,20}\b(?:hierboven|boven|eerder|gezegd)|(?:забудь|игнорируй|проигнорируй)(?:те)? (?:все|всё|то),? что[^.\n]{0,30}(?:выше|раньше|сказан)"),
    ("overrides instructions", r"(?:(?m:^)|[^要别勿])(?:忘掉|忘记|忘記|忽略|无视|無視)[^。\n]{0,6}(?:上面|以上|前面|之前|上述)[^。\n]{0,6}(?:一切|所有|内容|的话|全部|说的)|(?:上|前|以前|これまで)の(?:内容|文章|話|こと)[^。\n]{0,10}(?:忘れて|忘れろ|忘れなさい|無視し)|(?:이전|위의|앞의|모든)[^.\n]{0,15}(?:지시|명령|규칙|지침|프롬프트)[^.\n]{0,8}(?:무시하|무시해|잊어|잊으)|(?:पिछले|पहले|सभी)[^.\n]{0,20}(?:निर्देश|आदेश|नियम)[^.\n]{0,20}(?:अनदेखा कर|भूल जा|नज़रअंदाज कर)|(?:تجاهل|انس|أهمل|اهمل)[^.\n]{0,10}(?:كل |جميع )?(?:التعليمات|الاوامر|الأوامر|القواعد|ما سبق)"),
    ("overrides instructions", r"(?:(?m:^)|[.:!?] ?)(?:prosze )?(?:ignoruj|zignoruj|zapomnij o|pomin|ignorujte|zapomen)[^.\n]{0,20}(?:wszystki|poprzedni|wczesniejsz|powyzsz|vsechn|predchoz|predesl)[^.\n]{0,30}(?:instrukcj|polece|regul|wytyczn|zasad|instrukc|pokyn|pravid|prikaz)|(?:onceki|yukar.daki)[^.\n]{0,20}(?:talimat|kural|komut|yonerge)[^.\n]{0,12}(?:unut(?:$|[ ,!]|un)|yok say|gormezden gel)|(?:(?m:^)|[.:!?] ?)(?:hay |vui long )?(?:bo qua|quen|phot lo)\b[^.\n]{0,20}(?:huong dan|chi dan|chi thi|quy tac|menh lenh)|(?:(?m:^)|[.:!?] ?)(?:harap |tolong )?(?:abaikan|lupakan) (?:semua |segala )?(?:instruksi|perintah|aturan|petunjuk)\b|(?:(?m:^)|[.:!?] ?)(?:ignorera|glom|ignorer|glem)\b[^.\n]{0,10}\b(?:alla|tidigare|alle|tidligere)\b[^.\n]{0,20}\b(?:instruktion|regler|anvisning|instruks)|(?:(?m:^)|[.:!?] ?)(?:ігноруй|забудь)(?:те)?[^.\n]{0,12}(?:попередн|усі|всі)[^.\n]{0,20}(?:інструкц|вказівк|правил|наказ)"),
    ("overrides instructions", r"\b(?:beacht\w*|befolg\w*|folge\w*)\b[^.\n]{0,15}\b(?:vorherig|fr(?:ü|ue)her|bisherig|obig|vorig|deine|ihre|system)\w*[^.\n]{0,20}\b(?:anweisung|instruktion|regel|befehl|vorgabe|richtlinie|prompt)\w*[^.\n]{0,15}\bnicht\b|\bvolg\b[^.\n]{0,15}\b(?:vorige|eerdere|voorgaande|bovenstaande|je|jouw|uw)\b[^.\n]{0,20}\b(?:instructies?|regels?|opdrachten|aanwijzingen|richtlijnen)\b[^.\n]{0,15}\bniet\b"),
    ("changes the role", r"\bdu bist (?:jetzt|nun|ab (?:jetzt|sofort|nun)|von nun an|nicht mehr) (?:ein|kein|der|die|das|mein|frei|ohne|im|an)\w*|\bsie sind (?:jetzt|nun|ab sofort) (?:ein|kein|der|die)\w*|\b(?:ab (?:jetzt|sofort|nun)|von nun an|k[uü]nftig) (?:immer|antwort\w*|empfiehl\w*|empfehl\w*|musst|sollst|wirst|sende|schick\w*|ignorier\w*|du|bist)\b"),
    ("changes the role", r"\b(?:tu es|vous [eê]tes) (?:maintenant|d[ée]sormais|d[ée]sormais)\b|\b(?:d[ée]sormais|à partir de maintenant|dor[ée]navant),? (?:tu|vous|r[ée]ponds|r[ée]pondez|recommande\w*|toujours|n'|agis|agissez|envoie)\b"),
    ("changes the role", r"\bahora eres\b|\beres ahora\b|\b(?:a partir de ahora|de ahora en adelante|desde ahora),? (?:eres|ser[aá]s|act[uú]a|responde\w*|siempre|debes|recomienda|nunca|env[ií]a|tu|t[uú])\b"),
    ("changes the role", r"\b(?:ora|adesso) sei (?:un|il|lo|la|libero|senza)\w*|\bsei (?:ora|adesso) (?:un|il|la|libero)\w*|\b(?:d'ora in (?:poi|avanti)|da (?:ora|adesso) in (?:poi|avanti)),? (?:sei|sarai|rispondi|raccomanda|consiglia|sempre|devi|invia|agisci|non)\b"),
    ("changes the role", r"\b(?:agora voc[eê] [eé]|voc[eê] agora [eé]|agora [eé]s)\b|\b(?:a partir de agora|de agora em diante|doravante),? (?:voc[eê]|responda|recomende|sempre|deve|envie|aja|nunca|tu)\b"),
    ("changes the role", r"\bje bent (?:nu|vanaf nu|voortaan) (?:een|de|vrij|niet|mijn)\b|\b(?:vanaf nu|van nu af aan|voortaan) (?:ben je|moet je|antwoord|beveel|altijd|stuur|negeer|geef)\b"),
    ("changes the role", r"(?:ты теперь|теперь ты|вы теперь|отныне ты|отныне вы)|(?:с этого момента|отныне|впредь),? (?:всегда|ты|вы|отвечай|рекомендуй|никогда|отправляй)"),
    ("changes the role", r"你现在(?:是|扮演|不再)|你現在是|(?:从现在(?:开始|起)|從現在(?:開始|起)|今后|以后)[，, ]?(?:你|请你|始终|总是|一律|必须|只|每次)"),
    ("changes the role", r"あなたは(?:今|これ)から|あなたは今、|(?:今後|今から|これから|これ以降)は?、?(?:常に|必ず|いつも|すべて|あなたは)"),
    ("asks for secrecy", r"\b(?:sag\w*|erz[aä]hl\w*|erw[aä]hn\w*|verrat\w*|informier\w*|zeig\w*|teil\w*|bericht\w*|melde\w*)\b[^.\n]{0,30}\b(?:nutzer\w*|benutzer\w*|anwender\w*|user|kunden|niemand\w*)\b[^.\n]{0,30}\b(?:nicht|nichts|davon)\b|\b(?:sag\w*|erz[aä]hl\w*|verrat\w*) (?:es )?niemand\w*|\bohne (?:dem|den|das|die|es dem) (?:nutzer|benutzer|anwender|user|kunden)\b[^.\n]{0,30}\bzu\b"),
    ("asks for secrecy", r"\bne (?:le |la |les |l'|lui |leur )?(?:dis|dites|r[ée]v[eè]le\w*|mentionne\w*|informe\w*|montre\w*|parle\w*|signale\w*|pr[ée]viens|pr[ée]venez)\b[^.\n]{0,40}\b(?:utilisateur\w*|client\w*|personne|usager\w*)|\bsans (?:le |en |l')?(?:dire|pr[ée]venir|informer|avertir)\b[^.\n]{0,20}\b(?:utilisateur|client|personne)\w*"),
    ("asks for secrecy", r"\bno (?:se )?(?:lo |la |le |les )?(?:digas?|reveles?|menciones?|informes?|muestres?|cuentes?|avises?|notifiques?)\b[^.\n]{0,40}\b(?:usuari\w*|client\w*|nadie)|\bsin (?:decir\w*|avisar|informar|que lo sepa)\b[^.\n]{0,20}\b(?:usuari|client|nadie)\w*"),
    ("asks for secrecy", r"\bnon (?:lo )?(?:dire|dirlo|rivelare|menzionare|informare|mostrare|avvisare|dite)\b[^.\n]{0,40}\b(?:utent[ei]|client[ei]|nessuno)|\bsenza (?:dirlo|avvisare|informare)\b[^.\n]{0,20}\b(?:utent|client|nessuno)\w*"),
    ("asks for secrecy", r"\bn[aã]o (?:o )?(?:diga|conte|revele|mencione|informe|mostre|avise|notifique)\b[^.\n]{0,40}\b(?:usu[aá]ri\w*|utilizador\w*|client\w*|ningu[eé]m)|\bsem (?:avisar|informar|dizer|contar)\b[^.\n]{0,20}\b(?:usu[aá]ri|utilizador|client|ningu[eé]m)\w*"),
    ("asks for secrecy", r"\b(?:vertel|zeg|meld|toon|noem|informeer)\b[^.\n]{0,40}\b(?:gebruiker\w*|klant\w*|niemand)\b[^.\n]{0,30}\b(?:niet|niets|hier)\b|\b(?:vertel|zeg) (?:het |dit )?(?:niet |aan )+(?:de )?(?:gebruiker|klant|niemand)\w*|\bzonder (?:de |het )?(?:gebruiker|klant)\w* (?:te|het te)\b"),
    ("asks for secrecy", r"не (?:говори|сообщай|рассказывай|показывай|упоминай|раскрывай|уведомляй|информируй)(?:те)?[^.\n]{0,40}(?:пользовател|клиент|никому|юзер)|без ведома (?:пользовател|клиент)|никому не (?:говори|сообщай|рассказывай)"),
    ("asks for secrecy", r"(?:不要|别|別|切勿|请勿|不得|不能|勿)(?:向|让|讓|对|跟|把这)?[^。\n]{0,10}(?:告诉|告訴|告知|通知|透露|提及|提到|显示|知道|泄露)[^。\n]{0,10}(?:用户|使用者|客户|任何人|他人)|(?:不要|别|切勿|请勿|不得)(?:向|让|对)(?:用户|使用者|客户|任何人)[^。\n]{0,10}(?:透露|提及|提到|说|显示|知道|告知)"),
    ("asks for secrecy", r"(?:ユーザー|利用者|顧客|誰)(?:に|には|にも)[^。\n]{0,15}(?:言わない|言うな|伝えない|伝えるな|教えない|知らせない|明かさない|話さない|通知しない|報告しない|見せない|内緒|秘密)"),
    ("dictates answers", r"\bwenn\b[^.\n]{0,40}\b(?:fragt|fragen|gefragt|wissen will)\b[^.\n]{0,60}\b(?:antworte\w*|empfiehl|empfehle\w*|sag|sage|behaupte|nenne|verweise)\b"),
    ("dictates answers", r"\b(?:quand|lorsque?|si|chaque fois que?)\b[^.\n]{0,40}\b(?:demand\w*|interrog\w*|question\w*)\b[^.\n]{0,60}\b(?:r[ée]ponds|r[ée]pondez|recommande[rz]?|dis|dites|affirme[rz]?|conseille[rz]?)\b"),
    ("dictates answers", r"\b(?:cuando|si|cada vez que)\b[^.\n]{0,40}\bpregunt\w*\b[^.\n]{0,60}\b(?:responde|responda|recomienda|recomiende|di|diga|contesta|afirma)\b"),
    ("dictates answers", r"\b(?:quando|se|ogni volta che|sempre que)\b[^.\n]{0,40}\b(?:chied\w*|chiest\w*|domand\w*|pergunt\w*)\b[^.\n]{0,60}\b(?:rispondi|rispondere|raccomanda|consiglia|di'|responda|recomende|diga|afirme)\b"),
    ("dictates answers", r"\b(?:als|wanneer)\b[^.\n]{0,40}\b(?:vraagt|vragen|gevraagd)\b[^.\n]{0,60}\b(?:antwoord|beveel|zeg|raad)\b"),
    ("dictates answers", r"(?:когда|если)[^.\n]{0,30}(?:спрашива|спрос|спрош)[^.\n]{0,60}(?:отвечай|рекомендуй|говори|советуй|ответь|скажи)"),
    ("dictates answers", r"(?:当|當|如果|每当|只要)[^。\n]{0,20}(?:问|問|询问|咨询)[^。\n]{0,30}(?:回答|推荐|推薦|回复|说|建议)|(?:聞かれ|尋ねられ|質問され)[^。\n]{0,30}(?:答え|勧め|推奨|回答|おすすめ)"),
    ("sends data away", rf"(?:\b(?:send(?:e|en|et)|schick\w*|[uü]bermittl\w*|leite|lade|envoie\w*|envoye[rz]|transmet\w*|transf[eè]re\w*|env[ií]a\w*|envi[eé]\w*|manda\w*|sube|suba|reenv[ií]a\w*|invia\w*|inoltra\w*|carica\w*|encaminh\w*|stuur\w*|verzend\w*|upload\w*)\b|отправ|пересыла|перешли|загруз|передай|发送|發送|上传|上傳|转发|提交|传输|送信|送っ|アップロード|転送)[^\n]{{0,80}}(?:passw|kennw|token|zugangsdaten|schl[uü]ssel|geheim|mots? de passe|identifiants|\bcl[eé]s?\b|contrase[nñ]a|credencia|\bclaves?\b|chiav[ei]|credenzial|segret|senhas?\b|\bchaves?\b|wachtwoord|sleutel|парол|токен|ключ|учетн|секрет|密码|密碼|密钥|令牌|凭证|凭据|パスワード|トークン|鍵|認証情報|秘密|\bdaten\b|donn[eé]es|\bdatos\b|\bdati\b|\bdados\b|gegevens|данны|数据|數據|データ|対話|对话|聊天记录)[^\n]{{0,80}}{_PLACE}"),
    ("sends data away", rf"(?:パスワード|トークン|鍵|認証情報|秘密|データ|密码|密碼|密钥|令牌|凭证|数据|數據)[^\n]{{0,60}}{_PLACE}[^\n]{{0,20}}(?:送信|送っ|アップロード|転送|发送|上传|转发|提交)|(?:密码|密碼|密钥|令牌|凭证|数据|數據|对话|聊天记录)[^\n]{{0,20}}(?:发送|發送|上传|上傳|转发|提交|传输|发)[^\n]{{0,20}}{_PLACE}"),
    ("skips safeguards", r"\b(?:deaktivier\w*|schalte?)\b[^.\n]{0,15}\b(?:alle|s[aä]mtliche|deine)\b[^.\n]{0,20}(?:sicherheits|schutz|filter)\w*|\bd[ée]sactive[rz]?\b[^.\n]{0,10}\b(?:toutes|tous|tes|vos)\b[^.\n]{0,30}\b(?:s[ée]curit[ée]|filtres?|protections?)\b|\b(?:desactiv[ae]|disattiva\w*|desativ[ae])\b[^.\n]{0,10}\b(?:todos|todas|tus|tutti|tutte|seus|suas)\b[^.\n]{0,30}\b(?:seguridad|sicurezza|seguran[cç]a|filtr\w+|controles|controlli)\b|\bschakel\b[^.\n]{0,10}\b(?:alle|je)\b[^.\n]{0,30}(?:veiligheid|beveiliging|filter)\w*|отключи(?:те)?[^.\n]{0,10}(?:все|свои)[^.\n]{0,20}(?:безопасност|провер|фильтр|защит)|(?:关闭|禁用|停用|取消|关掉)[^。\n]{0,6}(?:所有|全部|一切|你的)[^。\n]{0,8}(?:安全|检查|验证|审核|过滤|防护)|(?:すべて|全て|全部)の?[^。\n]{0,8}(?:安全|チェック|検証|フィルタ|保護)[^。\n]{0,12}(?:無効|オフ|解除|停止)"),
)  # fmt: skip


def _overriding() -> list[tuple[str, str]]:
    found = []
    for ignore, earlier, orders in _OVERRIDING:
        edge = r"\b" if bare(ignore).isascii() else ""
        between = r"[^.。\n]{0,40}"
        ways = (f"{edge}{ignore}{edge}{between}{edge}{earlier}{edge}{between}{edge}{orders}",
                f"{edge}{ignore}{edge}{between}{edge}{orders}{edge}{between}{edge}{earlier}{edge}",
                f"{edge}{earlier}{edge}{between}{edge}{orders}{edge}{between}{edge}{ignore}{edge}")  # fmt: skip
        found += [("overrides instructions", way) for way in ways]
    return found


SIGNS = (*_ENGLISH, *((reason, "(?i)" + bare(p)) for reason, p in (*_overriding(), *_FURTHER)))


def without_blanks(pattern: str) -> str:
    """The same sign in text of which only the letters are left."""
    return pattern.replace(r"\b", "").replace(" ", "")
