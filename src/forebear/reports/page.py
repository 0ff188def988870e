"""Self-contained HTML pages: the document around their content, tables and asset files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files


def html_page(title: str, main: str, style: str, scripts: str = "") -> str:
    """A page without network access; `main` is the content and `scripts` the script elements after it, both HTML."""
    policy = "default-src 'none'; style-src 'unsafe-inline'" + ("; script-src 'unsafe-inline'" if scripts else "")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{main}</main>{scripts}</body></html>\n"
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # names may hold characters that UTF-8 cannot encode


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], css_class: str = "") -> str:
    """A table of HTML cells; columns whose name starts with "#" hold numbers."""

    def row_html(tag: str, cells: Iterable[str]) -> str:
        attributes = (' class="number"' if name.startswith("#") else "" for name in columns)
        pairs = zip(attributes, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{attribute}>{cell}</{tag}>' for attribute, cell in pairs)}</tr>"

    class_attribute = f' class="{css_class}"' if css_class else ""
    head = row_html("th", (name.removeprefix("#") for name in columns))
    body = "".join(row_html("td", row) for row in rows)
    return f"<table{class_attribute}><thead>{head}</thead><tbody>{body}</tbody></table>"


def read_assets(package: str, *names: str) -> str:
    """The joined contents of these files of a package."""
    return "".join(files(package).joinpath(name).read_text("utf-8") for name in names)
