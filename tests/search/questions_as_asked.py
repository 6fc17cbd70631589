"""Twelve lessons, and what people and agents ask for them: misspelt, in other languages, by a
name in another spelling, with what a program printed, and inside a long prompt."""

from __future__ import annotations

LESSONS = {
    "throttle": ("Slow down when the mail provider throttles",
                 "The provider answers 429 after fourteen mails a second. Read Retry-After, wait "
                 "as long with some jitter, and send in batches: `sendBatch` takes 50 addresses."),
    "bom": ("Read spreadsheet exports as utf-8-sig",
            "Excel writes a byte order mark in front of the first column name of a CSV file, so "
            "that `csv.DictReader` has no key `customer_id`. Open it with encoding='utf-8-sig'."),
    "pool": ("Give database sessions back in a finally block",
             "A connection pool runs dry when transactions are left open after an exception. Close "
             "the session in finally, and set pool_timeout so that it is noticed early."),
    "skew": ("Allow a minute of clock skew for tokens",
             "A JWT is refused right after it was issued when the clock of the server is behind: "
             "pass leeway=60 to `jwt.decode`, and let chrony run on the hosts."),
    "lockfile": ("Commit the lockfile and install with npm ci",
                 "npm ci stops when package-lock.json does not match package.json. Run npm install "
                 "once, commit the lockfile, and never edit it by hand."),
    "layers": ("Prune old Docker images every night",
               "The disk of the build host fills up with unused layers. Run docker image prune -af "
               "from a timer, and keep the cache of the builder below 20 GB."),
    "preflight": ("Let OPTIONS requests through before the login check",
                  "A CORS preflight carries no cookie. When the session middleware answers it with "
                  "401 the browser blocks the real request; register the CORS handler first."),
    "borrow": ("Copy out of the map before it is changed",
               "Rust refuses a second mutable borrow while a reference into a HashMap lives "
               "(E0502). Clone the value, or use the entry API, and drop the reference first."),
    "heap": ("Raise the heap of the build for large bundles",
             "Node aborts with `JavaScript heap out of memory` when source maps are made. Set "
             "NODE_OPTIONS=--max-old-space-size=4096 for the job, or split the bundle."),
    "lfs": ("Fetch large files before the tests",
            "A checkout in CI has pointer files instead of pictures when Git LFS was not asked. "
            "Run git lfs pull after the checkout, or set lfs: true in the step."),
    "migration": ("Take an advisory lock before a migration",
                  "Two replicas that start at once run `migrate_schema` twice and wait for each "
                  "other for ever. Take pg_advisory_lock first, and let the second one skip."),
    "zone": ("Freeze the clock in tests of dates",
             "Tests that compare with today fail around midnight and on hosts in another time "
             "zone. Set TZ=UTC and use `freezeTime` with a fixed date."),
}  # fmt: skip

TYPOS = {
    "bom": "fisrt colum of the csv exprot is not recognised",
    "pool": "databse conection pool runs dry affter an excepton",
    "skew": "jwt tokn refused rigth after it was isued",
    "lockfile": "npm ci fials, pakage-lock doesnt match",
    "layers": "dokcer fills teh disk of the biuld host",
    "preflight": "browser bloks requst, options anwers 401",
    "borrow": "rust seconnd mutabel borow of a hashmap",
    "throttle": "mail provder answers 429, to many mials",
    "heap": "node out of memry when bulding the bundel",
    "lfs": "pictrues are pointer fiels in the chekout",
    "migration": "two replcas run the migraton at the same tiem",
    "zone": "date tets fail arround midnigth",
}
GERMAN = {
    "bom": "Die erste Spalte der CSV-Datei aus Excel wird nicht erkannt",
    "pool": "Der Verbindungspool der Datenbank ist nach einer Ausnahme leer",
    "skew": "Das JWT-Token wird sofort nach der Ausstellung abgelehnt",
    "lockfile": "npm ci bricht ab, weil die Lockdatei nicht passt",
    "layers": "Docker füllt die Festplatte des Build-Servers",
    "preflight": "Der Browser blockiert die Anfrage, OPTIONS liefert 401",
    "borrow": "Rust verbietet die zweite veränderliche Referenz auf die HashMap",
    "throttle": "Der Mail-Anbieter antwortet mit 429, wenn wir zu schnell senden",
    "heap": "Node hat beim Bauen des Bundles keinen Speicher mehr",
    "lfs": "Nach dem Checkout sind statt der Bilder nur Zeiger da, Git LFS",
    "migration": "Zwei Replikate führen die Migration gleichzeitig aus und warten aufeinander",
    "zone": "Tests mit einem Datum schlagen um Mitternacht fehl",
}
FRENCH = {
    "bom": "La première colonne du fichier CSV d'Excel n'est pas reconnue",
    "pool": "Le pool de connexions à la base de données est vide après une exception",
    "skew": "Le jeton JWT est refusé juste après son émission",
    "lockfile": "npm ci échoue parce que le lockfile ne correspond pas",
    "layers": "Docker remplit le disque du serveur de build",
    "preflight": "Le navigateur bloque la requête, OPTIONS répond 401",
    "borrow": "Rust refuse un deuxième emprunt mutable de la HashMap",
    "throttle": "Le fournisseur de mail répond 429 quand nous envoyons trop vite",
    "heap": "Node n'a plus de mémoire pendant la construction du bundle",
    "lfs": "Après le checkout il y a des pointeurs à la place des images, Git LFS",
    "migration": "Deux réplicas lancent la migration en même temps et s'attendent",
    "zone": "Les tests de dates échouent autour de minuit",
}
SPANISH = {
    "bom": "La primera columna del archivo CSV de Excel no se reconoce",
    "pool": "El pool de conexiones a la base de datos se agota tras una excepción",
    "skew": "El token JWT se rechaza justo después de emitirlo",
    "lockfile": "npm ci falla porque el lockfile no coincide",
    "layers": "Docker llena el disco del servidor de compilación",
    "preflight": "El navegador bloquea la petición, OPTIONS responde 401",
    "borrow": "Rust rechaza un segundo préstamo mutable del HashMap",
    "throttle": "El proveedor de correo responde 429 cuando enviamos demasiado rápido",
    "heap": "Node se queda sin memoria al construir el bundle",
    "lfs": "Tras el checkout hay punteros en lugar de imágenes, Git LFS",
    "migration": "Dos réplicas ejecutan la migración a la vez y se esperan",
    "zone": "Las pruebas de fechas fallan alrededor de medianoche",
}
IDENTIFIERS = {
    "bom": "CustomerId missing in csv_dict_reader",
    "pool": "poolTimeout",
    "skew": "JWTDecode fails",
    "throttle": "how many addresses does send_batch take",
    "heap": "maxOldSpaceSize",
    "migration": "MigrateSchema hangs",
    "zone": "freeze_time",
}
PRINTED = {
    "bom": """\
Traceback (most recent call last):
  File "/srv/import/run.py", line 31, in <module>
    main(sys.argv[1])
  File "/srv/import/run.py", line 22, in main
    rows = [clean(row) for row in csv.DictReader(source)]
  File "/srv/import/clean.py", line 9, in clean
    key = int(row["customer_id"])
KeyError: 'customer_id'
row: {'\\ufeffcustomer_id': '4411', 'name': 'Ruiz', 'city': 'Sevilla'}""",
    "pool": """\
2026-03-02 10:11:41,207 ERROR [worker-3] shop.orders: order 88121 failed
Traceback (most recent call last):
  File "/app/shop/orders.py", line 140, in place
    session.execute(insert(Order).values(**fields))
  File "/venv/lib/sqlalchemy/pool/impl.py", line 166, in _do_get
    raise exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached")
sqlalchemy.exc.TimeoutError: QueuePool limit of size 5 overflow 10 reached, connection timed out
pool status: checked out 15, idle in transaction 14, timeout 30.00""",
    "lockfile": """\
npm ERR! code EUSAGE
npm ERR! `npm ci` can only install packages when your package.json and package-lock.json
npm ERR! are in sync. Please update your lock file with `npm install` before continuing.
npm ERR! Missing: left-pad@1.3.0 from lock file
npm ERR! Invalid: lock file's vite@5.2.1 does not satisfy vite@5.4.0
npm ERR! A complete log of this run can be found in: /srv/.npm/_logs/2026-03-01T09_10-debug-0.log
##[error]Process completed with exit code 1.""",
    "borrow": """\
error[E0502]: cannot borrow `self.seen` as mutable because it is also borrowed as immutable
   --> src/cache/store.rs:88:13
    |
86  |         let old = self.seen.get(&key).unwrap();
    |                   --------- immutable borrow occurs here
87  |         // keep the newer one
88  |             self.seen.insert(key, old.merge(value));
    |             ^^^^^^^^^^^^^^^^^^^^^^^---^^^^^^^^^^^^^^
    |             |                     immutable borrow later used here
error: could not compile `cache` (lib) due to 1 previous error""",
    "heap": """\
<--- Last few GCs --->
[812:0x55d0c0] 61212 ms: Mark-Compact 2041.1 (2083.4) -> 2040.8 MB, 812.4 / 0.0 ms
FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
 1: 0xb9a330 node::Abort() [node]
 2: 0xaa07ee  [node]
 3: 0xd71ed0 v8::Utils::ReportOOMFailure(v8::internal::Isolate*, char const*, bool) [node]
 4: 0xd72277 v8::internal::V8::FatalProcessOutOfMemory(v8::internal::Isolate*) [node]
error Command failed with signal "SIGABRT".
    at ChildProcess.<anonymous> (/ci/node_modules/vite/bin/run.js:44:19)""",
    "migration": """\
api-7d9c-x2x1k  INFO  migrate_schema: applying 0042_add_invoice_state
api-7d9c-q8p7z  INFO  migrate_schema: applying 0042_add_invoice_state
api-7d9c-q8p7z  WARN  still waiting for AccessExclusiveLock on relation 16612 after 1000.081 ms
postgres  LOG:  process 712 still waiting for ShareLock on transaction 99102 after 1000.120 ms
postgres  ERROR:  deadlock detected
postgres  DETAIL:  Process 712 waits for ShareLock on transaction 99102; blocked by process 698.
api-7d9c-q8p7z  ERROR  readiness probe failed: migrations pending (0042)""",
}  # fmt: skip
ASKED = {
    "misspelt": TYPOS,
    "German": GERMAN,
    "French": FRENCH,
    "Spanish": SPANISH,
    "by a name": IDENTIFIERS,
    "printed": PRINTED,
}
