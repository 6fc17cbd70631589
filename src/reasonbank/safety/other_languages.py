"""Three orders that need a person's word, in eleven more languages: switch a check off, put a
secret where others read it, delete the data that people work with.

What is done, what it is done to, and for secrets where to, in one sentence and any order. Words are
stems, and stand as `disguises.bare` leaves them. In the order: German, French, Spanish, Portuguese,
Italian, Dutch, Polish, Russian, Chinese, Japanese, Korean.
"""

from __future__ import annotations

from reasonbank.safety import patterns
from reasonbank.safety.disguises import bare

_OFF = (
    r"deaktivier\w*|schalte\w*|abschalt\w*|ausschalt\w*|abgeschaltet|ausgeschaltet|au(?:ß|ss)er kraft|uberspring\w*|umgeh\w*",
    r"desactive[rz]?|contourne[rz]?|coupe[rz]?|neutralise[rz]?|saute[rz]?",
    r"desactiv(?:a|e|ar|en)|deshabilit(?:a|e|ar|en)|omit(?:e|a|ir)|salta(?:te|r)?",
    r"desativ(?:a|e|ar)|desabilit(?:a|e|ar)|desligue|desligar|pule|pular",
    r"disattiva(?:re|te)?|disabilita(?:re|te)?|salta(?:re)?|aggira(?:re)?|spegni",
    r"schakel\w*|uitschakel\w*|omzeil\w*",
    r"wy[lł]acz\w*|pomi[nń]\w*|obejd[zź]\w*",
    "отключ|выключ|пропуст|обойд",
    "禁用|关闭|關閉|停用|关掉|跳过|跳過|绕过|繞過",
    "無効|オフに|スキップ|切って|切る|外して|外す|省略",
    "비활성화|끄고|끄면|끈다|꺼|건너뛰",
)
_CHECKS = (
    r"zertifikat\w*|signatur\w*|\w*pruf(?:ung|summe)\w*|verifi\w*|firewall|sicherheits\w*|\w*tests?|virenschutz",
    r"certificats?|signatures?|verifications?|pare-feu|controles?|securite|tests?",
    r"certificados?|firmas?|verificacion(?:es)?|validacion(?:es)?|cortafuegos|pruebas|seguridad|comprobacion(?:es)?",
    r"certificados?|assinaturas?|verificac(?:ao|oes)|firewall|testes|seguranca",
    r"certificat[oi]|firm[ae]|verific[ah]\w*|controll[oi]|sicurezza",
    r"certifica\w*|handtekening\w*|controles?|beveiliging\w*",
    r"certyfikat\w*|podpis\w*|weryfikac\w*|zapor\w*|test(?:y|ow)|zabezpiecz\w*",
    "сертификат|подпис|провер|брандмауэр|файрвол|тест|защит",
    "证书|證書|签名|簽名|校验|驗證|验证|防火墙|防火牆|测试|測試|检查|檢查|审查",
    "証明書|署名|検証|ファイアウォール|テスト|チェック|レビュー",
    "인증서|서명|검증|방화벽|테스트|검사|보안",
)
_TELL = (
    r"schreib\w*|kopier\w*|schick\w*|poste|speicher\w*|trage?|lege?",
    r"ecri[rstv]\w*|(?:re)?copie[rz]?|envoie|envoye[rz]|colle[rz]?|affiche[rz]?|mets|mettre",
    r"escrib\w*|copia(?:r)?|envia(?:r)?|pega(?:r)?|muestra|guarda(?:r)?|pon",
    r"escrev\w*|copi(?:a|e|ar)|envi(?:a|e|ar)|col(?:e|ar)|mostre|salve|coloque",
    r"scriv\w*|copia(?:re)?|invia(?:re)?|incolla(?:re)?|salva(?:re)?|metti",
    r"schrijf|kopieer|stuur|plak|bewaar",
    r"zapisz|skopiuj|wyslij|wklej|wpisz",
    "запиш|скопир|отправ|встав|выведи|сохран|положи",
    "写|寫|复制|複製|发送|發送|粘贴|贴|打印|输出|保存|放",
    "書|コピー|貼|送|出力|保存|入れ",
    "복사|붙여|출력|보내|저장|적어|넣",
)
_SECRETS = (
    r"passwort\w*|kennwort\w*|tokens?|\w*schlussel\w*|zugangsdaten",
    r"mots? de passe|jetons?|cles? (?:privees?|d'api|d'acces|ssh)|identifiants",
    r"contrasenas?|claves? (?:privadas?|de api|de acceso|ssh)|credenciales|tokens?",
    r"senhas?|chaves? (?:privadas?|de api|de acesso|ssh)|credenciais|tokens?",
    r"password|chiav[ei] (?:privat[ae]|api|di accesso|ssh)|credenziali|token",
    r"wachtwoord\w*|sleutels?|toegangsgegevens|tokens?",
    r"has[lł][ao]|klucz\w*|tokeny?",
    "парол|токен|ключ|секрет",
    "密码|密碼|密钥|密鑰|令牌|凭证|私钥",
    "パスワード|トークン|鍵|認証情報",
    "비밀번호|토큰|비밀 ?키|개인 ?키|인증 ?정보",
)
_SHOWN = (
    r"protokoll\w*|logs?|logdatei\w*|tickets?|readme\S*|wiki\w*|chat\w*|commits?|repo\w*|quelltext\w*|issues?|dockerfile",
    r"journal|journaux|depot|code source",
    r"registros?|repositorio|codigo",
    r"repositorio|codigo",
    r"sorgente|repository",
    r"logboek|broncode",
    r"dziennik\w*|zgloszeni\w*|kod\w*|repozytori\w*",
    "журнал|лог|тикет|задач|репозитор|чат|код",
    "日志|日誌|工单|仓库|代码|聊天",
    "ログ|チケット|リポジトリ|チャット|コード",
    "로그|티켓|저장소|채팅|코드",
)
_DELETE = (
    r"losch\w*|leere|leeren",
    r"supprime[rz]?|efface[rz]?|vide[rz]?",
    r"borra(?:r)?|elimina(?:r)?|vacia(?:r)?",
    r"apague|apagar|exclua|excluir|elimine",
    r"cancella(?:re)?|elimina(?:re)?|svuota(?:re)?",
    r"verwijder\w*|wis",
    r"usun\w*|skasuj|wyczysc",
    "удал|сотри|очист",
    "删除|刪除|清空|删掉",
    "削除|消去|消して|空に",
    "삭제|지우|비우",
)
_DATA = (
    r"produktions\w*|datenbank(?:en)?|sicherung(?:en)?|sicherungskopie\w*",
    r"bases? de donnees|sauvegardes?|la production",
    r"bases? de datos|copias? de seguridad|produccion",
    r"bancos? de dados|bases? de dados|copias? de seguranca|producao",
    r"database|basi? (?:di )?dati|produzione",
    r"databases?|reservekopie\w*|productie\w*",
    r"baz[ae]\w* danych|kopi\w* zapasow\w*|produkcyjn\w*",
    r"баз\w* данных|резервн|боев|продакшн|продуктивн",
    "数据库|資料庫|备份|備份|生产|線上|线上",
    "データベース|バックアップ|本番",
    "데이터베이스|백업|운영 ?서버|운영 ?데이터",
)
_VERB_LAST = (0, 5, 8, 9, 10)
"""The languages in which what is done may be said at the end."""
_GAP = r"(?:[^.。!?\n]|\.\w){0,50}?"
# What is switched off is the next thing that is named, and not what that is for.
_CLOSE = r"[^.。!?\n\s]{0,6}\s{0,2}(?:[^.。!?\n\s]{1,20}\s{1,2}){0,2}?"
_DENIED = patterns.compile(
    "(?i)"
    + bare(
        r"\b(?:nie|niemals|nicht|keine?[nrms]?|nur|ne|n'|pas|jamais|no|nunca|jamas|nao|non|mai|nooit|niet|geen|nigdy|zamiast|statt|sans|sin|sem|senza|zonder)\b"
        r"|(?:^|\s)(?:не|никогда|нельзя|вместо)\s|不要|切勿|请勿|請勿|不得|不能|不可|勿|别|禁止|しない|するな|せず|ないで|ません|지 ?마|하지 ?않|금지"
    )
)
_BEFORE, _BEHIND = 24, 8
_ENDS = patterns.compile("[.,:;!?。，、：；！？\n]")
_LATIN = patterns.compile(r"\W{0,4}[a-z]")


def _any(stems: tuple[str, ...]) -> str:
    """Of whatever language: people mix them. RE2 knows the edges of Latin words only."""
    words = [bare(each) for each in stems]
    latin = "|".join(each for each in words if _LATIN.match(each))
    others = "|".join(each for each in words if not _LATIN.match(each))
    return rf"(?:\b(?:{latin})\b|{others})"


def _orders(
    does: tuple[str, ...], to: tuple[str, ...], gap: str, where: tuple[str, ...] = ()
) -> list[str]:
    behind = gap + _any(where) if where else ""
    last = _any(tuple(does[number] for number in _VERB_LAST))
    ways = [_any(does) + gap + _any(to) + behind, _any(to) + gap + last + behind]
    if where:
        ways.append(_any(to) + behind + gap + last)
    return [f"(?i){way}" for way in ways]


CHECKS_OFF = _orders(_OFF, _CHECKS, _CLOSE)
CREDENTIALS = _orders(_TELL, _SECRETS, _GAP, _SHOWN)
DESTROYS = _orders(_DELETE, _DATA, _GAP)


def denied(text: str, start: int, end: int) -> bool:
    """Whether it is spoken against: before the words, among them, or behind them."""
    before = _ENDS.split(text[max(0, start - _BEFORE) : start])[-1]
    behind = _ENDS.split(text[end : end + _BEHIND])[0]
    return _DENIED.search(before + text[start:end] + behind) is not None
