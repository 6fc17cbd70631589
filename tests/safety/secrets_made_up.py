"""Made-up secrets of every kind, from the formats that the issuers publish.

Written apart from the rules that find them; made at run time, so that no file holds one.
``{hex:32}`` stands for 32 random hexadecimal digits.
"""

import base64
import random
import re
import string

ALPHABETS = {
    "an": string.ascii_letters + string.digits,
    "hex": "0123456789abcdef",
    "low": string.ascii_lowercase + string.digits,
    "up": string.ascii_uppercase + string.digits,
    "url": string.ascii_letters + string.digits + "_-",
    "b64": string.ascii_letters + string.digits + "+/",
    "dig": string.digits,
    "abc": string.ascii_letters,
    "crypt": string.ascii_letters + string.digits + "./",
    "bech": "qpzry9x8gf2tvdw0s3jn54khce6mua7l".upper(),
    "wif": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "pw": string.ascii_letters + string.digits + "!#%^*",
}

FORMATS = {
    "reasonbank-token": ["rbk_{hex:12}_{hex:64}"],
    "webhook-url": ["https://hooks.zapier.com/hooks/catch/{dig:7}/{low:8}", "https://hook.eu1.make.com/{low:32}",
                    "https://chat.acme.org/hooks/{low:26}", "https://events.pagerduty.com/integration/{hex:32}/x"],
    "okta-token": ["SSWS 00{url:40}"],
    "duffel-token": ["duffel_live_{url:43}"],
    "frameio-token": ["fio-u-{url:64}"],
    "scaleway-key": ["SCW{up:17}"],
    "sumologic-key": ["su{an:12}:{an:64}"],
    "django-key": ["SECRET = 'django-insecure-{low:50}'"],
    "laravel-key": ["APP_KEY=base64:{b64:43}="],
    "wallet-key": ["5J{wif:49}", "xprv9s21ZrQH143K{wif:96}"],
    "jwk": ['{quote}d{quote}: {quote}{url:86}{quote}'],
    "signed-url": ["https://s3/x?X-Amz-Signature={hex:64}"],
    "any-token": ["acme_pat_{an:40}", "acme-live-{an:36}"],
    "pgpass-password": ["\ndb.acme.org:5432:app:joe:{an:14}6\n"],
    "sql-password": ["CREATE USER x IDENTIFIED BY '{an:12}7'"],
    "redis-password": ["requirepass {an:16}7"],
    "snmp-password": ["v3 auth sha {an:14}7"],
    "wifi-password": ["    Key Content            : {an:12}7"],
    "kubernetes-secret": ["\nkind: Secret\ndata:\n  db: {b64:24}\n"],
    "encoded-secret": ["{wrapped}"],
    "age-key": ["AGE-SECRET-KEY-1{bech:58}"],
    "anthropic-key": ["sk-ant-api03-{url:93}AA", "sk-ant-admin01-{url:93}AA", "sk-ant-oat01-{url:95}"],
    "openrouter-key": ["sk-or-v1-{hex:64}"],
    "langfuse-key": ["sk-lf-{uuid}"],
    "openai-key": ["sk-proj-{url:74}T3BlbkFJ{url:74}", "sk-{an:20}T3BlbkFJ{an:20}",
                   "sk-svcacct-{url:120}", "sk-admin-{url:58}T3BlbkFJ{url:58}"],
    "llm-key": ["sk-{hex:32}", "sk-{an:48}"],
    "huggingface-token": ["hf_{abc:34}"],
    "groq-key": ["gsk_{an:52}"],
    "xai-key": ["xai-{an:80}"],
    "perplexity-key": ["pplx-{an:48}", "pplx-{hex:48}"],
    "replicate-token": ["r8_{an:37}"],
    "nvidia-key": ["nvapi-{url:64}"],
    "cerebras-key": ["csk-{low:48}"],
    "fireworks-key": ["fw_{an:24}"],
    "together-key": ["tgp_v1_{url:43}"],
    "langsmith-key": ["lsv2_pt_{hex:32}_{hex:10}", "lsv2_sk_{hex:32}_{hex:10}"],
    "pinecone-key": ["pcsk_{an:6}_{an:63}"],
    "voyage-key": ["pa-{url:42}Q"],
    "jina-key": ["jina_{an:59}Q"],
    "tavily-key": ["tvly-{an:32}", "tvly-dev-{an:32}"],
    "firecrawl-key": ["fc-{hex:32}"],
    "elevenlabs-key": ["sk_{hex:48}"],
    "aws-access-key": ["AKIA{up:16}", "ASIA{up:16}"],
    "aws-secret-key": ["aws_secret_access_key = {b64:40}", "AWS_SECRET_ACCESS_KEY={b64:40}",
                       '"SecretAccessKey": "{b64:40}"', "aws secret key: '{b64:40}'"],
    "aws-session-token": ["IQoJb3JpZ2lu{b64:300}", "FwoGZXIvYXdz{b64:200}=="],
    "aws-bedrock-key": ["ABSK{b64:128}"],
    "google-api-key": ["AIzaSy{url:33}"],
    "google-oauth-token": ["ya29.a0{url:180}"],
    "google-oauth-secret": ["GOCSPX-{url:28}"],
    "google-refresh-token": ["1//0{url:80}"],
    "azure-storage-key": ["DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={b64:86}==;"],
    "azure-shared-access-key": ["Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName="
                                "Root;SharedAccessKey={b64:43}="],
    "azure-sas": ["https://acme.blob.store.windows.net/c?sv=2023-01-03&se=2026-01-01&sig={an:43}%3D"],
    "azure-ad-secret": ["{an:3}8Q~{url:34}"],
    "azure-devops-token": ["{an:76}AZDO{an:4}"],
    "azure-resource-key": ["{an:44}AzFu{an:8}==", "{an:42}AzSe{an:6}"],
    "alibaba-key": ["LTAI{an:20}"],
    "tencent-key": ["AKID{an:32}"],
    "yandex-key": ["AQVN{url:35}Q"],
    "digitalocean-token": ["dop_v1_{hex:64}", "doo_v1_{hex:64}"],
    "heroku-key": ["HRKU-AA{url:58}"],
    "cloudflare-origin-key": ["v1.0-{hex:24}-{hex:146}"],
    "fly-token": ["FlyV1 fm2_{b64:120}", "fo1_{url:43}"],
    "netlify-token": ["nfp_{an:36}"],
    "vercel-token": ["vcp_{an:56}", "vercel_blob_rw_{an:16}_{an:30}"],
    "render-key": ["rnd_{an:32}"],
    "planetscale-token": ["pscale_tkn_{url:43}", "pscale_pw_{url:43}"],
    "supabase-key": ["sbp_{hex:40}", "sb_secret_{url:31}"],
    "neon-key": ["napi_{low:64}"],
    "databricks-token": ["dapi{hex:32}", "dapi{hex:32}-3"],
    "snowflake-token": ["ver:3-hint:{dig:10}-ETMsDgAAA{b64:120}"],
    "terraform-token": ["{an:14}.atlasv1.{url:67}"],
    "vault-token": ["hvs.{url:92}", "hvb.{url:140}"],
    "pulumi-token": ["pul-{hex:40}"],
    "doppler-token": ["dp.pt.{an:43}", "dp.st.dev.{an:43}"],
    "onepassword-token": ["ops_eyJ{b64:300}"],
    "onepassword-secret-key": ["A3-{up:6}-{up:6}-{up:5}-{up:5}-{up:5}-{up:5}"],
    "tailscale-key": ["tskey-auth-{an:17}-{an:32}", "tskey-api-{an:12}-{an:32}"],
    "openshift-token": ["sha256~{url:43}"],
    "github-token": ["ghp_{an:36}", "gho_{an:36}", "ghu_{an:36}", "ghs_{an:36}", "ghr_{an:76}",
                     "github_pat_{an:22}_{an:59}"],
    "gitlab-token": ["glpat-{url:20}", "glpat-{url:27}.01.{low:9}", "gldt-{url:20}", "glrt-{url:20}",
                     "glptt-{hex:40}", "GR1348941{url:20}"],
    "bitbucket-token": ["ATBB{an:32}", "BBDC-{b64:44}"],
    "atlassian-token": ["ATATT3xFfGF0{url:170}={up:8}"],
    "buildkite-token": ["bkua_{hex:40}"],
    "circleci-token": ["CCIPAT_{an:22}_{hex:40}"],
    "sonar-token": ["squ_{hex:40}", "sqp_{hex:40}"],
    "sourcegraph-token": ["sgp_{hex:16}_{hex:40}", "sgp_{hex:40}"],
    "npm-token": ["npm_{an:36}"],
    "pypi-token": ["pypi-AgEIcHlwaS5vcmc{url:150}"],
    "rubygems-key": ["rubygems_{hex:48}"],
    "crates-token": ["cio{an:32}"],
    "docker-token": ["dckr_pat_{url:27}", "dckr_oat_{url:32}"],
    "nuget-key": ["oy2{low:43}"],
    "clojars-token": ["CLOJARS_{low:60}"],
    "artifactory-key": ["AKCp8{an:68}"],
    "slack-token": ["xoxb-{dig:12}-{dig:13}-{an:24}", "xoxp-{dig:12}-{dig:12}-{dig:13}-{hex:32}",
                    "xapp-1-A{up:10}-{dig:13}-{hex:64}", "xoxe.xoxp-1-{an:160}"],
    "slack-webhook": ["https://hooks.slack.com/services/T{up:8}/B{up:10}/{an:24}"],
    "discord-webhook": ["https://discord.com/api/webhooks/{dig:19}/{url:68}"],
    "discord-token": ["MT{an:24}.{url:6}.{url:37}Q"],
    "telegram-token": ["{dig:10}:AA{url:32}Q"],
    "teams-webhook": ["https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/"
                      "{hex:32}/{uuid}"],
    "twilio-key": ["SK{hex:32}"],
    "sendgrid-key": ["SG.{url:22}.{url:43}"],
    "mailgun-key": ["key-{hex:32}"],
    "mailchimp-key": ["{hex:32}-us21"],
    "brevo-key": ["xkeysib-{hex:64}-{an:16}"],
    "resend-key": ["re_{an:8}_{an:24}"],
    "stripe-key": ["sk_live_{an:24}", "sk_test_{an:99}", "rk_live_{an:24}"],
    "webhook-secret": ["whsec_{b64:32}", "whsec_{an:32}"],
    "square-token": ["sq0atp-{url:22}", "sq0csp-{url:43}", "EAAA{url:59}Q"],
    "braintree-token": ["access_token$production${low:16}${hex:32}"],
    "shopify-token": ["shpat_{hex:32}", "shpss_{hex:32}"],
    "plaid-token": ["access-production-{uuid}"],
    "flutterwave-key": ["FLWSECK-{hex:32}-X", "FLWSECK_TEST-{an:32}-X"],
    "easypost-key": ["EZAK{low:54}"],
    "shippo-token": ["shippo_live_{hex:40}"],
    "linear-key": ["lin_api_{an:40}"],
    "notion-token": ["ntn_{an:46}", "secret_{an:43}"],
    "figma-token": ["figd_{url:43}"],
    "asana-token": ["2/{dig:16}/{dig:16}:{hex:32}", "1/{dig:16}:{hex:32}"],
    "airtable-token": ["pat{an:14}.{hex:64}"],
    "postman-key": ["PMAK-{hex:24}-{hex:34}"],
    "dropbox-token": ["sl.{url:140}", "sl.u.{url:150}"],
    "contentful-token": ["CFPAT-{url:43}"],
    "typeform-token": ["tfp_{url:44}"],
    "hubspot-token": ["pat-na1-{uuid}"],
    "prefect-key": ["pnu_{low:36}"],
    "newrelic-key": ["NRAK-{up:27}"],
    "sentry-token": ["sntrys_eyJ{b64:120}", "sntryu_{hex:64}"],
    "grafana-token": ["glsa_{an:32}_{hex:8}", "glc_eyJ{b64:90}"],
    "dynatrace-token": ["dt0c01.{up:24}.{up:64}"],
    "posthog-key": ["phx_{an:43}"],
    "launchdarkly-key": ["sdk-{uuid}", "api-{uuid}"],
    "adobe-secret": ["p8e-{url:31}Q"],
    "facebook-token": ["EAACEdEose0cBA{an:150}"],
    "twitter-bearer": ["AAAAAAAAAAAAAAAAAAAAA{an:22}%2B{an:20}%3D{an:40}"],
    "mapbox-token": ["sk.eyJ{url:70}.{url:22}"],
    "jwt": ["eyJ{url:33}.eyJ{url:80}.{url:43}", "eyJ{url:40}..{url:16}.{url:60}.{url:22}"],
    "private-key": [
        "-----BEGIN RSA PRIVATE KEY-----\n{b64:64}\n{b64:64}\n{b64:40}==\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\\n{b64:70}\\n{b64:70}\\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:30}",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{b64:64}\n{b64:64}\n=AbCd\n"
        "-----END PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{up:32}\n\n"
        "{b64:64}\n-----END EC PRIVATE KEY-----",
    ],
    "putty-key": ["PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 14\n{b64:64}\n{b64:64}"],
    "url-password": ["postgresql://app:{pw:16}@db.internal:5432/app", "redis://:{an:20}@cache:6379/0",
                     "mongodb+srv://root:{an:12}@cluster0.abcde.mongodb.net/test",
                     "https://build:{an:24}@git.acme.org/acme/app.git", "amqp://guest:{an:8}@mq/vhost"],
    "authorization": ["Authorization: Bearer {an:40}", "curl -H 'Authorization: Basic {an:20}=='",
                      '"authorization": "token {hex:40}"', "sent with Bearer {an:32} in it"],
    "api-key-header": ["X-Api-Key: {an:32}", "x-auth-token: {hex:32}",
                       "Ocp-Apim-Subscription-Key: {hex:32}"],
    "session-cookie": ["Cookie: theme=dark; sessionid={low:32}", "Set-Cookie: JSESSIONID={up:32}; Path=/"],
    "password-argument": ["mysql -u root -p{an:10}7 app < dump.sql"],
    "password-option": [
                        "curl -u admin:{pw:12} https://acme.org/api", "sshpass -p {pw:12} ssh host"],
    "netrc-password": ["machine api.acme.org login me password {pw:12}"],
    "password-hash": ["$2b$12${crypt:53}", "$6$saltsalt${crypt:86}",
                      "$argon2id$v=19$m=65536,t=3,p=4${b64:22}${b64:43}"],
    "spoken-password": ["the staging password is {an:9}7!", "I changed the passcode to {an:8}3"],
    "secret": ["helm upgrade app --set x=1 --password {pw:12}7", "cli login --token {an:24}7", "DB_PASSWORD={an:11}7", 'client_secret = "{an:32}"', "api_key: {hex:32}",
               "{quote}token{quote}: {quote}{an:40}{quote}", "password: Tr0ub4dor&{dig:2}",
               "export SIGNING_KEY={b64:43}=", "secret_key_base: {hex:64}", "ENCRYPTION_KEY='{hex:64}'",
               "datadog api-key={hex:32}", "apiKey: '{uuid}'", "config['auth_token'] = '{an:32}'",
               "Server=tcp:sql,1433;Database=app;User ID=sa;Password={pw:14}1;Encrypt=True",
               "PGPASSWORD={pw:14} psql -h db", 'password="{pw:12}9"', "AUTH_KEY => '{an:40}'"],
}  # fmt: skip


def made_up(template, random):
    def fill(match):
        kind, _, length = match[1].partition(":")
        if kind == "uuid":
            digits = "".join(random.choices("0123456789abcdef", k=32))
            return "-".join(
                (digits[:8], digits[8:12], "4" + digits[13:16], "a" + digits[17:20], digits[20:])
            )
        if kind == "wrapped":
            inner = "user said password=" + "".join(random.choices(ALPHABETS["an"], k=13)) + "7"
            return base64.b64encode(inner.encode()).decode()
        if kind == "quote":
            return '"'
        if kind not in ALPHABETS:
            return match[0]
        return "".join(random.choices(ALPHABETS[kind], k=int(length)))

    return re.sub(r"\{([a-z0-9:]+)\}", fill, template)


def samples(count=3, seed=0):
    """(kind, text) for every format."""
    chance = random.Random(seed)
    for kind, templates in FORMATS.items():
        for template in templates:
            for _ in range(count):
                yield kind, made_up(template, chance)


SECRET = made_up("ghp_{an:36}", random.Random(7))
