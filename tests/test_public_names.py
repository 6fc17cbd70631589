"""What people import. To add a name is a decision; to remove one breaks them."""

import reasonbank
from reasonbank import errors, testing


def words(text):
    return text.split()


PUBLIC = words("""
    Bank BudgetExhausted Change ConfirmationNeeded EmbeddingError ErrorContext Evidence Filter
    Forbidden Forgotten Gap Genealogy HandedIn Hit InvalidInput InvalidReply InvalidSetting Job
    JobState KeyRefused Kind LeaseLost Link LinkType Memory ModelError ModelRefused ModelUnavailable
    NewerBank NotFound NotInUse Outcome Principal ReasonBankError Refused Reply Revision Scope
    Settings Source Standing State Step StorageError StorageFull TooLarge TooMany Trace Unauthorized
    Workspace __version__
""")

METHODS = words("""
    accept archive audit author backup batches capture close consolidate contradicting credit
    delete_workspace distil distil_prepare distil_submit drop_job embed_new evidence export
    feedback forget forget_gaps gaps genealogy get health history import_ inject jobs
    join_workspace link links maintain memories merge_workspace move_workspace name_workspace
    open outcome promote purge_traces
    rebuild recommend record reindex reject report reset_statistics restore retry_job revert review
    search seen_by
    settings solve stability statistics store store_trace trace traces undo undo_batch unlink
    update verify view within work workspaces
""")


def test_the_public_names_are_these():
    assert sorted(reasonbank.__all__) == sorted(PUBLIC)
    assert dir(reasonbank) == sorted(reasonbank.__all__)


def test_every_public_name_is_there():
    for name in reasonbank.__all__:
        assert getattr(reasonbank, name) is not None
    assert not hasattr(reasonbank, "nonsense")


def test_the_methods_of_a_bank_are_these():
    assert sorted(name for name in vars(reasonbank.Bank) if not name.startswith("_")) == METHODS


def test_every_error_is_public_and_of_one_family():
    ours = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert ours <= set(PUBLIC)
    assert all(issubclass(getattr(errors, name), errors.ReasonBankError) for name in ours)


def test_builders_for_tests_are_public_too():
    assert testing.__all__ == ["Scripted", "Slow", "a_memory", "a_trace", "a_warning"]
    assert testing.a_memory(title="other").title == "other"
    assert testing.a_warning().warning
    assert testing.a_trace().trajectory
