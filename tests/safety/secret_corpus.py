"""Secrets as they turn up in the wild: names x syntax x values, and formats of their own.

All of it is made at run time from a seed, so that no file holds a secret. Each sample is
``(format, text, secret)``: after scrubbing, ``secret`` must not be in the text. In templates,
``{name}``, ``{NAME}`` and ``{Name}`` are a name for a secret, and ``{value}`` is the secret.
"""

import base64
import random
from urllib.parse import quote

from tests.safety.secrets_made_up import FORMATS, made_up

# What people choose, and what machines make.
PASSWORDS = (
    "{an:9}7k", "{word}{dig:3}", "{Word}{dig:4}!", "{word}-{dig:2}-{Word}", "P@ss{dig:2}w0rd{an:2}",
    "{an:5}${an:5}3", "{Word}${dig:3}", "$3cr{an:2}t{dig:3}!", "{an:4}#{an:4}2&{an:2}", "{pw:14}4",
    "{an:6}%{dig:2}{an:4}", "{Word}.{word}.{dig:2}", "{hex:16}", "{dig:8}", "{an:20}", "{word}@{dig:4}",
    "{an:3}+{an:3}/{an:5}8=", "~{an:8}^{dig:2}", "{an:4}!{an:4}?{dig:1}", "{an:5}*{dig:2}({an:3})",
)  # fmt: skip
KEYS = (
    "{an:32}", "{hex:32}", "{hex:40}", "{hex:64}", "{url:43}", "{b64:43}=", "{uuid}", "{up:20}{an:12}",
    "{b64:88}", "{low:24}", "{an:12}-{an:12}4",
)  # fmt: skip
FRAMEWORK_KEYS = ("{an:50}", "{hex:128}", "base64:{b64:43}=", "{sym:50}", "{b64:64}", "{url:64}")
WORDS = (
    "monkey",
    "dragon",
    "sunset",
    "copper",
    "winter",
    "velvet",
    "harbor",
    "falcon",
    "pepper",
    "orchid",
)

PASSWORD_NAMES = (
    "password", "passwd", "db_password", "pass", "pwd", "smtp_pass", "admin_password", "root_pw",
    "passphrase", "user_pwd", "redis_password", "ssh_passphrase", "mysql_pass", "ldap_bind_password",
)  # fmt: skip
KEY_NAMES = (
    "api_key", "secret", "token", "access_token", "client_secret", "auth_token", "private_key",
    "signing_key", "encryption_key", "refresh_token", "webhook_secret", "service_key", "master_key",
    "bot_token", "session_secret", "shared_secret", "credential", "api_secret", "consumer_secret",
    "app_secret", "hmac_key", "deploy_token",
)  # fmt: skip
FRAMEWORK_NAMES = (
    "secret_key", "secret_key_base", "app_key", "jwt_secret", "nextauth_secret", "session_secret",
    "cookie_secret", "auth_secret", "jwt_secret_key", "encryption_key", "fernet_key", "nonce_salt",
    "secure_auth_key", "rails_master_key", "better_auth_secret", "flask_secret_key", "payload_secret",
)  # fmt: skip

# Any name, any value that fits the quoting.
QUOTED = {
    "python": ['{name} = "{value}"', "{name}='{value}'", "settings['{name}'] = '{value}'",
               'connect(host="db", {name}="{value}", port=5432)', '{name}: str = "{value}"',
               'os.environ["{NAME}"] = "{value}"', 'os.environ.setdefault("{NAME}", "{value}")'],
    "javascript": ["const {camel} = '{value}';", 'process.env.{NAME} = "{value}"', "{camel}: `{value}`,",
                   'config.set("{name}", "{value}")', "export const {NAME} = '{value}'"],
    "typescript": ["private readonly {camel}: string = '{value}';", "{camel}?: string = '{value}'"],
    "go": ['{camel} := "{value}"', '{Name}: "{value}",', 'var {camel} string = "{value}"',
           'os.Setenv("{NAME}", "{value}")', "const {camel} = `{value}`"],
    "java": ['private static final String {NAME} = "{value}";', 'props.put("{name}", "{value}");',
             'builder.{camel}("{value}")', '.set{Name}("{value}");', '@Value("x") String {camel} = "{value}";'],
    "csharp": ['public string {Name} {{ get; set; }} = "{value}";', 'var {camel} = @"{value}";',
               '{Name} = "{value}",'],
    "ruby": [":{name} => '{value}',", "{name}: '{value}'", "ENV['{NAME}'] = '{value}'", "config.{name} = '{value}'"],
    "php": ["define('{NAME}', '{value}');", "'{name}' => '{value}',", "${name} = '{value}';", "putenv('{NAME}={value}');"],
    "rust": ['let {name} = "{value}";', 'const {NAME}: &str = "{value}";', '.{name}("{value}")'],
    "kotlin": ['val {camel} = "{value}"', 'private const val {NAME}: String = "{value}"'],
    "swift": ['let {camel}: String = "{value}"', 'static let {camel} = "{value}"'],
    "c": ['#define {NAME} "{value}"', 'const char *{name} = "{value}";', 'static char {name}[] = "{value}";'],
    "perl": ["my ${name} = '{value}';", "{name} => '{value}',"],
    "powershell": ['${Name} = "{value}"', "$env:{NAME} = '{value}'", "-{Name} '{value}'"],
    "shell": ["export {NAME}='{value}'", "{NAME}='{value}' ./run.sh", "--{flag} '{value}'", "--{flag}='{value}'",
              "-e {NAME}='{value}'"],
    "json": ['{{"{name}": "{value}"}}', '"{camel}":"{value}",', '{{"db": {{"{name}" : "{value}", "port": 1}}}}',
             '"{name}":\n    "{value}"', '{{"name": "{NAME}", "value": "{value}"}}',
             '{{"key": "{name}", "type": "text", "value": "{value}"}}'],
    "json in json": ['"body": "{{\\"{name}\\": \\"{value}\\"}}"', '"{{\\"a\\":1,\\"{camel}\\":\\"{value}\\"}}"'],
    "yaml": ['{name}: "{value}"', "  {name}: '{value}'", '- {{ name: {NAME}, value: "{value}" }}',
             '- name: {NAME}\n  value: "{value}"', '{name}: !!str "{value}"'],
    "toml": ['{name} = "{value}"', "[db]\n{name} = '{value}'", 'auth = {{ user = "x", {name} = "{value}" }}'],
    "terraform": ['  {name} = "{value}"', 'variable "{name}" {{\n  default = "{value}"\n}}',
                  '"{name}": {{"value": "{value}", "type": "string"}}'],
    "sql": ["CREATE USER app WITH PASSWORD '{value}';", "ALTER ROLE app PASSWORD '{value}'",
            "CREATE USER 'a'@'%' IDENTIFIED BY '{value}';", "SET PASSWORD = '{value}'",
            "CREATE LOGIN app WITH PASSWORD = '{value}'"],
    "html": ['<input type="password" name="{name}" value="{value}">', '<meta name="{name}" content="{value}">'],
    "xml attribute": ['<add key="{Name}" value="{value}" />', '<property name="{name}" value="{value}"/>',
                      '<server {camel}="{value}" port="1"/>', '<user name="x" {name}=\'{value}\'/>'],
    "nix": ['{name} = "{value}";'],
    "lua": ['local {name} = "{value}"', '["{name}"] = "{value}",'],
    "r": ['{name} <- "{value}"', 'Sys.setenv({NAME} = "{value}")'],
    "groovy": ["{name} '{value}'", 'ext.{camel} = "{value}"'],
}  # fmt: skip

# No quotes: what ends the value is its place.
BARE = {
    "env": ["{NAME}={value}", "export {NAME}={value}", "\n{NAME}={value}\nDEBUG=1", "set {NAME}={value}",
            "{NAME} = {value}", "$ {NAME}={value} npm start", "- {NAME}={value}"],
    "yaml plain": ["{name}: {value}", "db:\n  {name}: {value}\n  port: 5432", "- {name}: {value}", "{camel}: {value}  # prod"],
    "yaml block": ["{name}: |\n  {value}\n", "{name}: >-\n    {value}\nnext: 1"],
    "yaml pair": ["- name: {NAME}\n  value: {value}"],
    "ini": ["[db]\n{name}={value}", "{name} = {value}", "{name}={value} ; prod"],
    "properties": ["spring.datasource.{name}={value}", "app.{camel}: {value}", "mail.smtp.{name} = {value}"],
    "xml": ["<{name}>{value}</{name}>", "<{camel}>{value}</{camel}>", "<entry key=\"{name}\">{value}</entry>",
            "<ns:{name}>\n  {value}\n</ns:{name}>", "<string name=\"{name}\">{value}</string>",
            "<{Name} type=\"x\">{value}</{Name}>", "<{name}><![CDATA[{value}]]></{name}>"],
    "plist": ["<key>{Name}</key>\n<string>{value}</string>"],
    "dockerfile": ["ENV {NAME} {value}", "ENV {NAME}={value}", "ARG {NAME}={value}"],
    "flag": ["--{flag} {value}", "--{flag}={value}", "tool login --{flag} {value} --verbose", "/{flag}:{value}"],
    "log": ["2026-01-04 12:00:01 DEBUG conf {name}={value} host=db", "INFO {name}: {value}", "WARN using {name} = {value}."],
    "stack trace": ["ValueError: bad login ({name}={value})\n  File \"a.py\", line 3",
                    "  at connect ({name}: {value})\n  at main.js:3:1"],
    "diff": ["-{name} = old\n+{name} = {value}", "+{NAME}={value}", "+    {name}: {value}"],
    "markdown": ["| {name} | {value} |", "**{Name}**: `{value}`", "- `{NAME}`: `{value}`", "{Name}: **{value}**"],
    "configure": ["git config --global svc.{camel} {value}", "aws configure set {name} {value}",
                  "heroku config:set {NAME}={value}", "npm config set //r.acme.org/:_authToken {value}"],
}  # fmt: skip

PLACED = {
    "url": ["postgres://app:{pw}@db.acme.org:5432/app", "mysql://root:{pw}@10.0.0.4/shop",
            "mongodb+srv://svc:{pw}@c0.x1y2.mongodb.net/?retryWrites=true", "redis://:{pw}@cache:6379/1",
            "amqps://u:{pw}@mq.acme.org/vh", "https://ci:{pw}@git.acme.org/a.git", "ftp://joe:{pw}@ftp.acme.org",
            "clickhouse://default:{pw}@ch:9000/db", "smtp://me%40acme.org:{pw}@smtp.acme.org:587",
            "sftp://deploy:{pw}@10.1.2.3:22/srv", "socks5://u:{pw}@proxy:1080", "ldap://cn:{pw}@ldap:389",
            "jdbc:postgresql://u:{pw}@db/app", "git+https://oauth2:{pw}@gitlab.acme.org/x.git"],
    "connection string": ["Server=db;Database=a;User Id=sa;Password={pw};Encrypt=True",
                          "DRIVER={{ODBC 18}};SERVER=db;UID=sa;PWD={pw};", "host=db user=app password={pw} dbname=x",
                          "jdbc:mysql://db/a?user=u&password={enc}&useSSL=false", "Data Source=x;User=u;Pwd={pw}",
                          "AccountEndpoint=https://x.documents.azure.com:443/;AccountKey={b64:86}==;",
                          "jdbc:sqlserver://db:1433;user=sa;password={pw};encrypt=true",
                          "jdbc:oracle:thin:scott/{an:12}7@//db:1521/x", "sqlplus scott/{an:12}7@orcl"],
    "query": ["https://api.acme.org/v1?api_key={key}&x=1", "GET /cb?access_token={key} HTTP/1.1",
              "https://acme.org/x?token={key}", "grant_type=password&username=a&password={enc}&scope=all",
              "client_id=abc&client_secret={key}", "https://maps.acme.org/?key={an:39}&v=3",
              "https://b.s3.amazonaws.com/k?X-Amz-Credential=x&X-Amz-Signature={hex:64}",
              "https://x.blob.core.windows.net/c?sv=2022&sig={an:43}%3D", "https://f.azurewebsites.net/api/x?code={url:54}=="],
    "url encoded": ["password%3D{enc}%26user%3Dx", "next=postgres%3A%2F%2Fapp%3A{enc}%40db%3A5432%2Fapp",
                    "url=https%3A%2F%2Fx.org%2F%3Fapi_key%3D{an:32}", "%22token%22%3A%22{an:32}%22"],
    "header": ["Authorization: Bearer {key}", "authorization: Basic {basic}", "X-API-Key: {key}",
               "X-Auth-Token: {key}", "Private-Token: {key}", "Proxy-Authorization: Basic {basic}",
               "-H 'X-Vault-Token: {key}'", '"Authorization": "Token {key}"', "api-key: {key}",
               'headers={{"Authorization": f"Bearer {an:40}"}}', "X-Shopify-Access-Token: {key}",
               "Authorization: ApiKey {key}", "DD-API-KEY: {hex:32}", "X-Auth-Key: {hex:37}", "Authorization: {an:40}"],
    "cookie": ["Cookie: a=b; sessionid={low:32}", "Set-Cookie: JSESSIONID={up:32}; Path=/; HttpOnly",
               "Cookie: PHPSESSID={low:26}", "Set-Cookie: connect.sid=s%3A{url:32}.{an:43}; Path=/",
               "cookie: next-auth.session-token={url:60}; x=1", "Cookie: laravel_session={an:60}%3D",
               "document.cookie = 'auth_token={an:40}'", "Cookie: _gitlab_session={hex:32}",
               "Set-Cookie: __Secure-1PSID={url:70}; Secure", "Cookie: user_session={url:48}"],
    "curl": ["curl -u admin:{pw} https://acme.org", "curl --user 'me:{pw}' https://acme.org", "http -a joe:{pw} acme.org",
             "wget --user=x --password={an:12}4 https://a", "curl -d 'user=a&password={an:12}4' https://a"],
    "command": ["mysql -uroot -p{an:10}7 shop", "sshpass -p '{pw}' ssh a@b", "redis-cli -h x -a {an:16}",
                "docker login -u me -p {an:14}7 reg.acme.org", "psql 'host=x password={an:12}9'",
                "openssl rsa -passin pass:{an:12}3 -in k.pem", "net use z: \\\\srv\\x /user:bob {an:12}7",
                "az login --service-principal -u x -p {an:34} --tenant y", "mongo -u root -p {an:12}4 admin",
                "PGPASSWORD={an:12}8 pg_dump x", "echo '{an:12}5' | docker login -u x --password-stdin",
                "echo {an:12}5 | sudo -S apt update", "expect: send \"{an:12}6\\r\" # password",
                "htpasswd -b .htpasswd bob {an:12}7", "keytool -genkey -storepass {an:12}7 -keypass x",
                "ansible-playbook x.yml -e ansible_become_pass={an:12}4", "smbclient //s/x -U bob%{an:12}5",
                "cmdkey /add:srv /user:bob /pass:{an:12}7", "gpg --batch --passphrase {an:16} -d x"],
    "netrc": ["machine api.acme.org login me password {pw}", "machine x.org\n  login me\n  password {an:14}",
              "default login anonymous password {an:12}8"],
    "npmrc": ["//registry.npmjs.org/:_authToken={an:36}", "//r.acme.org/:_password={b64:24}", "_auth={basic}",
              "//npm.pkg.github.com/:_authToken={hex:40}", "npmAuthToken: {uuid}"],
    "pypirc": ["[pypi]\nusername = __token__\npassword = pypi-AgEI{url:120}", "[acme]\nusername: x\npassword: {an:14}5"],
    "pgpass": ["db.acme.org:5432:app:joe:{an:14}6", "localhost:5432:*:postgres:{an:12}9"],
    "kubeconfig": ["users:\n- name: a\n  user:\n    token: {an:64}", "    client-key-data: {b64:400}==",
                   "    password: {an:14}8"],
    "kubernetes secret": ["kind: Secret\nmetadata:\n  name: x\ndata:\n  db-url: {b64pw}\n",
                          "apiVersion: v1\nkind: Secret\nstringData:\n  config: {an:24}\ntype: Opaque",
                          "kind: Secret\ndata:\n  password: {b64pw}\n  user: YWRtaW4="],
    "docker config": ['{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{basic}"}}}}}}', '"auth":"{basic}"',
                      '"identitytoken": "{an:80}"'],
    "composer": ['"github-oauth": {{"github.com": "{hex:40}"}}', '"http-basic": {{"a.org": {{"username": "x", "password": "{an:16}"}}}}'],
    "maven": ["<server><id>x</id><username>u</username><password>{an:14}7</password></server>"],
    "nuget": ['<add key="ClearTextPassword" value="{an:20}" />'],
    "publish profile": ['<publishProfile userName="$x" userPWD="{an:60}" />'],
    "machine key": ['<machineKey validationKey="{UPHEX:128}" decryption="AES" />', '<machineKey decryptionKey="{UPHEX:64}" />'],
    "htpasswd": ["bob:$apr1${an:8}${crypt:22}", "joe:{{SHA}}{b64:27}=", "eve:$2y$10${crypt:53}"],
    "shadow": ["root:$6${an:16}${crypt:86}:19000:0:99999:7:::", "u:$y$j9T${crypt:22}${crypt:43}:19000:::::",
               "x:$5${an:16}${crypt:43}:1:2:3:::"],
    "ldif": ["userPassword: {an:14}7", "userPassword:: {b64pw}", "olcRootPW: {{SSHA}}{b64:32}"],
    "wireguard": ["[Interface]\nPrivateKey = {b64:43}=", "PresharedKey = {b64:43}="],
    "wifi": ["wpa_passphrase={an:12}4", 'psk="{an:12}7"', "    Key Content            : {an:12}7"],
    "otp": ["otpauth://totp/Acme:joe?secret={b32:32}&issuer=Acme", "totp_secret = {b32:32}", "TOTP seed: {b32:16}"],
    "seed phrase": ["mnemonic: {words:12}", "seed phrase: {words:24}", 'MNEMONIC="{words:12}"'],
    "wallet": ["PRIVATE_KEY=0x{hex:64}", "5{b58wif:50}", "xprv9s21ZrQH143K{b58:96}", "privateKey: '{hex:64}'"],
    "jwk": ['{{"kty":"RSA","n":"{url:80}","e":"AQAB","d":"{url:86}"}}', '{{"kty":"oct","k":"{url:43}"}}'],
    "redis": ["requirepass {an:16}", "masterauth {an:16}", "AUTH {an:24}", "CONFIG SET requirepass {an:16}"],
    "ansible": ["ansible_ssh_pass={an:12}5", "ansible_become_password: {an:12}5", "vault_db_password: {an:14}5"],
    "actions": ["        with:\n          token: {an:40}", "gh secret set NPM_TOKEN --body {an:36}", "::add-mask::{an:24}"],
    "kafka": ['sasl.jaas.config=x.PlainLoginModule required username="u" password="{an:16}";', "ssl.key.password={an:12}4"],
    "snmp": ["snmp-server user x g v3 auth sha {an:14} priv aes 128 {an:3}", "enable secret 5 $1${an:4}${crypt:22}"],
    "prose": ["The password is {an:9}7!", "my password: {an:10}5", "I set the root password to {an:10}4 today",
              "use token {an:32} for it", "login with user admin and password {an:10}7", "the api key is {an:32}",
              "password for staging is {an:9}5.", "pw: {an:9}3", "here is the secret: {an:24}",
              "Credentials: admin / {an:9}4$", "username: joe, password: {an:8}6#"],
    "webhook": ["https://hooks.slack.com/services/T{up:8}/B{up:10}/{an:24}", "https://discord.com/api/webhooks/{dig:18}/{url:68}",
                "https://api.telegram.org/bot{dig:10}:AA{url:33}/sendMessage", "https://discordapp.com/api/webhooks/{dig:18}/{url:68}",
                "https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hex:32}/{uuid}",
                "https://chat.googleapis.com/v1/spaces/AAAA/messages?key={an:39}&token={url:43}%3D",
                "https://hooks.zapier.com/hooks/catch/{dig:7}/{low:7}/", "https://maker.ifttt.com/trigger/x/with/key/{url:43}",
                "https://open.feishu.cn/open-apis/bot/v2/hook/{uuid}", "https://oapi.dingtalk.com/robot/send?access_token={hex:64}",
                "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={uuid}", "https://chat.acme.org/hooks/{low:26}",
                "https://prod-1.westus.logic.azure.com:443/workflows/{hex:32}/triggers/manual/paths/invoke?sp=x&sig={url:43}",
                "https://hooks.slack.com/workflows/T{up:8}/A{up:10}/{dig:18}/{an:24}", "https://hook.eu1.make.com/{low:32}",
                "https://events.pagerduty.com/integration/{hex:32}/enqueue", "https://api.render.com/deploy/srv-abcdefgh?key={url:11}",
                "https://api.netlify.com/build_hooks/{hex:24}", "https://webexapis.com/v1/webhooks/incoming/{url:76}"],
    "own token": ["rbk_{hex:12}_{hex:64}", "Authorization: Bearer rbk_{hex:12}_{hex:64}", "REASONBANK_TOKEN=rbk_{hex:12}_{hex:64}"],
    "provider": ["figd_{url:43}", "AIzaSy{url:33}", "ya29.{url:120}", "sk-ant-api03-{url:93}AA", "sk-proj-{url:120}",
                 "github_pat_{an:22}_{an:59}", "glpat-{url:20}", "xoxb-{dig:12}-{dig:12}-{an:24}", "dop_v1_{hex:64}",
                 "tfp_{url:44}", "pat{an:14}.{hex:64}", "AC{hex:32}:{hex:32}", "dckr_pat_{url:27}", "hf_{abc:34}",
                 "sk_live_{an:24}", "rk_live_{an:24}", "SG.{url:22}.{url:43}", "key-{hex:32}", "shpat_{hex:32}",
                 "glsa_{an:32}_{hex:8}", "NRAK-{up:27}", "hvs.{url:90}", "sq0atp-{url:22}", "pscale_pw_{url:43}",
                 "ATATT3x{url:180}={up:8}", "lin_api_{an:40}", "eyJ{url:33}.eyJ{url:60}.{url:43}", "GOCSPX-{url:28}",
                 "AKIA{up:16}", "LTAI{an:20}", "npm_{an:36}", "rubygems_{hex:48}", "gsk_{an:52}", "xai-{an:80}",
                 "r8_{an:37}", "ops_eyJ{b64:200}", "sbp_{hex:40}", "vercel_blob_rw_{an:16}_{an:30}", "tskey-auth-{an:17}-{an:32}",
                 "whsec_{an:32}", "EAAA{url:59}Q", "pypi-AgEIcHlwaS5vcmc{url:150}", "dapi{hex:32}", "nfp_{an:36}",
                 "django-insecure-{sym:50}", "sk-or-v1-{hex:64}", "pk_prod_secret_{an:32}", "sk_prod_{an:40}", "cfat_{an:40}",
                 "gocd_{hex:40}", "bkpat_{hex:40}", "ATCTT3x{url:180}={up:8}", "ghs_{an:36}", "glagent-{url:50}"],
}  # fmt: skip
BLOCKS = (
    "RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "DSA PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK",
)  # fmt: skip


def corpus(seed=0, each=2):
    """(format, text, secret), at least one for every template."""
    maker = _Maker(random.Random(seed))
    for formats in (QUOTED, BARE):
        for format, templates in formats.items():
            for template in templates:
                for _ in range(each):
                    yield maker.assignment(format, template, quoted=formats is QUOTED)
    for format, templates in PLACED.items():
        for template in templates:
            yield maker.placed(format, template)
    for title in BLOCKS:
        for form in ("{}", '"key": "{}"', "key: |\n    {}", "KEY='{}'"):
            yield maker.block(title, form)
    for kind in (
        "ghp_{an:36}",
        "password={an:12}7",
        '{{"token": "{an:40}"}}',
        "postgres://u:{an:14}@db/x",
    ):
        for form in ("echo {} | base64 -d", "config: {}", '"data": "{}"'):
            yield maker.wrapped(kind, form)
    yield maker.putty()
    for templates in FORMATS.values():
        for template in templates:
            yield maker.known(template)


class _Maker:
    def __init__(self, chance):
        self.chance = chance

    def made(self, template):
        chance = self.chance

        def fill(part):
            return template_fill(part, chance)

        return fill(template)

    def assignment(self, format, template, *, quoted):
        pick = self.chance.choice
        names, values = pick(
            ((PASSWORD_NAMES, PASSWORDS), (KEY_NAMES, KEYS), (FRAMEWORK_NAMES, FRAMEWORK_KEYS))
        )
        if format == "sql" or "login" in template:
            names, values = PASSWORD_NAMES, PASSWORDS
        name, value = pick(names), self.made(pick(values))
        if not quoted:
            # What would end a bare value in its own syntax is quoted there by whoever writes it.
            value = "".join(c for c in value if c not in "#&()<>|`*" and c not in "'\"")
        text = (
            template.replace("{{", "\1").replace("}}", "\2")
            .replace("{name}", name).replace("{NAME}", name.upper()).replace("{camel}", _camel(name))
            .replace("{Name}", _camel(name)[0].upper() + _camel(name)[1:]).replace("{flag}", name.replace("_", "-"))
            .replace("{value}", value).replace("\1", "{").replace("\2", "}")
        )  # fmt: skip
        return format, text, value

    def placed(self, format, template):
        template = template.replace("{{", "\1").replace("}}", "\2")
        secret = None
        if "{pw}" in template:
            secret = self.made(
                self.chance.choice(("{an:12}7", "{pw:14}3", "{Word}${dig:3}x", "{an:5}!{an:5}"))
            )
            template = template.replace("{pw}", secret)
        if "{enc}" in template:
            secret = quote(self.made("{an:8}{pw:5}4"), safe="")
            template = template.replace("{enc}", secret)
        if "{key}" in template:
            secret = self.made(self.chance.choice(KEYS[:5]))
            template = template.replace("{key}", secret)
        if "{basic}" in template:
            secret = base64.b64encode(self.made("joe:{an:14}").encode()).decode()
            template = template.replace("{basic}", secret)
        if "{b64pw}" in template:
            secret = base64.b64encode(self.made("{an:9}!{an:9}4").encode()).decode()
            template = template.replace("{b64pw}", secret)
        if secret is None:
            template, secret = self._last(template)
        return format, template.replace("\1", "{").replace("\2", "}"), secret

    def _last(self, template):
        """Fills what is left; the longest random part is the secret."""
        parts, text = [], template
        while "{" in text:
            before, _, rest = text.partition("{")
            what, _, after = rest.partition("}")
            made = template_fill("{" + what + "}", self.chance)
            parts.append(made)
            text = before + made + after
        return text, max(reversed(parts), key=len)

    def block(self, title, form):
        lines = [self.made("{b64:64}") for _ in range(4)] + [self.made("{b64:30}") + "=="]
        break_ = "\\n" if form.startswith('"') else "\n    " if "|" in form else "\n"
        body = break_.join([f"-----BEGIN {title}-----", *lines, f"-----END {title}-----"])
        return "private key", form.replace("{}", body), lines[2]

    def wrapped(self, kind, form):
        inner = (
            self.made(kind.replace("{{", "\1").replace("}}", "\2"))
            .replace("\1", "{")
            .replace("\2", "}")
        )
        secret = base64.b64encode(f"user said {inner} ok".encode()).decode()
        return "base64", form.replace("{}", secret), secret

    def putty(self):
        lines = [self.made("{b64:64}") for _ in range(4)]
        head = (
            "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nComment: x\nPublic-Lines: 1\nAAAA\n"
        )
        return "putty", head + "Private-Lines: 4\n" + "\n".join(lines) + "\n", lines[1]

    def known(self, template):
        # What the template has beside its random parts is not secret: ask for the longest part.
        text = made_up(template, random.Random(state := self.chance.random()))
        parts = made_up(
            "".join("{" + p.partition("}")[0] + "}\0" for p in template.split("{")[1:]),
            random.Random(state),
        )
        return "known kind", text, max(parts.split("\0"), key=len)


def template_fill(template, chance):
    found = made_up(_extra(template, chance), chance)
    return found


def _extra(template, chance):
    import re

    alphabets = {
        "sym": "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)", "UPHEX": "0123456789ABCDEF",
        "b32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "b58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    }  # fmt: skip

    def fill(match):
        kind, _, length = match[1].partition(":")
        if kind in ("word", "Word"):
            word = chance.choice(WORDS)
            return word if kind == "word" else word.title()
        if kind == "words":
            return " ".join(chance.choices(WORDS + SEED_WORDS, k=int(length)))
        if kind == "b58wif":
            return chance.choice("HJK") + "".join(
                chance.choices(alphabets["b58"], k=int(length) - 1)
            )
        if kind in alphabets:
            return "".join(chance.choices(alphabets[kind], k=int(length)))
        return match[0]

    return re.sub(r"\{([A-Za-z0-9:]+)\}", fill, template)


SEED_WORDS = ("abandon", "ability", "lens", "zebra", "ladder", "oxygen", "piano", "rocket", "salad", "tilt")  # fmt: skip


def _camel(name):
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
