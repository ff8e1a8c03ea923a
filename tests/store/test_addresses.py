"""URLs with a password in them, wherever it went: no text says it, and no option is taken that cannot be."""

from __future__ import annotations

import traceback

import pytest

from breakerkit import ConfigError, RedisStore

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "source",
    [
        b"redis://:s3cr3t@host:6379/0", ["redis://:s3cr3t@host"], ("redis://:s3cr3t@host",), {"password": SECRET},
        "redis://:s3c/r3ts3cr3t@host:6379/0", "redis://:12/s3cr3t@host:6379/0", "redis://:12/3?s3cr3t@host",
        "redis://user:s3cr3t#x@host:6379", "redis://:12#s3cr3t@host", "redis://user:s3cr3t?x@host:6379",
        "http://u:s3cr3t@h/", "redis://us:s3cr3t@host:port/0", "redis://us:s3cr3t@host:6379/x?socket_timeout=abc",
        "redis://us:[s3cr3t@host:6379/x", "redis://us:s3cr3t@ho[st:6379/x", "redis://u:s3cr3t@h?db=s3cr3t",
        "redis://u:s3cr3t@h?foo=s3cr3t", "redis://u:s3cr3t@h?max_connections=-1", "unix://s3cr3t@/a@b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("cluster", [False, True])
def test_no_error_says_a_password(source, cluster):
    """Neither its text nor what it came of; where nobody knows what the password is, the URL is refused."""
    if cluster and isinstance(source, str) and ("foo" in source or "max_" in source):
        pytest.skip("what a cluster takes redis-py says when it connects")
    with pytest.raises(ConfigError, match="url_or_client") as caught:
        RedisStore(source, cluster=cluster)
    source = None
    said = "".join(traceback.format_exception(caught.value, limit=0))
    assert SECRET not in said
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ is True or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:s3cr3t@host:7000/2", "redis://host:7000/2"),
        ("redis://:a@s3cr3t@host", "redis://host"),
        ("redis://:12%2Fs3cr3t%40@host", "redis://host"),
        ("redis:///0?password=s3cr3t", "redis:///0"),
        ("unix://:s3cr3t@/run/redis?password=s3cr3t", "unix:///run/redis"),
        ("rediss://host/1#s3cr3t", "rediss://host/1"),
    ],
)
def test_what_a_store_is_called_has_no_password(url, shown):
    """Only where the server is."""
    store = RedisStore(url)
    assert (repr(store), store.name) == (f"<RedisStore 'breakerkit:' at {shown}>", shown)
    assert store.breaker.name == shown


@pytest.mark.parametrize(
    "options", ["timeout=5", "foo=bar", "max_connections=-1", "max_connections=0"]
)
def test_an_option_that_no_connection_has_is_told(options):
    """When the store is made, by its name, and not at each call."""
    with pytest.raises(
        ConfigError, match=f"these options of the URL: {options.partition('=')[0]}$"
    ):
        RedisStore(f"redis://host?{options}")


def test_options_that_a_connection_has_are_kept(runner):
    """The store's own are not changed by them."""
    store = RedisStore(
        "redis://host:1?max_connections=3&socket_timeout=9&protocol=3&client_name=me&retry_on_timeout=yes",
        timeout=0.2,
    )
    lane = store._clients.sync()
    made = lane._make()
    assert (made.client_name, made.socket_timeout, made.protocol) == ("me", 0.2, 2)
    assert lane.places._free.qsize() == 3
    there = runner.run(store._clients.here())
    made = there._make()
    assert (made.client_name, made.socket_timeout, made.protocol) == ("me", None, 2)
    assert len(there.places._free) == 3


def test_connections_of_a_loop_share_what_they_know_of_certificates(runner):
    """To read them takes longer than many timeouts of a crowd that connects."""
    lane = runner.run(RedisStore("rediss://host")._clients.here())
    assert lane._make().ssl_context is lane._make().ssl_context
    assert lane._make().ssl_context.get() is lane._make().ssl_context.get()
