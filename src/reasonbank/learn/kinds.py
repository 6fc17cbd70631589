"""What kind of work a session was: its subject, told from tools, commands and files."""

from reasonbank.search.subjects import LANGUAGES, most, of_file, of_program, of_text

__all__ = ["LANGUAGES", "most", "of_file", "of_program", "of_text"]
