// Fills each section's empty part: a chooser of layer and head, the tokens, the map, and all maps small.
const made = (tag, more = {}, ...inside) => {
  const node = Object.assign(document.createElement(tag), more);
  node.append(...inside);
  return node;
};
const unpacked = (text) => {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0)), view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, at) => view.getUint16(2 * at, true) / 65535);
};
const STRONG = 0.75, NUMBERED = 16; // of the strongest colour, from where letters are turned; tokens with room for numbers

function weightsOf(map) {
  // (layer, head) → the n · m weights of that map; what is not listed of a long text is taken for nothing
  const n = map.rows.length, m = map.columns.length, size = n * m;
  if (map.edges) {
    const found = {};
    for (const [layer, head, row, column, weight] of map.edges) {
      (found[`${layer} ${head}`] ??= []).push([row, column, weight]);
    }
    return (layer, head) => {
      const all = new Float32Array(size);
      for (const [row, column, weight] of found[`${layer} ${head}`] ?? []) all[row * m + column] = weight;
      return all;
    };
  }
  const all = unpacked(map.weights), rolled = map.rollout && unpacked(map.rollout);
  return (layer, head) => {
    const begin = (layer - 1) * map.heads * size;
    if (head === "roll-out") return rolled.subarray((layer - 1) * size, layer * size);
    if (head !== "mean") return all.subarray(begin + (head - 1) * size, begin + head * size);
    const mean = new Float32Array(size);
    for (let at = 0; at < map.heads * size; at++) mean[at % size] += all[begin + at] / map.heads;
    return mean;
  };
}

function live(section, map) {
  const place = section.querySelector(".live"), weights = weightsOf(map), m = map.columns.length;
  const seen = (row, column) => map.kind !== "masked" || column <= row;
  const numbers = (count) => Array.from({ length: count }, (_, at) => String(at + 1));
  const heads = [...numbers(map.heads), "mean", ...(map.kind === "cross" ? [] : ["roll-out"])];
  const chooser = (name, options, value) => {
    const select = made("select", {}, ...options.map((one) => made("option", { value: one, textContent: one })));
    select.value = String(value);
    select.addEventListener("change", show);
    return [made("label", {}, `${name} `, select), select];
  };
  const [layerLabel, layer] = chooser("layer", numbers(map.layers), map.start.layer);
  const [headLabel, head] = chooser("head", heads, map.start.head);
  // what rows and columns are, and what the strongest colour means
  const corner = made("th", { className: "corner" }), strongest = made("span");
  const scale = made("p", { className: "scale" }, "0", made("i"), strongest);
  const says = made("p", { className: "says" }), body = made("div", { className: "parts" });
  says.setAttribute("aria-live", "polite");
  const tokens = (names, looks) => {
    const line = made("div", { className: "tokens" });
    names.forEach((name, at) => {
      if (map.borders.includes(at) && map.kind !== "cross") line.append(made("span", { className: "border", textContent: "│" }));
      const button = made("button", { type: "button", textContent: name });
      if (looks) for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, () => look(at));
      line.append(button);
    });
    return line;
  };
  const apart = map.kind === "cross", from = tokens(map.rows, true), to = apart ? tokens(map.columns, false) : from;
  let now, cells = [], names = [[], []], most = 1, looking = map.kind === "masked" ? map.rows.length - 1 : Math.min(1, map.rows.length - 1);

  function look(row, column) {
    looking = row;
    [...from.querySelectorAll("button")].forEach((one, at) => one.classList.toggle("looks", at === row));
    let best = 0;
    [...to.querySelectorAll("button")].forEach((one, at) => {
      const weight = now[row * m + at];
      if (weight > now[row * m + best]) best = at;
      const share = map.edges ? weight / most : weight;
      one.style.setProperty("--s", share);
      one.classList.toggle("strong", share > STRONG);
      one.classList.toggle("unseen", !seen(row, at));
      one.title = weight.toFixed(3);
    });
    const at = column ?? best;
    const nothing = map.edges && !now[row * m + at];
    says.textContent = nothing ? `no edge of ${map.rows[row]} (${row + 1}) is among the strongest` : `${map.rows[row]} (${row + 1}) ${head.value === "roll-out" ? "has of" : "looks at"} ${map.columns[at]} (${at + 1}): ${now[row * m + at].toFixed(3)}`
      + (column === undefined ? ", most of all" : "");
    for (const one of place.querySelectorAll(".map .lit")) one.classList.remove("lit");
    names[0][row]?.classList.add("lit");
    names[1][at]?.classList.add("lit");
    cells[row]?.[at]?.classList.add("lit");
  }

  function table() {
    const line = made("tr", {}, corner);
    names = [[], map.columns.map((name) => made("th", { textContent: name }))];
    line.append(...names[1]);
    cells = map.rows.map(() => []);
    const rows = map.rows.map((name, row) => {
      names[0][row] = made("th", { textContent: name });
      names[0][row].addEventListener("pointerenter", () => look(row));
      const inside = map.columns.map((_, column) => {
        const cell = cells[row][column] = made("td", { className: seen(row, column) ? "" : "unseen" });
        if (seen(row, column)) cell.addEventListener("pointerenter", () => look(row, column));
        return cell;
      });
      return made("tr", {}, names[0][row], ...inside);
    });
    if (!apart) for (const border of map.borders) {
      rows[border].classList.add("begins");
      [line, ...rows].forEach((one) => one.children[border].classList.add("ends"));
    }
    const whole = made("table", { className: "map" }, made("thead", {}, line), made("tbody", {}, ...rows));
    whole.style.setProperty("--cell", m <= NUMBERED ? "2.3em" : m <= 2 * NUMBERED ? "1.5em" : "1em");
    return made("div", { className: "frame" }, whole, scale);
  }

  function list() {
    const pairs = [...now].map((weight, at) => [weight, Math.floor(at / m), at % m]).filter(([weight]) => weight > 0);
    pairs.sort((one, other) => other[0] - one[0]);
    const rows = pairs.map(([weight, row, column]) => {
      const line = made("tr", {}, ...[`${row + 1} ${map.rows[row]}`, `${map.columns[column]} ${column + 1}`, weight.toFixed(3)]
        .map((text) => made("td", { textContent: text })));
      line.addEventListener("pointerenter", () => look(row, column));
      return line;
    });
    const head = made("tr", {}, ...["token", "looks at", "weight"].map((text) => made("th", { textContent: text })));
    return made("div", { className: "frame" }, made("table", { className: "edges" }, made("thead", {}, head), made("tbody", {}, ...rows)));
  }

  const small = [];
  function overview() {
    const all = made("div", { className: "all" }), wide = Math.max(26, Math.min(110, 560 / map.heads));
    all.style.gridTemplateColumns = `max-content repeat(${map.heads}, ${wide}px)`;
    all.append(made("span"), ...numbers(map.heads).map((one) => made("span", { textContent: one })));
    for (const one of numbers(map.layers)) {
      all.append(made("span", { textContent: one }));
      for (const other of numbers(map.heads)) {
        const canvas = made("canvas", { width: m, height: map.rows.length });
        const button = made("button", { type: "button", title: `layer ${one}, head ${other}` }, canvas);
        button.setAttribute("aria-label", `layer ${one}, head ${other}`);
        button.addEventListener("click", () => { layer.value = one; head.value = other; show(); });
        small.push({ canvas, button, layer: one, head: other });
        all.append(button);
      }
    }
    return made("div", {}, made("p", { className: "about", textContent: "all layers (down) and heads (across)" }), all);
  }
  function paint() {
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--heat").trim().split(" ").map(Number);
    for (const one of small) {
      const picture = one.canvas.getContext("2d").createImageData(m, map.rows.length);
      weights(one.layer, one.head).forEach((weight, at) => {
        if (seen(Math.floor(at / m), at % m)) picture.data.set([...colour, Math.round(16 + 239 * weight)], 4 * at);
      });
      one.canvas.getContext("2d").putImageData(picture, 0, 0);
    }
  }

  function show() {
    now = weights(layer.value, head.value);
    most = now.reduce((one, other) => Math.max(one, other), 0);
    strongest.textContent = `${most.toFixed(2)}: the strongest here`;
    corner.textContent = head.value === "roll-out" ? "in each ↓ there is so much of these\u00a0→" : apart ? "to write each ↓ it looks at these\u00a0→" : "each ↓ looks at these\u00a0→";
    for (const one of small) one.button.setAttribute("aria-pressed", one.layer === layer.value && one.head === head.value);
    if (map.edges) {
      looking = Math.floor(now.indexOf(most) / m);
      body.replaceChildren(list());
    } else {
      cells.forEach((line, row) => line.forEach((cell, column) => {
        if (!seen(row, column)) return;
        const weight = now[row * m + column];
        cell.style.setProperty("--s", weight / most);
        cell.classList.toggle("strong", weight / most > STRONG);
        cell.title = `${map.rows[row]} → ${map.columns[column]} ${weight.toFixed(3)}`;
        if (m <= NUMBERED) cell.textContent = weight.toFixed(2).replace(/^0/, "");
      }));
    }
    look(looking);
  }

  place.append(made("div", { className: "choose" }, layerLabel, headLabel), from, ...(apart ? [to] : []), says, body);
  if (!map.edges) {
    body.append(table(), overview());
    paint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  }
  show();
}

JSON.parse(document.getElementById("maps").textContent).forEach((map, number) => {
  live(document.querySelector(`[data-map="${number}"]`), map);
});
