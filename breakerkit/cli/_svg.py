"""Just enough SVG to draw a chart: shapes with attributes, text that is escaped."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

__all__ = ["Canvas"]

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class Canvas:
    """A drawing that grows shape by shape; coordinates in pixels from the top left."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        font = f"font-family={quoteattr(_FONT)}"
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
            f"<title>{_clean(title)}</title>",
            f"<desc>{_clean(description)}</desc>",
        ]

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        tip: str = "",
        **more: object,
    ) -> None:
        """Draw a filled rectangle; ``tip`` shows when a pointer rests on it."""
        self._shape("rect", tip, x=x, y=y, width=width, height=height, fill=fill, **more)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, **more: object) -> None:
        """Draw a straight line."""
        self._shape("line", "", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int,
        fill: str,
        *,
        anchor: str = "start",
        **more: object,
    ) -> None:
        """Write text; ``anchor`` is start, middle or end."""
        attributes = _attributes({"x": x, "y": y, "font_size": size, "fill": fill, **more})
        self._parts.append(f'<text text-anchor="{anchor}"{attributes}>{_clean(text)}</text>')

    def render(self) -> str:
        """Return the whole drawing."""
        return "\n".join([*self._parts, "</svg>", ""])

    def _shape(self, name: str, tip: str, **attributes: object) -> None:
        inside = f"><title>{_clean(tip)}</title></{name}>" if tip else "/>"
        self._parts.append(f"<{name}{_attributes(attributes)}{inside}")


def _attributes(values: dict[str, object]) -> str:
    return "".join(
        f" {name.replace('_', '-')}={quoteattr(_value(value))}" for name, value in values.items()
    )


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _clean(text: str) -> str:
    # XML cannot hold most control characters, nor half of a surrogate pair, not even
    # escaped; a file name can.
    return escape(
        "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    )
