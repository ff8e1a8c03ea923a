"""Watching a file of rules: what changes is taken, what is wrong is said once (SPEC 3)."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

from breakerkit import ConfigError, Degradation, Rule, RulesRefused, RulesReloaded
from breakerkit.degrade import watch as watching


def text(value, name="x"):
    return f"[[rules]]\nname = '{name}'\nrule = 'force:return {value}'\n"


@pytest.fixture
def rules():
    made = Degradation()
    yield made
    made._reset()


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "rules.toml"
    found.write_text(text(1))
    return found


def value(rules, name="x"):
    found = rules.rule_for(name)
    return found and found.rule.value


def replace(path, content):
    """Put another file in the place of this one, as a careful writer does."""
    new = path.with_suffix(".new")
    new.write_text(content)
    new.replace(path)


def wait_for(condition):
    """Wait for another thread's doing, for at most five seconds."""
    until = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


# -- by hand -------------------------------------------------------------------------------


def test_looking_by_hand(rules, path):
    """Rules are taken when it is made and at each look after a change; no look does anything twice."""
    watch = rules.watch(path, every=None)
    assert (value(rules), watch.running, watch.problem) == (1, False, None)
    assert not watch.look()
    path.write_text(text(2))
    assert watch.look()
    assert value(rules) == 2
    replace(path, text(3))
    assert watch.look()
    assert not watch.look()
    assert value(rules) == 3
    assert [event.rules for event in rules.history() if isinstance(event, RulesReloaded)] == [
        1,
        1,
        1,
    ]


def test_two_writes_within_one_tick(rules, path):
    """A change that the file's date does not show is seen, for a young file is read again."""
    watch = rules.watch(path, every=None)
    seen = path.stat()
    path.write_text(text(2))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert watch.look()
    assert value(rules) == 2


def test_a_settled_file_is_not_read(rules, path, monkeypatch):
    """A file that has been the same for a while costs one look at its date."""
    os.utime(path, (1, 1))
    watch = rules.watch(path, every=None)
    monkeypatch.setattr(watching.files, "read", lambda path: pytest.fail("it was read"))
    assert not watch.look()


def test_a_broken_file_is_told_once(rules, path, caplog):
    """The last good rules stay; it is said once, whatever the number of looks, and again when it is sound."""
    told = []
    rules.subscribe(told.append, RulesRefused)
    watch = rules.watch(path, every=None)
    for content in ("[[rules", "[[rules]]\nname='x'\nrule='no'\n"):
        for _ in range(3):
            path.write_text(content)
            assert not watch.look()
        assert value(rules) == 1
    assert watch.problem.startswith(f"{path}, line 3 (rule 1): rule 'no'")
    assert [event.why.split(": ")[1][:11] for event in told] == ["is not TOML", "rule 'no'"[:11]]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    assert warnings[1].endswith("the last good rules of it stay in force")
    path.write_text(text(2))
    assert watch.look()
    assert (value(rules), watch.problem) == (2, None)
    assert "is sound again" in caplog.text
    assert not any(isinstance(event, RulesRefused) for event in rules.history())


def test_a_settled_broken_file(rules, path, caplog):
    """One that is broken for long is neither read nor told again."""
    watch = rules.watch(path, every=None)
    path.write_text("[[rules")
    os.utime(path, (1, 1))
    for _ in range(3):
        assert not watch.look()
    assert caplog.text.count("is not TOML") == 1


def test_a_file_that_comes_and_goes(rules, path, caplog):
    """Missing at first is no error; when it vanishes the rules stay; when it is back it is taken."""
    content = path.read_text()
    path.unlink()
    watch = rules.watch(path, every=None)
    assert "No such file" in watch.problem
    for _ in range(3):
        assert not watch.look()
    assert caplog.text.count("No such file") == 1
    path.write_text(content)
    os.utime(path, (1, 1))
    assert watch.look()
    assert value(rules) == 1
    aside = path.with_suffix(".aside")
    path.rename(aside)
    assert not watch.look()
    assert value(rules) == 1
    aside.rename(path)  # the same file, looking just as before
    assert watch.look()
    assert watch.problem is None


def test_a_file_that_goes_between_two_looks_at_it(rules, path, monkeypatch):
    """Gone when its date is asked, or when it is opened: both are one problem."""
    os.utime(path, (1, 1))
    watch = rules.watch(path, every=None)
    path.unlink()
    assert not watch.look()
    assert "No such file" in watch.problem


def test_what_was_cleared_comes_back_with_a_change(rules, path):
    """A file's rule that somebody cleared is back when the file changes."""
    watch = rules.watch(path, every=None)
    rules.clear("x", source=path)
    assert not watch.look()
    assert value(rules) is None
    path.write_text(text(2))
    assert watch.look()
    assert value(rules) == 2


def test_a_listener_that_looks(rules, path):
    """A listener may look, and stop: it never waits for itself."""
    looks = []
    watch = rules.watch(path, every=None)
    rules.subscribe(lambda event: looks.append(watch.look()) or watch.stop())
    path.write_text(text(2))
    assert watch.look()
    assert set(looks) == {False}


# -- by itself ------------------------------------------------------------------------------


def test_a_thread_looks(rules, path):
    """It takes what changes, survives a broken and a missing file, and stops when it is told."""
    watch = rules.watch(path, every=0.005)
    assert watch.running
    path.write_text(text(2))
    wait_for(lambda: value(rules) == 2)
    path.write_text("[[rules")
    wait_for(lambda: watch.problem)
    path.unlink()
    wait_for(lambda: "No such file" in watch.problem)
    path.write_text(text(3))
    wait_for(lambda: value(rules) == 3)
    watch.stop()
    watch.stop()
    assert not watch.running
    assert rules.watches() == []
    path.write_text(text(4))
    time.sleep(0.02)
    assert value(rules) == 3
    watch.start()
    assert not watch.running


def test_a_listener_that_raises_does_not_end_it(rules, path, caplog):
    """C071: not even what would end the program ends the thread; the fault is logged."""

    def interrupt(event):
        raise KeyboardInterrupt

    watch = rules.watch(path, every=0.005)
    stop = rules.subscribe(interrupt, RulesReloaded)
    path.write_text(text(2))
    wait_for(lambda: "watch of rules" in caplog.text)
    stop()
    path.write_text(text(3))
    wait_for(lambda: value(rules) == 3)
    assert watch.running


def test_a_listener_that_stops_it(rules, path):
    """The thread may be told to stop by a listener of its own: it does not wait for itself."""
    watch = rules.watch(path, every=0.005)
    rules.subscribe(lambda event: watch.stop(), RulesReloaded)
    path.write_text(text(2))
    wait_for(lambda: not watch.running)
    assert value(rules) == 2


def test_a_block(rules, path):
    """The end of a ``with`` stops it."""
    with contextlib.suppress(KeyError), rules.watch(path, every=60) as watch:
        assert repr(watch) == f"<RuleWatch of {str(path)!r}, every 60 s>"
        raise KeyError
    assert not watch.running
    assert repr(watch) == f"<RuleWatch of {str(path)!r}, stopped>"
    assert repr(rules.watch(path, every=None)).endswith("when told>")


def test_watching_twice(rules, path):
    """The same file is watched once; asked for otherwise it is an error."""
    watch = rules.watch(path, every=60)
    assert rules.watch(str(path), every=60) is watch
    assert rules.watches() == [watch]
    with pytest.raises(ConfigError, match="it is watched already, <RuleWatch"):
        rules.watch(path, every=5)
    for wrong in (0, -1, "1", True):
        with pytest.raises(ConfigError, match=r"every=.*must be seconds"):
            rules.watch(path, every=wrong)
    watch.stop()
    assert rules.watch(path, every=5) is not watch


def test_a_watch_cannot_be_pickled(rules, path):
    """It is a matter of this process."""
    with pytest.raises(TypeError, match="a matter of this process"):
        pickle.dumps(rules.watch(path, every=None))


def test_the_program_ends(path):
    """A watch keeps no program alive."""
    code = f"from breakerkit import degradation; degradation.watch({str(path)!r}, every=0.001)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30, env=_environment())


def _environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


FORKING = """
import os, sys, time
from breakerkit import degradation
path, told = sys.argv[1], 0
def write(value):
    with open(path + ".new", "w") as file:
        file.write(f"[[rules]]\\nname='x'\\nrule='force:return {value}'\\n")
    os.replace(path + ".new", path)
def wait(value):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        rule = degradation.rule_for("x")
        if rule is not None and rule.rule.value == value:
            return
        time.sleep(0.005)
    os._exit(7)
watch = degradation.watch(path, every=0.005)
stopped = degradation.watch(path + ".json.toml", every=0.005)
stopped.stop()
idle = degradation.watch(path + ".idle.toml", every=None)
wait(1)
child = os.fork()
if child == 0:
    write(2)
    wait(2)
    degradation.set("y", "force:return 1")
    os._exit(0 if watch.running and not stopped.running and not idle.running else 8)
assert os.waitpid(child, 0)[1] == 0
wait(2)
assert watch.running
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork(path):
    """C033: a forked child goes on watching with a thread of its own, and so does its parent."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(path)],
        env=_environment(), timeout=30, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.replace("No such file", "")[:0]) == (0, ""), done.stderr


def test_mended_in_a_child(rules, path):
    """Asked without a fork: locks are fresh, a thread is there again where there was one."""
    before = set(threading.enumerate())
    watch, idle = rules.watch(path, every=60), rules.watch(path.with_name("b.toml"), every=None)
    looking, thread = watch._looking, watch._thread

    def fork() -> None:
        for one in (watch, idle):
            one.after_fork()

    assert looking.run(fork)  # as if the parent's thread had been looking
    assert watch._looking is not looking
    assert watch._thread is not thread
    assert watch.running
    assert not idle.running
    watch.stop()
    watch.after_fork()
    assert not watch.running
    assert (
        len(set(threading.enumerate()) - before) <= 2
    )  # the one of "before the fork" is one of them
    assert Rule.force_return(1) == rules.rule_for("x").rule


# -- interrupted -----------------------------------------------------------------------------


def interrupted(monkeypatch):
    """Let the next reading of a file's rules be interrupted."""
    real = watching.files.parse

    def parse(source, data):
        monkeypatch.setattr(watching.files, "parse", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(watching.files, "parse", parse)


def test_an_interrupted_look_is_made_again(rules, path, monkeypatch):
    """Ctrl-C while a file is read: its rules are taken at the next look."""
    watch = rules.watch(path, every=None)
    path.write_text(text(2))
    interrupted(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        watch.look()
    assert value(rules) == 1
    assert watch.look()
    assert value(rules) == 2


def test_an_interrupted_watch_is_begun_again(rules, path, monkeypatch):
    """Ctrl-C while a watch begins: asked for again, it begins."""
    interrupted(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        rules.watch(path, every=60)
    with rules.watch(path, every=60) as watch:
        assert watch.running
        assert value(rules) == 1
        watch.start()  # that it runs already is no matter
        assert rules.watch(path, every=60) is watch


def test_whoever_asks_for_a_watch_has_its_rules(rules, path, monkeypatch):
    """Two threads ask for one watch: both have seen the file when they have it."""
    reading, go_on = threading.Event(), threading.Event()
    real, seen = watching.files.parse, []

    def slowly(source, data):
        reading.set()
        go_on.wait(5)
        return real(source, data)

    def ask():
        rules.watch(path, every=None)
        seen.append(value(rules))

    monkeypatch.setattr(watching.files, "parse", slowly)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    assert reading.wait(5)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(5)
    assert seen == [1, 1]


def test_two_threads_make_what_waits(rules):
    """A change that waited is made once, though two threads saw it waiting."""
    board = rules._board
    made = []

    class Gone(type(board._waiting)):
        def __bool__(self):
            if len(self) and not made:
                made.append(self.popleft())  # another thread is quicker
                return True
            return len(self) > 0

    board._waiting = Gone([lambda book: (book, [])])
    rules.set("x", Rule.force_return(3))
    assert len(made) == 1
    assert value(rules) == 3


def test_a_sign_is_up_before_anybody_looks(rules):
    """A name that is new, and for which a rule stands: whoever calls by it at once is under the rule."""
    rules.set("new", Rule.force_return(3))
    board, seen = rules._board, []
    turn = board._turn

    def late(move):
        sign = board._signs["new"]
        seen.append((sign.up, board.in_force("new").rule.value))
        turn(move)

    board_turn, type(board)._turn = type(board)._turn, lambda self, move: late(move)
    try:
        turn = board_turn.__get__(board)
        assert board.sign("new").up
    finally:
        type(board)._turn = board_turn
    assert seen == [(True, 3)]
    assert not board.sign("other").up
