"""Words that tell what a question is about from what it asks (``search.asked``).

English, German, French and Spanish.
"""

from __future__ import annotations

_words = str.split
WHICH = frozenset(_words("""
    what which who whom whose when where why how
    welche welcher welches welchem welchen wer wem wen wie was wann wo wohin warum wofür
    quel quelle quels quelles qui que quoi où quand comment combien
    cuántos cuántas cuánto cuál cuáles qué quién dónde cuándo cómo
"""))  # fmt: skip
GERMAN = frozenset(_words(
    "welche welcher welches welchem welchen wer wem wen wie was wann wo wohin warum wofür"
))  # fmt: skip
BEING = frozenset(_words("is are was were 's ist sind war waren est sont es son heißt lautet"))
AUXILIARIES = BEING | frozenset(_words("""
    do does did can could should may might must will would has have had shall be been being
    get gets werden wird wurde wurden hat haben kann können muss müssen darf dürfen soll sollen
    gilt gelten ont se está están hay
"""))  # fmt: skip
ARTICLES = frozenset(_words("""
    the a an this that these those my our your his her its their each every all any one some
    der die das den dem des ein eine einen einem einer unser unsere unseren unserem
    le la les l un une du mon notre nos el los las una unos
"""))  # fmt: skip
PREPOSITIONS = frozenset(_words("""
    of for in on at by with to from into onto as per about under over through between during
    after before without within against than if while and or out off up until till since
    für mit auf im zu zum zur von vom bei beim an am aus nach vor unter über und oder bis
    de à au aux pour par avec dans sur en para con por y o d ou et
"""))  # fmt: skip
PRONOUNS = frozenset(_words("""
    i we you he she they it us me there people everybody somebody
    ich wir sie er es man uns je nous vous il elle
"""))  # fmt: skip
FUNCTION = WHICH | AUXILIARIES | ARTICLES | PREPOSITIONS | PRONOUNS
# They stand in questions about anything.
LIGHT = frozenset(_words("""
    do get use make find run set need go put take have know see happens comes happen come like
    want please tell new old current currently now used called named look still exactly
    company firm firma neue neuer neuen neues aktuelle aktuellen
"""))  # fmt: skip
HOW = frozenset(_words("""
    many much long often large big quickly fast far old wide high deep soon
    viele viel lange oft hoch groß schnell
"""))  # fmt: skip
WHEN = frozenset(_words("when wann quand cuándo combien cuántos cuántas cuánto"))
AMOUNTS = frozenset(_words("""
    two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty
    fifty sixty ninety hundred thousand once twice half quarter never always hourly daily nightly
    weekly monthly quarterly yearly minute hour day night noon midnight morning evening week month
    year minutes hours days weeks months years monday tuesday wednesday thursday friday saturday
    sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays january february march
    april june july august september october november december immediately
    zwei drei vier fünf sechs sieben acht neun zehn zwölf einmal zweimal täglich wöchentlich
    monatlich vierteljährlich jährlich stunde stunden tag tage woche wochen monat monate jahr jahre
    montag dienstag mittwoch donnerstag freitag samstag sonntag jour jours semaine semaines mois
    ans heure heures día días semana semanas mes meses año años hora horas
"""))  # fmt: skip
OF = frozenset(_words("of von vom des der du de del"))
MANNER = frozenset(_words("how wie comment cómo"))
OR = frozenset(("or", "oder", "ou", "o"))
# Who asks for one of them does not ask for another on the same line.
INSTEAD = tuple(
    tuple(frozenset(forms.split("/")) for forms in line.split())
    for line in (
        "before/vor/avant/antes after/nach/après/después during/während",
        "first second third last",
        "inside/indoors outside/outdoors",
        "success/succeeds/succeeded/successful failure/fails/failed/fail",
        "north/northern south/southern east/eastern west/western",
        "left right",
        "upper lower",
        "front back/rear",
        "summer winter spring autumn",
        "weekday/weekdays weekend/weekends",
        "day/tagsüber/daytime night/nachts",
        "development/dev/entwicklung production/prod/live/produktion staging test/tests/testing",
        "read/reads/reader write/writes/writer",
        "source target",
        "input output",
        "public/external private/internal",
    )
)
# Other words for the same thing, each line by its first one.
SAID_OTHERWISE = """
    documentation docs doc manual
    repository repo repos
    configuration config configs settings
    administrator admin admins administration
    database databases db
    environment env environments
    application app apps
    authentication auth login
    information info
    kubernetes k8s
    maximum max
    minimum min
    specification spec specs
    parameter param params argument arguments
    directory folder folders dir
    performance perf
    employee employees staff personnel colleague colleagues
    customer customers client clients
    vacation holiday holidays leave
    picture pictures image images photo photos
    car cars vehicle vehicles
    phone telephone phones
    salary salaries wage wages pay
    price prices cost costs fee fees
    error errors failure failures
    password passwords passphrase passcode
    guest guests visitor visitors
    doctor doctors physician gp
    email emails mail mails mailbox mailboxes
    website site webpage
    backup backups snapshot snapshots
    job jobs task tasks
    meeting meetings call calls
    host hosts server servers machine machines
    ticket tickets issue issues
    invoice invoices bill bills
    newsletter mailing
    laptop laptops notebook computer
    office offices premises
    supplier suppliers vendor vendors
    lawyer attorney
    shop store shops stores
    parcel parcels package shipment
    maintenance downtime upkeep
    apartment flat
    dashboard dashboards
    mobile smartphone
    audio sound recording
    urlaub ferien
    rechnung rechnungen faktura
    mitarbeiter angestellte beschäftigte
    gehalt lohn
    auto wagen fahrzeug
"""
CALLED = {
    word: words[0] for words in map(_words, SAID_OTHERWISE.strip().splitlines()) for word in words
}
WHO = frozenset(("who", "wer", "qui", "quién"))
PLACES = frozenset(_words("when where why how wann wo warum wofür où quand dónde cuándo"))
DONE = frozenset(_words("kept sent built held sold paid shown made done put stored eingereicht"))
