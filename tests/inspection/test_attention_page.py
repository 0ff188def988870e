"""The HTML page of attention maps: self-contained, well-formed and escaped; its script decodes the embedded weights."""

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
from test_attention_maps import random_map

from forebear.inspection.attention import MAX_LEGIBLE_TOKENS, AttentionMap, attention_rollout, attention_view
from forebear.inspection.attention_visualization import attention_page

HOSTILE_TEXT = "</script><script>alert(1)</script>"


class PageParser(HTMLParser):
    """Fails on tags that are not closed in order, on event handlers and on external resources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open_tags: list[str] = []
        self.tags: list[str] = []
        self.json_text = ""
        self.feed(text)
        assert self.open_tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open_tags.append(tag)
        self.is_json = ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open_tags[-1:] == ["script"] and self.is_json:
            self.json_text += data


def with_tokens(attention_map: AttentionMap, tokens: tuple[str, ...]) -> AttentionMap:
    return AttentionMap(
        attention_map.weights, tokens, tokens, attention_map.kind, attention_map.name, attention_map.text_starts
    )


def test_attention_page_embeds_all_weights_and_escapes_hostile_tokens():
    attention_map = with_tokens(random_map(kind="masked"), (HOSTILE_TEXT, "<b>", "&amp;", "我", "\ud800"))
    page = attention_page([(attention_view(attention_map, 2, 1), None)], f"run: “{HOSTILE_TEXT}”")
    page.encode()
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    parser = PageParser(page)
    assert parser.tags.count("script") == 2
    (data,) = json.loads(parser.json_text)
    assert data["rows"][:4] == list(attention_map.rows[:4])
    assert data["start"] == {"layer": 2, "head": 1}
    for key, expected in (
        ("weights", attention_map.weights),
        ("rollout", np.stack([attention_rollout(attention_map, n) for n in (1, 2, 3)])),
    ):
        decoded = np.frombuffer(base64.b64decode(data[key]), "<u2").reshape(expected.shape) / 65535
        np.testing.assert_allclose(decoded, expected, atol=1e-5)


def test_attention_page_of_long_text_embeds_only_the_strongest_edges():
    attention_map = random_map(2, 2, MAX_LEGIBLE_TOKENS + 1)
    (data,) = json.loads(PageParser(attention_page([(attention_view(attention_map), 5)], "run")).json_text)
    assert "weights" not in data
    heads = {(layer, head) for layer, head, *_ in data["edges"]}
    assert heads == {(layer, head) for layer in (1, 2) for head in (1, 2, "mean", "roll-out")}
    assert len(data["edges"]) == 5 * len(heads)
    layer, head, row, column, weight = data["edges"][0]
    assert attention_map.weights[layer - 1, head - 1, row, column] == pytest.approx(weight, abs=1e-4)


@pytest.mark.parametrize(("kind", "shape"), [("self", (4, 4)), ("masked", (4, 4)), ("cross", (3, 6))])
def test_attention_page_script_draws_every_weight_in_a_browser(kind: str, shape: tuple[int, int], tmp_path: Path):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("chromium is not installed")
    attention_map = random_map(2, 3, *shape, kind=kind)
    file = tmp_path / "page.html"
    file.write_text(attention_page([(attention_view(attention_map, 2, 3), None)], "run"), encoding="utf-8")
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    result = subprocess.run([*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=90)
    body = result.stdout.partition('class="map"')[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", body)
    expected = [f"{weight:.2f}".removeprefix("0") if visible else "" for weight, visible in zip(
        attention_map.weights[1, 2].ravel(), attention_map.visible_mask.ravel(), strict=True)]  # fmt: skip
    assert cells == expected
    assert result.stdout.count("<canvas") == 6
    assert ("to write each ↓" if kind == "cross" else "each ↓ looks at") in body
    assert f"{attention_map.weights[1, 2].max():.2f}: the strongest here" in result.stdout
    row = 3 if kind == "masked" else 1
    strongest = int(attention_map.weights[1, 2, row].argmax())
    assert f"a{row} ({row + 1}) looks at {attention_map.columns[strongest]} ({strongest + 1})" in result.stdout
