"""``protect``: code one does not own, guarded now or when it is imported, and taken back."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap

import pytest

from breakerkit import CircuitOpenError, ConfigError, breaker, protect
from breakerkit._shell._foreign import Patch

VENDOR = """
    import functools

    def send(value):
        return value

    async def send_async(value):
        return value

    def stream(value):
        yield value

    class Base:
        def inherited(self, value):
            return value

    class Client(Base):
        limit = 7

        def send(self, value):
            return value

        @classmethod
        def make(cls):
            return cls()

        @staticmethod
        def unit():
            return "kg"

        class Inner:
            def deep(self):
                return "deep"

    class Slow(Client):
        pass

    client = Client()
    compiled = functools.partial(send, 1)
"""


@pytest.fixture
def vendor(tmp_path, monkeypatch):
    """A package of a vendor's that is not imported yet; returns what imports it."""
    package = tmp_path / "vendor_sdk"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "client.py").write_text(textwrap.dedent(VENDOR))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield lambda: importlib.import_module("vendor_sdk.client")
    for name in ("vendor_sdk.client", "vendor_sdk"):
        sys.modules.pop(name, None)


@pytest.fixture(params=["before the import", "after the import"])
def protected(request, vendor, circuit):
    """Protect a name before or after the module is imported; returns breaker, module and undo."""

    def make(path, policy=None):
        b = circuit() if policy is None else policy
        if request.param == "after the import":
            vendor()
        undo = protect(f"vendor_sdk.client:{path}", b)
        return b, vendor(), undo

    return make


def test_a_function(protected):
    """A module's function is guarded under its name; ``undo()`` puts the very function back."""
    b, module, undo = protected("send")
    bare = module.send.__wrapped__
    assert module.send(7) == 7
    assert module.send.breaker is b
    assert b.snapshot().successes == 1
    undo()
    assert module.send is bare
    undo()
    assert module.send is bare


def test_a_method(protected):
    """A method is guarded for every instance, those made before too."""
    b, module, undo = protected("Client.send")
    assert module.client.send(7) == 7
    assert module.client.send.breaker is b
    with b.force_open(), pytest.raises(CircuitOpenError):
        module.Slow().send(7)
    undo()
    assert not hasattr(module.client.send, "breaker")


@pytest.mark.parametrize(("name", "kind"), [("make", classmethod), ("unit", staticmethod)])
def test_class_and_static_methods(name, kind, protected):
    """What stands in the class keeps its kind, and comes back as the very object."""
    b, module, undo = protected(f"Client.{name}")
    assert isinstance(vars(module.Client)[name], kind)
    assert getattr(module.Client, name)() is not None
    assert getattr(module.client, name)() is not None
    assert b.snapshot().successes == 2
    undo()
    assert not hasattr(getattr(module.Client, name), "breaker")
    assert isinstance(vars(module.Client)[name], kind)


def test_what_is_inherited(protected):
    """An inherited method is guarded in the class that was named, its base stays bare; undo removes it."""
    b, module, undo = protected("Client.inherited")
    assert module.client.inherited(7) == 7
    assert module.Base().inherited(7) == 7
    assert b.snapshot().successes == 1
    undo()
    assert "inherited" not in vars(module.Client)
    assert module.client.inherited(7) == 7


def test_what_is_nested(protected):
    """A path leads through classes."""
    b, module, undo = protected("Client.Inner.deep")
    assert module.Client.Inner().deep() == "deep"
    assert b.snapshot().successes == 1
    undo()


def test_an_attribute_of_an_object(protected):
    """A path may lead through an object of the module: its own attribute is put in front."""
    b, module, undo = protected("client.send")
    assert module.client.send(7) == 7
    assert module.Client().send(7) == 7
    assert b.snapshot().successes == 1
    undo()
    assert "send" not in vars(module.client)


@pytest.mark.parametrize("name", ["send_async", "stream", "compiled"])
def test_other_kinds(name, protected):
    """Async functions, generators and callable objects are guarded as by the decorator."""
    b, module, undo = protected(name)
    assert getattr(module, name).breaker is b
    undo()
    assert not hasattr(getattr(module, name), "breaker")


def test_a_family_or_another_decorator(protected):
    """The policy may be a keyed family, or any decorator."""
    keyed = breaker(key=lambda value: value)
    _, module, undo = protected("Client.send", keyed)
    assert module.client.send("k") == "k"
    assert keyed.keys() == ["k"]
    undo()

    def doubled(function):
        return functools.wraps(function)(lambda value: 2 * function(value))

    _, module, undo = protected("send", doubled)
    assert module.send(7) == 14
    undo()


def test_two_policies_are_undone_in_turn(protected, circuit):
    """Two on one name stack; they are taken back in the opposite order, else the error says so."""
    b, module, undo = protected("send")
    other = circuit()
    undo_other = protect("vendor_sdk.client:send", other)
    assert module.send(7) == 7
    assert (b.snapshot().successes, other.snapshot().successes) == (1, 1)
    with pytest.raises(RuntimeError, match="vendor_sdk.client:send has been replaced since"):
        undo()
    undo_other()
    undo()
    assert not hasattr(module.send, "breaker")


def test_what_was_removed_since(protected):
    """A name that somebody has deleted since is not put back."""
    _, module, undo = protected("send")
    del module.send
    with pytest.raises(RuntimeError, match="replaced since"):
        undo()


def test_undone_before_the_import(vendor, circuit):
    """Taken back before the import, nothing is ever patched."""
    undo = protect("vendor_sdk.client:send", circuit())
    undo()
    undo()
    assert not hasattr(vendor().send, "breaker")


def test_undone_before_the_import_nothing_is_looked_at(vendor, circuit):
    """Taken back before the import, a name that is not there is no error any more."""
    protect("vendor_sdk.client:sned", circuit())()
    assert not hasattr(vendor().send, "breaker")


def test_undone_while_the_policy_is_put_in_front(vendor):
    """A policy that takes the patch back while it is applied leaves the bare function."""
    module = vendor()
    undo = []

    def policy(function):
        undo[0]()
        return breaker(function)

    patch = Patch("vendor_sdk.client", "send", policy)
    undo.append(patch.undo)
    patch.start()
    assert not hasattr(module.send, "breaker")
    patch.after_fork()
    patch.undo()


def test_protecting_imports_nothing(vendor, circuit):
    """``protect`` does not import the module itself."""
    protect("vendor_sdk.client:send", circuit())()
    assert "vendor_sdk" not in sys.modules


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("sned", "has no 'sned', did you mean 'send'"),
        ("Client.sned", "has no 'sned', did you mean 'send'"),
        ("Clint.send", "has no 'Clint', did you mean 'Client'"),
    ],
)
def test_a_missing_name(path, message, vendor, circuit):
    """A name that is not there is an error with near ones: at once, or when the module is imported."""
    undo = protect(f"vendor_sdk.client:{path}", circuit())
    with pytest.raises(AttributeError, match=message):
        vendor()
    undo()
    vendor()
    with pytest.raises(AttributeError, match=message):
        protect(f"vendor_sdk.client:{path}", circuit())


def test_what_cannot_be_guarded(vendor, circuit):
    """A class, or a plain attribute, is refused as by the decorator; nothing is patched."""
    module = vendor()
    with pytest.raises(TypeError, match="breaker_methods"):
        protect("vendor_sdk.client:Client", circuit())
    with pytest.raises(TypeError, match="cannot be guarded"):
        protect("vendor_sdk.client:Client.limit", circuit())
    assert module.Client.limit == 7


@pytest.mark.parametrize(
    "target",
    ["send", "vendor_sdk.client", "vendor_sdk.client:", ":send", "a b:c", "a:b c", "a..b:c", "a:b:c", 42, None],
)  # fmt: skip
def test_a_wrong_target(target, circuit):
    """A target of another form is refused with the form that is wanted."""
    with pytest.raises(ConfigError, match="must be 'package.module:function'"):
        protect(target, circuit())


def test_a_wrong_policy():
    """What is no decorator is refused."""
    with pytest.raises(TypeError, match="policy=42: must be a breaker or another decorator"):
        protect("vendor_sdk.client:send", 42)
