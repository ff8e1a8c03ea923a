import pytest
from breakerkit import breaker, State, CircuitOpenError
from tests.shapes import every_shape, returning, async_shapes
@every_shape
def test_opens(shape):
    b = breaker(failure_threshold=2)
    assert shape.run(b, returning(7)) == 7
    shape.fail(b, 2)
    assert b.state is State.OPEN
    with pytest.raises(CircuitOpenError):
        shape.run(b, returning(7))
async def test_a(): pass
def test_b():
    import asyncio
    asyncio.run(test_a())
async def test_c(): pass
