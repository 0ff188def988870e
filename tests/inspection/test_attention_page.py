"""The page of attention: whole, closed, escaped; its script finds the weights that were put into it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from test_maps import drawn

from forebear.inspection.attention import MAX_LEGIBLE_TOKENS, AttentionMap, attention_rollout, attention_view
from forebear.inspection.attention_plots import attention_page

NASTY = "</script><script>alert(1)</script>"


class Reader(HTMLParser):
    """Complains where tags are not closed in order, and of what would be fetched."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.data = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)
        self.is_data = ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"] and self.is_data:
            self.data += data


def with_names(found: AttentionMap, names: tuple[str, ...]) -> AttentionMap:
    return AttentionMap(found.weights, names, names, found.kind, found.name, found.text_starts)


def test_the_page_holds_all_weights_and_no_markup_of_others():
    found = with_names(drawn(kind="masked"), (NASTY, "<b>", "&amp;", "我", "\ud800"))
    made = attention_page([(attention_view(found, 2, 1), None)], f"run: “{NASTY}”")
    made.encode()
    assert "http" not in made.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in made
    reader = Reader(made)
    assert reader.seen.count("script") == 2
    (told,) = json.loads(reader.data)
    assert told["rows"][:4] == list(found.rows[:4])
    assert told["start"] == {"layer": 2, "head": 1}
    for key, wanted in (
        ("weights", found.weights),
        ("rollout", np.stack([attention_rollout(found, n) for n in (1, 2, 3)])),
    ):
        numbers = np.frombuffer(base64.b64decode(told[key]), "<u2").reshape(wanted.shape) / 65535
        np.testing.assert_allclose(numbers, wanted, atol=1e-5)


def test_long_texts_have_edges_only():
    found = drawn(2, 2, MAX_LEGIBLE_TOKENS + 1)
    (told,) = json.loads(Reader(attention_page([(attention_view(found), 5)], "run")).data)
    assert "weights" not in told
    heads = {(layer, head) for layer, head, *_ in told["edges"]}
    assert heads == {(layer, head) for layer in (1, 2) for head in (1, 2, "mean", "roll-out")}
    assert len(told["edges"]) == 5 * len(heads)
    layer, head, row, column, weight = told["edges"][0]
    assert found.weights[layer - 1, head - 1, row, column] == pytest.approx(weight, abs=1e-4)


@pytest.mark.parametrize(("kind", "shape"), [("self", (4, 4)), ("masked", (4, 4)), ("cross", (3, 6))])
def test_a_browser_draws_it(kind: str, shape: tuple[int, int], tmp_path: Path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no chromium is installed here")
    found = drawn(2, 3, *shape, kind=kind)
    file = tmp_path / "page.html"
    file.write_text(attention_page([(attention_view(found, 2, 3), None)], "run"), encoding="utf-8")
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=90)
    body = done.stdout.partition('class="map"')[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", body)
    wanted = [f"{weight:.2f}".removeprefix("0") if may else "" for weight, may in zip(
        found.weights[1, 2].ravel(), found.visible_mask.ravel(), strict=True)]  # fmt: skip
    assert cells == wanted
    assert done.stdout.count("<canvas") == 6
    assert ("to write each ↓" if kind == "cross" else "each ↓ looks at") in body
    assert f"{found.weights[1, 2].max():.2f}: the strongest here" in done.stdout
    row = 3 if kind == "masked" else 1
    best = int(found.weights[1, 2, row].argmax())
    assert f"a{row} ({row + 1}) looks at {found.columns[best]} ({best + 1})" in done.stdout
