"""Texts that look like secrets and are none: nothing in them may be taken out.

Made at run time from a seed, like the secrets; ``(kind, text)``.
"""

import base64
import random

from tests.safety.secret_corpus import template_fill

TEMPLATES = {
    "commit": ["commit {hex:40}", "index {hex:7}..{hex:7} 100644", "Merge: {hex:10} {hex:10}", "HEAD is now at {hex:7} Fix the token count",
               "git checkout {hex:40}", "Revert \"x\"\n\nThis reverts commit {hex:40}.", "{hex:40} refs/heads/main",
               "pip install git+https://github.com/acme/x@{hex:40}", "uses: actions/checkout@{hex:40} # v4",
               "https://github.com/acme/app/commit/{hex:40}", "git_sha: {hex:40}", "ref = \"{hex:40}\"", "GIT_COMMIT={hex:40}"],
    "uuid": ["id {uuid} was not found", "\"id\": \"{uuid}\"", "request_id={uuid}", "trace-id: {uuid}", "session {uuid} ended",
             "user_id: {uuid}", "correlationId: '{uuid}'", "tenant: {uuid}", "/users/{uuid}/posts", "idempotency_key: {uuid}",
             "urn:uuid:{uuid}", "X-Request-Id: {uuid}", "client_id: {uuid}", "token_id = {uuid}", "secret_id: {uuid}", "key_id={uuid}"],
    "ulid": ["01{b32:24}", "id=01{b32:24}", "event: evt_01{b32:24}", "order ord_{an:14}", "cus_{an:14}", "pi_{an:24}", "\"id\": \"01{b32:24}\""],
    "digest": ["sha256:{hex:64}", "md5 {hex:32}  file.txt", "SHA256 (a.tgz) = {hex:64}", "ETag: \"{hex:32}\"", "image: app@sha256:{hex:64}",
               "checksum = \"{hex:64}\"", "sha1: {hex:40}", "{hex:64}  dist/app.whl", "--hash=sha256:{hex:64} \\", "Docker-Content-Digest: sha256:{hex:64}",
               "blake2b-{hex:128}", "cache_key: {hex:32}", "content_hash={hex:64}", "fingerprint: {hex:40}"],
    "lockfile": ["\"integrity\": \"sha512-{b64:86}==\"", "  integrity sha512-{b64:86}==", "resolved \"https://registry.npmjs.org/a/-/a-1.0.0.tgz#{hex:40}\"",
                 "github.com/a/b v1.2.3 h1:{b64:43}=", "github.com/a/b v1.2.3/go.mod h1:{b64:43}=", "checksum = \"{hex:64}\"", "hash = \"sha256:{hex:64}\"",
                 "<script integrity=\"sha384-{b64:64}\" src=\"x.js\">", "sha512: {b64:86}==", "{file = \"a-1.0-py3-none-any.whl\", hash = \"sha256:{hex:64}\"},"],
    "placeholder": ["API_KEY=<your-key>", "password: <password>", "token: YOUR_TOKEN_HERE", "api_key = \"your-api-key\"", "secret: xxxxxxxxxxxxxxxx",
                    "password=********", "PASSWORD=changeme", "token: \"...\"", "api_key: REPLACE_ME", "AWS_SECRET_ACCESS_KEY=XXXXXXXXXXXXXXXXXXXX",
                    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "password: [REDACTED]", "secret = \"<insert secret here>\"",
                    "token=TODO", "password: 'your_password'", "client_secret: \"put-your-secret-here\"", "api_key: \"API_KEY_HERE\"", "password=password",
                    "secret: secret", "token: token", "Authorization: Bearer <token>", "Authorization: Bearer YOUR_ACCESS_TOKEN", "postgres://user:password@localhost/db",
                    "https://user:pass@host/path", "mysql://USER:PASSWORD@HOST/DB", "\"password\": \"string\"", "password: string", "\"token\": \"<token>\"",
                    "--password <password>", "--token TOKEN", "-p <pass>", "X-API-Key: <key>", "curl -u user:pass https://acme.org", "curl -u <user>:<password> https://x",
                    "password: example", "my_secret: my-secret", "apiKey: 'my-api-key'", "DB_PASSWORD=secret", "password: ''", "token: \"\"", "password=", "secret_key: ~", "password: null",
                    "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "<password>your password</password>", "<password></password>", "password: # set me",
                    "redis://:password@localhost:6379", "Password: (hidden)", "password: ••••••••", "\"api_key\": \"***\"", "token: dummy-token", "API_TOKEN=fake-token-for-tests"],
    "reference": ["password=$PASSWORD", "token: ${{ secrets.NPM_TOKEN }}", "api_key: ${API_KEY}", "password: {{ vault_password }}", "password = os.environ[\"DB_PASSWORD\"]",
                  "token = os.getenv(\"GITHUB_TOKEN\")", "apiKey: process.env.OPENAI_API_KEY", "password := os.Getenv(\"PASSWORD\")", "secret = config.get(\"secret\")",
                  "password = getpass.getpass()", "token = response.json()[\"access_token\"]", "const token = await getToken(user)", "password: !vault |", "secretKeyRef:",
                  "api_key=settings.API_KEY", "password=self.password", "token = request.headers['X-Token']", "auth_token = user.auth_token", "password: $(PASSWORD)",
                  "--password \"$PASSWORD\"", "--token ${TOKEN}", "-H \"Authorization: Bearer $TOKEN\"", "-H \"Authorization: Bearer ${{ secrets.GITHUB_TOKEN }}\"",
                  "postgres://user:${DB_PASSWORD}@localhost/db", "postgres://$USER:$PASS@$HOST/db", "redis://:{{ redis_password }}@cache", "curl -u \"$USER:$PASS\" https://x",
                  "password = var.db_password", "token = data.vault_generic_secret.x.data[\"token\"]", "secret: !Ref DbSecret", "password: '{{resolve:secretsmanager:x}}'",
                  "password=%DB_PASSWORD%", "$env:PASSWORD", "export TOKEN=$(cat token.txt)", "export TOKEN=`pass show x`", "password = input(\"Password: \")", "token = jwt.encode(payload, key)",
                  "secret = secrets.token_hex(32)", "password = ENV.fetch('PASSWORD')", "password: <%= ENV['DB_PASSWORD'] %>", "password = System.getenv(\"DB_PASSWORD\")",
                  "apiKey = import.meta.env.VITE_API_KEY", "token: op://vault/item/token", "password: file:/run/secrets/db", "POSTGRES_PASSWORD_FILE=/run/secrets/db_password", "password: ENC[AES256_GCM,data:abc]",
                  "token = `${prefix}-${id}`", "password=hash_password(raw)", "password = form.cleaned_data[\"password1\"]", "token = self.tokens[0]", "secret := []byte(cfg.Secret)", "password: @password",
                  "valueFrom: { secretKeyRef: { name: db, key: password } }", "api_key = st.secrets[\"openai\"]", "password: req.body.password", "auth=(user, password)", "Password = model.Password,",
                  "token: context.token", "accessToken = session?.accessToken", "secret: credentials('db')", "password: lookup('env', 'PW')"],
    "code name": ["password_field = \"password\"", "<input type=\"password\" name=\"password\">", "def check_password(user, password):", "class TokenStore:", "passwordInput.focus()",
                  "def test_password_reset_sends_mail():", "password_hash = Column(String(128))", "token_type: bearer", "self.token_count += 1", "max_tokens=4096", "prompt_tokens: 128000",
                  "tokenizer = AutoTokenizer.from_pretrained(\"bert-base-uncased\")", "secretName: app-tls", "passwordPolicy: strict", "PASSWORD_HASHERS = [", "token_url = \"https://auth.acme.org/token\"",
                  "import { getToken } from './token-service-v2'", "from django.contrib.auth.password_validation import validate_password", "private_key_path: /etc/ssl/private/app.key",
                  "keyFile: /etc/kubernetes/pki/ca.key", "password.required=true", "password_min_length = 12", "PASSWORD_RESET_TIMEOUT = 259200", "tokenExpiresIn: 3600", "token_expiry=2026-01-01T00:00:00Z",
                  "auth_method: oauth2", "auth: none", "api_key_header = \"X-API-Key\"", "csrf_token_name: 'csrftoken'", "publicKeyToken=\"b77a5c561934e089\"", "key: \"user:42:profile\"", "sort_key = 'created_at'",
                  "primary_key=True", "token: Token", "password: str", "password: Optional[str] = None", "private String password;", "string Password { get; set; }", "let token: string | null = null", "token: &str,",
                  "pub secret: SecretString,", "password VARCHAR(255) NOT NULL", "secret_scanning: enabled", "credentials: 'include'", "credentials: \"same-origin\"", "credential.helper=cache --timeout=3600", "password: true", "api_keys: 3",
                  "token = tokens.pop()", "if token == 'EOF':", "TokenKind.IDENTIFIER", "next_token: int = 5", "pad_token_id=50256", "eos_token: \"<|endoftext|>\"", "bos_token = \"<s>\"", "unk_token: \"[UNK]\"",
                  "forgot_password_path", "passport.authenticate('local')", "compass: north", "bypass=true", "passing: 12", "pass: 12, fail: 3", "tests pass: yes", "passes: 120", "author: jane", "authority: local", "keyboard: qwerty",
                  "secretary: Bob Smith", "tokenize(\"hello world\")", "@pytest.fixture\ndef auth_token():", "password_confirmation:", "PASSWORD_PATTERN = r'^[a-z]+$'", "authorization_code", "auth.users", "auth: required"],
    "prose": ["The password must have at least 12 characters and a digit.", "Rotate the token every 90 days.", "Passwords are hashed with bcrypt before they are stored.", "the token is required", "password is incorrect",
              "Your password was changed on 2024-05-01.", "The secret to fast builds is caching.", "A token was revoked yesterday.", "Do not commit secrets: use the vault.", "password: must not be blank",
              "token expired at 1704067200", "Enter your password:", "Error: password authentication failed for user \"app\"", "invalid token: unexpected end of input", "unexpected token: '}' at position 123", "SyntaxError: Unexpected token < in JSON at position 0",
              "the api key is missing", "the api key is read from the environment", "Secret: nobody knows", "Forgot password? Reset it here", "password for staging is in 1Password", "use the token from the CI settings", "The password is stored in Vault",
              "Login with password authentication is disabled", "the password is case-sensitive", "Credentials: see the wiki", "passphrase: optional", "the token was rotated", "password to access the dashboard", "password protected", "no password supplied (SQLSTATE 28P01)",
              "Basic authentication is deprecated", "Bearer authentication", "bearer of bad news", "Basic understanding of Kubernetes", "Token ring networks were common", "secret santa: December", "token-based authentication", "the seed phrase: never share it with anyone who asks",
              "The private key: keep it offline", "access token lifetime: 3600 seconds", "API key rotation: quarterly", "password strength: weak", "password reset: 3 emails sent", "Please set a password with upper- and lower-case letters", "token bucket size: 100", "key exchange: curve25519-sha256"],
    "translation": ["\"password\": \"Passwort\"", "\"password\": \"Mot de passe\"", "password: Wachtwoord", "\"token\": \"Jeton\"", "password_label: \"Enter password\"", "\"forgot_password\": \"Forgot your password?\"", "\"secret\": \"Geheimnis\"", "msgid \"Password\"\nmsgstr \"Kennwort\"",
                    "login.password.placeholder=Password", "\"passwordTooShort\": \"Password is too short\"", "\"api_key\": \"API key\"", "\"password\": \"パスワード\"", "error.token.invalid=Invalid token", "\"password_help\": \"At least 8 characters\""],
    "image": ["data:image/png;base64,{png}", "url(data:font/woff2;base64,{png})", "<img src=\"data:image/jpeg;base64,{png}\">", "\"thumbnail\": \"{png}\""],
    "colour": ["color: #{hex:6};", "background: #{hex:8}", "--accent: #{hex:3}", "fill=\"#{UPHEX:6}\"", "rgba(12, 34, 56, 0.7)", "border-color: #{hex:6} !important", "tokens: { primary: '#{hex:6}' }", "$token-color: #{hex:6};"],
    "version": ["version 1.2.3-rc.4+build.{dig:6}", "python-3.11.7-h{hex:7}_0", "gpt-4o-mini-2024-07-18", "v2.0.0-alpha.{dig:2}.g{hex:7}", "node:20.11.1-alpine3.19", "claude-sonnet-4-5-20250929", "ami-{hex:17}", "i-{hex:17}", "vpc-{hex:17}", "arn:aws:iam::{dig:12}:role/ci", "sg-{hex:17}", "cl100k_base"],
    "hex dump": ["00000000: {hex:4} {hex:4} {hex:4} {hex:4} {hex:4} {hex:4}  ................", "0x{hex:8} 0x{hex:8} 0x{hex:8}", "{hex:2}:{hex:2}:{hex:2}:{hex:2}:{hex:2}:{hex:2}", "pc : {hex:16} lr : {hex:16}", "#0 0x{hex:16} in main ()", "0000020 {hex:4} {hex:4} {hex:4} {hex:4}", "addr=0x{hex:12}", "fe80::{hex:4}:{hex:4}:{hex:4}:{hex:4}"],
    "public key": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64:43} me@host", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ{b64:340} me@host", "-----BEGIN PUBLIC KEY-----\n{b64:64}\n{b64:64}\n-----END PUBLIC KEY-----",
                   "-----BEGIN CERTIFICATE-----\n{b64:64}\n{b64:64}\n{b64:64}\n-----END CERTIFICATE-----", "SHA256:{b64:43}", "public_key: {b64:43}=", "PublicKey = {b64:43}=", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{b64:64}\n=AbCd\n-----END PGP PUBLIC KEY BLOCK-----",
                   "age1{low:58}", "pk_live_{an:24}", "pk_test_{an:24}", "certificate-authority-data: {b64:300}==", "client-certificate-data: {b64:300}==", "NEXT_PUBLIC_POSTHOG_KEY=phc_{an:43}", "host ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64:43}", "-----BEGIN PGP SIGNATURE-----\n\n{b64:64}\n{b64:40}\n=AbCd\n-----END PGP SIGNATURE-----",
                   "https://{hex:32}@o{dig:6}.ingest.sentry.io/{dig:7}", "pin-sha256=\"{b64:43}=\"", "\"publicKey\": \"{b64:43}=\""],
    "diff": ["diff --git a/password.py b/password.py", "@@ -12,7 +12,9 @@ def check_token(token):", "-    password = None\n+    password = self.load()", "+    token: str", "--- a/tokens.py\n+++ b/tokens.py", "+from secrets import token_hex", "-password_field\n+password_input", "index {hex:10}..{hex:10}", "rename from auth/token.py"],
    "path": ["/usr/lib/python3.11/site-packages/keyring/credentials.py:123", "src/auth/token_service.py", "C:\\Users\\joe\\secrets\\readme.txt", "/home/joe/.ssh/id_ed25519.pub", "s3://bucket/secret/key.json", "https://docs.acme.org/api/tokens/create", "https://docs.acme.org:8443/path@2x.png", "git@github.com:acme/app.git", "registry.acme.org/app:1.2.3@sha256:{hex:64}",
             "/api/v1/tokens/{dig:6}", "node_modules/.cache/babel/{hex:32}.json", "https://acme.org/reset-password?lang=de", "~/.config/app/credentials.toml", "file:///tmp/token.txt", "/var/run/secrets/kubernetes.io/serviceaccount/token", "ssh://git@github.com/acme/app.git", "https://user@dev.azure.com/acme/x"],
    "log": ["2024-01-01T00:00:00.000Z host app[{dig:4}]: ready in {dig:3} ms", "level=info msg=done trace_id={hex:32} span_id={hex:16}", "GET /api/v1/users?page=2&limit=50 200 {dig:3}ms", "tokens used: {dig:5} (prompt {dig:4}, completion {dig:3})", "worker-{low:10}-{low:5} started", "pod/app-{low:10}-{low:5} created", "x-amzn-trace-id: Root=1-{hex:8}-{hex:24}",
            "job {dig:8} finished", "traceparent: 00-{hex:32}-{hex:16}-01", "cf-ray: {hex:16}-FRA", "etag: W/\"{hex:8}-{an:16}\"", "container {hex:12} exited with code 137", "token usage: {dig:6}/{dig:6}", "session {hex:16} closed", "auth: user joe logged in from 10.0.{dig:1}.{dig:2}", "cache-control: max-age=31536000", "AUTH failed for user joe"],
    "option": ["docker run -p 8080:80 -w /app nginx", "mkdir -p build/token", "mysql -u root -p", "mysqldump -P 3306 db", "ssh -p 2222 host", "curl -u joe https://acme.org", "tar -p x", "az group list -o table",
               "cp -p a b", "git log -p token.py", "redis-cli -a", "curl --user-agent mozilla/5.0:linux https://x", "npm run build -- --token-limit 4096", "pytest -k password -p no:cacheprovider", "docker login -u joe --password-stdin", "--password-file /run/pw",
               "--secret id=npmrc,src=.npmrc", "--token-file=token.txt", "--key-name deploy-2024", "--api-key-id 12345678", "kubectl create secret generic db-credentials", "gh auth login", "gcloud auth print-access-token", "aws sts get-session-token", "ssh-keygen -t ed25519 -C joe@acme.org",
               "openssl rand -hex 32", "-e POSTGRES_PASSWORD", "--auth-type basic", "--max-tokens 4096", "export GPG_TTY=$(tty)", "echo hello | sudo tee x", "chmod 600 ~/.ssh/id_rsa"],
    "data": ["lorem ipsum dolor sit amet, consectetur adipiscing elit", "{dig:16}", "{dig:10}.{dig:6}", "-122.{dig:6},37.{dig:6}", "ISBN 978-{dig:1}-{dig:2}-{dig:6}-{dig:1}", "1{dig:12}", "order #{dig:8}", "ticket ABC-{dig:4}", "tel +49 30 {dig:8}", "ZGVmYXVsdA==", "aGVsbG8gd29ybGQgdGhpcyBpcyBqdXN0IHRleHQ=", "{png}",
             "eyJhbGciOiJIUzI1NiJ9", "next_page_token: {b64:32}", "cursor={b64:24}", "\"nextToken\": \"{b64:40}\"", "test_id: test_{low:12}", "data-testid=\"password-input-{dig:3}\"", "i18n.key.password.title", "AROA{up:16}", "google-site-verification={url:43}", "ca-pub-{dig:16}", "UA-{dig:8}-1", "G-{up:10}", "GTM-{up:7}",
             "nonce=\"{b64:22}==\"", "v=DKIM1; k=rsa; p={b64:200}", "_dmarc TXT \"v=DMARC1; p=none\"", "hotp counter: 12", "MAC 00:1a:2b:3c:4d:5e", "IBAN DE{dig:20}", "B{dig:8}", "{up:4}-{up:4}-{up:4}"],
}  # fmt: skip


def lookalikes(seed=0, each=2):
    """(kind, text); templates without chance in them come once."""
    chance = random.Random(seed)
    for kind, templates in TEMPLATES.items():
        for template in templates:
            filled = set()
            for _ in range(each):
                text = template
                if "{png}" in text:
                    text = text.replace(
                        "{png}", base64.b64encode(b"\x89PNG\r\n" + chance.randbytes(600)).decode()
                    )
                filled.add(template_fill(text, chance))
            yield from ((kind, text) for text in sorted(filled))
