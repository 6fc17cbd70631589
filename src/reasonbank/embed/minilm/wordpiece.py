"""BERT's uncased WordPiece: text to token ids, as the model was trained with.

One deliberate difference from the usual tokenizers: "[SEP]" or "[MASK]" written in a
text is plain text there, never a control token.
"""

from __future__ import annotations

MAX_TOKENS = 256
MAX_WORD = 100

# How much of a text is read: nearly always the first cut holds more tokens than fit.
CUTS = (2_048, 32_768)

CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class _Plain(dict[int, str]):
    """What each character becomes for ``str.translate``; fills itself as characters are met.

    Lower case without accents, control characters gone, punctuation and ideographs
    between spaces: afterwards ``split`` gives the words.
    """

    def __init__(self) -> None:
        for c in map(chr, range(ord("!"), ord("~") + 1)):
            self[ord(c)] = c.lower() if c.isalnum() else f" {c} "
        for c in " \t\n\r":
            self[ord(c)] = " "

    def __missing__(self, code: int) -> str:
        from unicodedata import category, normalize

        plain = ""
        if category(chr(code)) not in ("Cc", "Cf", "Co", "Cs") and code != 0xFFFD:
            for c in normalize("NFD", chr(code)):
                kind = category(c)
                if c.isascii():
                    plain += self[ord(c)]
                elif kind[0] == "Z":
                    plain += " "
                elif kind[0] == "P" or any(low <= ord(c) <= high for low, high in CJK):
                    plain += f" {c} "
                elif kind != "Mn":
                    plain += c.lower()
        self[code] = plain
        return plain


class WordPiece:
    def __init__(self, vocabulary: str) -> None:
        with open(vocabulary, encoding="utf-8", newline="\n") as file:
            tokens = file.read().split("\n")
        self._ids = dict(zip(tokens, range(len(tokens)), strict=True))
        self._plain = _Plain()
        self._unknown, self._start, self._end = map(
            self._ids.__getitem__, ("[UNK]", "[CLS]", "[SEP]")
        )

    def __call__(self, text: str) -> list[int]:
        room = MAX_TOKENS - 2
        tokens: list[int] = []
        for cut in CUTS:
            tokens = self._tokens(text[:cut], room)
            if len(tokens) == room or len(text) <= cut:
                break
        return [self._start, *tokens, self._end]

    def _tokens(self, text: str, room: int) -> list[int]:
        tokens: list[int] = []
        ids = self._ids
        for word in text.translate(self._plain).split():
            whole = ids.get(word)
            if whole is not None:
                tokens.append(whole)
            else:
                tokens += self._pieces(word)
            if len(tokens) > room:
                break
        return tokens[:room]

    def _pieces(self, word: str) -> list[int]:
        """The longest known beginning, then the longest known continuation, to the end."""
        if len(word) > MAX_WORD:
            return [self._unknown]
        pieces: list[int] = []
        ids, start = self._ids, 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                piece = ids.get(prefix + word[start:end])
                if piece is not None:
                    pieces.append(piece)
                    start = end
                    break
            else:
                return [self._unknown]
        return pieces
