/* Parallel coordinates that can be brushed: drag along an axis to keep the configurations that pass there. */
"use strict";
/** data: axes (label, ticks), lines (at, texts), the best first. element: makes an element. Returns a section. */
function parallel(data, element) {
  const [WIDTH, LEFT, RIGHT, TOP, BOTTOM, INACTIVE, FIRST] = [960, 70, 900, 44, 330, 362, 8];
  const last = data.axes.length - 1;
  const across = (axis) => LEFT + (axis * (RIGHT - LEFT)) / last;
  const down = (place) => (place === null ? INACTIVE : BOTTOM - place * (BOTTOM - TOP));
  const ranges = data.axes.map(() => null); // brushed, from top to bottom
  const inactive = data.axes.map((_, axis) => data.lines.some((line) => line.at[axis] === null));

  /** From blue-green (the best) to yellow, by rank. */
  const colour = (rank) => `hsl(${265 - 200 * rank} 60% ${38 + 12 * rank}%)`;
  const chart = element("svg", { viewBox: `0 0 ${WIDTH} ${INACTIVE + 14}`, role: "img", "aria-label": `${data.metric} over all axes` });
  const runs = data.lines.map((line, rank) => {
    const path = line.at.map((place, axis) => `${axis ? "L" : "M"}${across(axis).toFixed(1)} ${down(place).toFixed(1)}`).join("");
    const text = data.axes.map((axis, k) => `${axis.label}: ${line.texts[k]}`).join("\n");
    const share = data.lines.length > 1 ? rank / (data.lines.length - 1) : 0;
    return element("path", { d: path, class: "run", stroke: colour(share) }, element("title", {}, text));
  });
  chart.append(...runs.slice().reverse()); // the best on top

  const brushes = data.axes.map((axis, k) => {
    const x = across(k);
    const right = k === last;
    chart.append(element("line", { x1: x, x2: x, y1: TOP, y2: inactive[k] ? INACTIVE : BOTTOM, class: "axis" }));
    chart.append(element("text", { x, y: k % 2 && data.axes.length > 7 ? 14 : 28, class: "middle" }, axis.label));
    const ticks = [...axis.ticks, ...(inactive[k] ? [[null, "–"]] : [])];
    for (const [place, text] of ticks)
      chart.append(element("text", { x: x + (right ? 7 : -7), y: down(place) + 4, class: right ? "" : "end" }, text));
    const brush = element("rect", { x: x - 8, y: 0, width: 16, height: 0, class: "brush" });
    const reach = element("rect", { x: x - 20, y: TOP - 12, width: 40, height: INACTIVE - TOP + 24, class: "reach" });
    const at = (event) => ((event.clientY - chart.getBoundingClientRect().top) * (INACTIVE + 14)) / chart.getBoundingClientRect().height;
    let from = null;
    reach.addEventListener("pointerdown", (event) => {
      from = at(event);
      reach.setPointerCapture(event.pointerId);
    });
    reach.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = at(event);
      ranges[k] = Math.abs(to - from) < 4 ? null : [Math.min(from, to), Math.max(from, to)];
      show();
    });
    reach.addEventListener("pointerup", (event) => {
      if (Math.abs(at(event) - from) < 4) ranges[k] = null; // a click takes the brush away
      from = null;
      show();
    });
    chart.append(brush, reach);
    return brush;
  });

  const words = element("p", { "aria-live": "polite" });
  const table = element("table");
  const clear = element("button", { type: "button", click: () => { ranges.fill(null); show(); } }, "Show all");

  function show() {
    const chosen = data.lines.map((line) => ranges.every((range, k) => !range || (down(line.at[k]) >= range[0] && down(line.at[k]) <= range[1])));
    const places = chosen.map((inside, rank) => (inside ? rank : -1)).filter((rank) => rank >= 0);
    const first = new Set(places.slice(0, FIRST));
    runs.forEach((run, rank) => run.setAttribute("class", `run${chosen[rank] ? "" : " out"}${first.has(rank) ? " first" : ""}`));
    ranges.forEach((range, k) => {
      brushes[k].setAttribute("y", range ? range[0] : 0);
      brushes[k].setAttribute("height", range ? range[1] - range[0] : 0);
    });
    clear.hidden = ranges.every((range) => range === null);
    words.textContent = clear.hidden
      ? "Drag along an axis to keep the configurations that pass there. Thick: the best of them."
      : `${places.length} of ${data.lines.length} configurations; the best of them:`;
    const rows = [...first].map((rank) => element("tr", {}, ...data.lines[rank].texts.map((text) => element("td", { class: "number" }, text))));
    const heads = element("tr", {}, ...data.axes.map((axis) => element("th", {}, axis.label)));
    table.replaceChildren(element("thead", {}, heads), element("tbody", {}, ...rows));
    table.hidden = clear.hidden;
  }

  show();
  const section = element("section", { class: "explore parallel", "aria-label": `Explore ${data.metric} over all axes` });
  section.append(element("h2", {}, `Explore: ${data.metric} over all axes`), element("div", { class: "controls" }, words, clear));
  section.append(chart, element("div", { class: "scroll" }, table));
  return section;
}
