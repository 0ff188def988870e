// The page is whole without this: it only lets columns be sorted and a milestone be picked out of the plot.
const table = document.querySelector("table"), body = table.tBodies[0];
table.querySelectorAll("thead th").forEach((head, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[column]?.dataset.value ?? "";
    const order = (one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === "" || b === "") return (a === "") - (b === "");
      const difference = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
      return down ? -difference : difference;
    };
    body.append(...[...body.rows].sort(order));
  });
});
const pick = (number) => {
  document.body.classList.toggle("chosen", number !== undefined);
  document.querySelectorAll("svg .picked").forEach((part) => part.classList.remove("picked"));
  if (number !== undefined) document.querySelectorAll(`svg .m${number}`).forEach((part) => part.classList.add("picked"));
};
document.querySelectorAll("[data-row]").forEach((part) => {
  part.addEventListener("pointerenter", () => pick(part.dataset.row));
  part.addEventListener("pointerleave", () => pick());
});
