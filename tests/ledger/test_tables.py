"""What is copied of a bank is all of it."""

from reasonbank.ledger.sqlite.schema_check import usual_shape
from reasonbank.ledger.tables import TABLES


def test_every_table_and_every_column_of_a_bank_is_copied():
    made = {
        name: set(columns.split(","))
        for name, columns in usual_shape().items()
        if columns is not None and name != "meta"
    }
    assert {table.name: set(table.columns) for table in TABLES} == made


def test_the_columns_of_a_key_come_first():
    assert all(table.columns[: len(table.key)] == table.key for table in TABLES)
