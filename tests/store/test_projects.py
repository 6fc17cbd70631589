"""Which project a directory belongs to: by the files of git, and by what is known above it."""

import hashlib
import os
import shutil
import subprocess
import threading

import pytest
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.store.checkouts import Checkout, checkout_of
from reasonbank.store.workspaces import project_of
from reasonbank.testing import a_memory


def id_of(path):
    return hashlib.sha256(str(path).encode()).hexdigest()[:16]


def repository(root, inside=".git"):
    """As `git init` leaves it, as far as anybody looks."""
    for name in ("objects", "refs"):
        (root / inside / name).mkdir(parents=True)
    (root / inside / "HEAD").write_text("ref: refs/heads/main\n")
    return root


def linked(main, tree, name="linked", *, relative=False):
    """As `git worktree add` leaves it."""
    tree.mkdir()
    own = main / "worktrees" / name
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/other\n")
    (own / "commondir").write_text("../..\n")
    there, back = (own, tree / ".git")
    if relative:
        there, back = os.path.relpath(own, tree), os.path.relpath(tree / ".git", own)
    (tree / ".git").write_text(f"gitdir: {there}\n")
    (own / "gitdir").write_text(f"{back}\n")
    return tree


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def place(home, open_bank):
    """The id of the workspace of a directory, which need not be there."""
    bank = open_bank(workspace=home)

    def place(path):
        return project_of(bank.context.read(), path).id

    def know(path):
        bank.seen_by(workspace=id_of(path), path=str(path)).record(a_memory())

    place.know, place.bank = know, bank
    return place


def folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


@requirement("WSP-1")
def test_a_folder_of_a_repository_belongs_to_its_root(place, home):
    root = repository(home / "project")
    deep = folder(root / "src" / "deep")
    assert place(deep) == place(root) == id_of(root)
    assert place(root / ".git" / "hooks") == place(root / "not there") == id_of(root)


@requirement("WSP-1")
def test_a_known_workspace_within_the_repository_stays_one(place, home):
    root = repository(home / "project")
    deep = folder(root / "packages" / "one" / "src")
    place.know(root / "packages" / "one")
    assert place(deep) == place(root / "packages" / "one") == id_of(root / "packages" / "one")
    assert place(root / "packages") == place(root) == id_of(root)


@requirement("WSP-1")
def test_what_is_known_above_the_repository_does_not_count(place, home):
    place.know(folder(home / "work"))
    root = repository(home / "work" / "project")
    assert place(folder(root / "src")) == id_of(root)


@requirement("WSP-1")
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_linked_worktrees_share_the_workspace_of_their_repository(place, home, relative):
    root = repository(home / "project")
    tree = linked(root / ".git", home / "tree", relative=relative)
    assert place(tree) == place(folder(tree / "src")) == place(root) == id_of(root)
    place.know(folder(root / "lib"))
    assert place(folder(tree / "lib" / "deep")) == id_of(root / "lib")
    place.know(tree)
    assert place(tree / "src") == id_of(tree)


@requirement("WSP-1")
def test_worktrees_of_a_bare_repository_share_one(place, home):
    bare = repository(home, "project.git") / "project.git"
    one = linked(bare, home / "one", "one")
    other = linked(bare, home / "other", "other")
    assert place(one) == place(folder(other / "src")) == id_of(bare)


@requirement("WSP-1")
def test_a_submodule_is_a_repository_of_its_own(place, home):
    root = repository(home / "project")
    modules = repository(root, ".git/modules/worktrees/part") / ".git/modules/worktrees/part"
    (modules / "config").write_text("[core]\n\tworktree = ../../../../part\n")
    part = folder(root / "part")
    (part / ".git").write_text("gitdir: ../.git/modules/worktrees/part\n")
    assert place(folder(part / "src")) == id_of(part)
    tree = linked(modules, home / "tree")
    assert place(tree) == id_of(part)


LIES = {
    "another's worktree": "gitdir: {victim}/.git/worktrees/linked",
    "another's repository": "gitdir: {victim}/.git/worktrees",
    "nowhere": "gitdir: {victim}/nowhere",
    "itself": "gitdir: .git",
    "no pointer": "{victim}/.git",
    "nothing": "",
    "too long": "gitdir: {victim}/.git" + "/." * 20_000,
    "not text": "gitdir: {victim}/.git\x00\udcff",
}


@requirement("WSP-1")
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_git_file_that_lies_leads_nowhere(place, home, lie):
    victim = repository(home / "victim")
    linked(victim / ".git", home / "tree")
    place.know(victim)
    liar = folder(home / "liar")
    (liar / ".git").write_text(lie.format(victim=victim), errors="surrogateescape")
    assert place(folder(liar / "src")) == id_of(liar / "src")
    assert place(liar) == id_of(liar)


@requirement("WSP-1")
def test_what_a_liar_builds_to_be_believed_is_not(place, home):
    victim = repository(home / "victim")
    liar, fake = folder(home / "liar"), folder(home / "fake" / "worktrees" / "x")
    (fake / "commondir").write_text(f"{victim}/.git\n")
    (fake / "gitdir").write_text(f"{liar}/.git\n")
    (liar / ".git").write_text(f"gitdir: {fake}\n")
    assert place(liar) == id_of(liar)
    (victim / ".git" / "worktrees").mkdir()
    (victim / ".git" / "worktrees" / "x").symlink_to(fake)
    (liar / ".git").write_text(f"gitdir: {victim}/.git/worktrees/x\n")
    assert place(liar) == id_of(liar)
    # One who is let into another's objects has a repository, but not that one's workspace.
    (liar / ".git").write_text(f"gitdir: {victim}/.git\n")
    assert place(liar) == id_of(liar)
    (liar / ".git").unlink()
    (liar / ".git").symlink_to(victim / ".git")
    assert place(liar) == id_of(liar)


@requirement("WSP-1")
def test_nobody_waits_for_a_pipe(place, home):
    root = folder(home / "project")
    os.mkfifo(root / ".git")
    found = []
    thread = threading.Thread(target=lambda: found.append(place(root)), daemon=True)
    thread.start()
    thread.join(60)
    assert found == [id_of(root)]


def test_an_empty_git_folder_is_no_repository(place, home):
    root = repository(home / "project")
    (folder(root / "sub") / ".git").mkdir()
    assert place(root / "sub") == id_of(root)


@requirement("WSP-1")
def test_without_git_the_nearest_known_folder_above_counts(place, home):
    project = folder(home / "notes")
    assert place(folder(project / "2026" / "11")) == id_of(project / "2026" / "11")
    place.know(project)
    assert place(project / "2026" / "11") == id_of(project)
    place.know(project / "2026")
    assert place(project / "2026" / "11") == id_of(project / "2026")


@requirement("WSP-1")
def test_the_home_folder_and_the_root_count_only_for_who_stands_there(place, home):
    place.know(home)
    place.know("/")
    assert place(folder(home / "notes")) == id_of(home / "notes")
    assert place(home) == id_of(home)
    assert place("/") == id_of("/")
    assert place("/etc") == id_of("/etc")


@requirement("WSP-1")
def test_symbolic_links_are_resolved_and_old_paths_are_still_known(place, home):
    root = repository(home / "project")
    folder(root / "src")
    (home / "short").symlink_to(root)
    assert place(home / "short" / "src") == id_of(root)
    place.know(home / "short")
    assert place(home / "short" / "src") == id_of(home / "short")


@requirement("WSP-1")
def test_library_and_caller_agree(place, home, open_bank):
    root = repository(home / "project")
    deep = folder(root / "src")
    bank = open_bank(workspace=deep)
    bank.record(a_memory())
    assert bank.view.workspace == place.bank.within(deep).view.workspace == id_of(root)
    (stored,) = bank.workspaces()
    assert (stored.id, stored.path) == (id_of(root), str(root))


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_git_itself_writes_what_is_read_here(tmp_path):
    def git(*words, cwd):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always",
             *words], cwd=cwd, check=True, capture_output=True,
        )  # fmt: skip

    main, part = folder(tmp_path / "main"), folder(tmp_path / "part")
    for each in (main, part):
        git("init", cwd=each)
        git("commit", "--allow-empty", "-m", "first", cwd=each)
    git("worktree", "add", "../tree", cwd=main)
    git("submodule", "add", str(part), "part", cwd=main)
    git("worktree", "add", str(tmp_path / "part-tree"), cwd=main / "part")
    git("clone", "--bare", str(part), str(tmp_path / "bare.git"), cwd=tmp_path)
    git("worktree", "add", str(tmp_path / "bare-tree"), cwd=tmp_path / "bare.git")
    tree, inner = tmp_path / "tree", main / "part"
    assert checkout_of(str(main)) == Checkout(str(main), str(main))
    assert checkout_of(str(tree)) == Checkout(str(tree), str(main))
    assert checkout_of(str(inner)) == Checkout(str(inner), str(inner))
    assert checkout_of(str(tmp_path / "part-tree")).main == str(inner)
    assert checkout_of(str(tmp_path / "bare-tree")).main == str(tmp_path / "bare.git")


@requirement("WSP-1")
def test_what_others_store_changes_nothing_for_a_bound_caller(place, home):
    from reasonbank.access import TokenStore

    bank: Bank = place.bank
    inner = folder(home / "work" / "inner")
    tokens = TokenStore(bank)
    bound, _ = tokens.caller(tokens.create(scope="write", workspaces=[str(inner)]).token)
    assert bound.bank(bank, str(inner)).view.workspace == id_of(inner)
    place.know(home / "work")
    assert place(inner) == id_of(home / "work")
    assert bound.bank(bank, str(inner / "deep")).view.workspace == id_of(inner)
