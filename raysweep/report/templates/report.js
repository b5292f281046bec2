/* Makes a report explorable. Without it the page is complete; what it adds is drawn from the data beside each part. */
"use strict";
(() => {
  // The name space of SVG, asked of the browser, so that the page contains no address at all.
  const template = document.createElement("template");
  template.innerHTML = "<svg></svg>";
  const SVG = template.content.firstChild.namespaceURI;
  const SHAPES = new Set(["svg", "g", "path", "circle", "line", "rect", "text", "title"]);

  /** An element with attributes (a function is a listener) and children (text or elements). */
  function element(name, attributes = {}, ...children) {
    const made = SHAPES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(key, value);
      else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== ""));
    return made;
  }

  function download(name, text, type) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = element("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  // ---- scales -------------------------------------------------------------------------------------------------------

  function written(value) {
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential().replace("e+", "e");
    return String(Number(value.toPrecision(6)));
  }

  function logarithmicTicks(low, high) {
    const digits = high / low < 100 ? [1, 2, 5] : [1];
    const every = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
      for (const digit of digits) every.push(Number(`${digit}e${power}`));
    const inside = every.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    const step = Math.ceil(inside.length / 7);
    return inside.filter((_, place) => place % step === 0);
  }

  function linearTicks(low, high) {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
    const ticks = [];
    for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) ticks.push(Math.abs(tick) < step / 1e6 ? 0 : tick);
    return ticks;
  }

  /**
   * The scale of an axis: `place` maps a value to a position between `from` and `to`.
   * kind: "log", "linear" or "asinh" (linear below `width`, for values that span decades on both sides of zero).
   */
  function scaleOf(values, kind, from, to, width) {
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (!(high > low)) [low, high] = kind === "log" ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    const forms = { log: Math.log, linear: (value) => value, asinh: (value) => Math.asinh(value / width) };
    const form = forms[kind];
    const margin = 0.05 * (form(high) - form(low));
    const [first, last] = [form(low) - margin, form(high) + margin];
    const place = (value) => from + ((form(value) - first) / (last - first)) * (to - from);
    let ticks = kind === "log" ? logarithmicTicks(low, high) : linearTicks(low, high);
    if (kind === "asinh") {
      const sizes = [];
      for (let size = 10 ** Math.ceil(Math.log10(width)); size <= Math.max(-low, high); size *= 10) sizes.push(size);
      ticks = [...sizes.map((size) => -size), 0, ...sizes].filter((tick) => tick >= low && tick <= high);
    }
    return { place, ticks };
  }

  // ---- charts -------------------------------------------------------------------------------------------------------

  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [520, 340, 66, 504, 14, 288];
  const known = (value) => value !== null && value !== undefined;

  function line(points, name) {
    const path = points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    return element("path", { d: path, class: name });
  }

  function frame(x, y, xLabel, yLabel, label) {
    const chart = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": label });
    for (const { at, text } of y.ticks) {
      chart.append(element("line", { x1: LEFT, x2: RIGHT, y1: at, y2: at, class: "grid" }));
      chart.append(element("text", { x: LEFT - 6, y: at + 4, class: "end" }, text));
    }
    for (const { at, text } of x.ticks) {
      chart.append(element("line", { x1: at, x2: at, y1: BOTTOM, y2: BOTTOM + 5, class: "axis" }));
      chart.append(element("text", { x: at, y: BOTTOM + 19, class: "middle" }, text));
    }
    chart.append(element("path", { d: `M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}`, class: "axis" }));
    chart.append(element("text", { x: (LEFT + RIGHT) / 2, y: HEIGHT - 8, class: "middle" }, xLabel));
    const middle = (TOP + BOTTOM) / 2;
    chart.append(element("text", { x: 13, y: middle, class: "middle", transform: `rotate(-90 13 ${middle})` }, yLabel));
    return chart;
  }

  const marked = (scale, show = written) => scale.ticks.map((tick) => ({ at: scale.place(tick), text: show(tick) }));

  /** The axis over which curves run: numbers with infinity beside them, or categories. */
  function curveAxis(data, setting) {
    const every = data.settings.flatMap((each) => each.x).filter(known);
    if (setting.place) every.push(...setting.place.slice(1).filter(known));
    const infinite = setting.x.includes(null);
    const none = data.log && setting.x.includes(0); // 0 has no logarithm
    const [begin, end] = [none ? LEFT + 40 : LEFT, infinite ? RIGHT - 40 : RIGHT];
    const inside = every.filter((value) => !data.log || value > 0);
    const scale = scaleOf(inside.length ? inside : [1], data.log ? "log" : "linear", begin, end, 0);
    let ticks = marked(scale);
    if (data.categories.length) ticks = data.categories.map((text, place) => ({ at: scale.place(place), text }));
    if (infinite) ticks.push({ at: RIGHT - 14, text: "∞" });
    if (none) ticks.push({ at: LEFT + 14, text: "0" });
    const apart = (value) => !known(value) || (none && value === 0);
    return { place: (value) => (!apart(value) ? scale.place(value) : known(value) ? LEFT + 14 : RIGHT - 14), apart, ticks };
  }

  /** The curve of one setting: mean, error bars, every seed, theory, and the fitted place with its interval. */
  function curveChart(data, setting) {
    const x = curveAxis(data, setting);
    const values = [setting.mean, setting.low, setting.high, ...setting.draws, setting.theory[1]].flat().filter(known);
    const kind = !data.width ? "linear" : Math.min(...values) > 0 ? "log" : "asinh";
    const y = scaleOf(values, kind, BOTTOM, TOP, data.width);
    const label = `${data.name} over ${data.x}${setting.said ? `, ${setting.said}` : ""}`;
    const chart = frame(x, { ticks: marked(y) }, data.x, data.metric, label);
    if (Math.min(...values) < 0 && Math.max(...values) > 0)
      chart.append(line([[LEFT, y.place(0)], [RIGHT, y.place(0)]], "zero"));
    if (setting.located) {
      const [at, low, high, theory] = setting.place.map((value) => (known(value) ? x.place(value) : null));
      const [first, last] = [known(low) ? low : LEFT, known(high) ? high : RIGHT];
      chart.append(element("rect", { x: first, y: TOP, width: Math.max(last - first, 1), height: BOTTOM - TOP, class: "band" }));
      chart.append(line([[at, TOP], [at, BOTTOM]], "fitted"));
      if (known(theory)) chart.append(line([[theory, TOP], [theory, BOTTOM]], "theory"));
    }
    const joined = (numbers, places, name) => {
      const points = numbers.map((value, k) => [value, places[k]]).filter(([value, at]) => !x.apart(value) && known(at));
      return line(points.map(([value, at]) => [x.place(at), y.place(value)]), name);
    };
    setting.draws.forEach((draw, k) => {
      const drawn = data.categories.length ? element("g", { class: "seed" }) : element("g", { class: "seed" }, joined(draw, setting.x, ""));
      if (data.categories.length || setting.x.length < 2 || setting.x.some(x.apart))
        draw.forEach((value, place) => known(value) && drawn.append(element("circle", { cx: x.place(setting.x[place]), cy: y.place(value), r: 1.6 })));
      drawn.append(element("title", {}, `seed ${setting.seeds[k]}`));
      chart.append(drawn);
    });
    chart.append(joined(setting.theory[1], setting.theory[0], "theory"));
    if (!data.categories.length) chart.append(joined(setting.mean, setting.x, "mean"));
    setting.mean.forEach((mean, k) => {
      const at = x.place(setting.x[k]);
      chart.append(line([[at, y.place(setting.low[k])], [at, y.place(setting.high[k])]], "error"));
      const where = known(setting.x[k]) ? data.categories[setting.x[k]] ?? written(setting.x[k]) : "∞";
      const text = `${where}: ${written(mean)} [${written(setting.low[k])}, ${written(setting.high[k])}]`;
      chart.append(element("circle", { cx: at, cy: y.place(mean), r: 3, class: "point" }, element("title", {}, text)));
    });
    return chart;
  }

  /** The fitted places of one slice over one key. `choose` is called with the setting that is pointed at. */
  function placesChart(data, slice, along, choose) {
    const key = data.keys[along];
    const every = data.settings.flatMap((each) => (each.located ? each.place : [])).filter(known);
    const x = scaleOf(data.settings.map((each) => each.at[along]).filter(known), key.log ? "log" : "linear", LEFT + 6, RIGHT, 0);
    const own = [...new Set(data.settings.map((setting) => setting.at[along]).filter(known))];
    if (own.length <= 6) x.ticks = own; // a few values, such as layers: there is no half layer
    const tried = data.settings.flatMap((each) => each.x).filter((value) => known(value) && !(data.log && value === 0));
    const y = scaleOf(every.length ? every : tried, data.log ? "log" : "linear", BOTTOM - 22, TOP, 0);
    const chart = frame({ ticks: marked(x) }, { ticks: marked(y) }, key.label, `${data.x}`, `${data.what}, over ${key.label}`);
    const at = (setting) => x.place(setting.at[along]);
    const found = slice.filter((setting) => setting.located);
    const expected = slice.filter((setting) => known(setting.place[3]));
    chart.append(line(expected.map((setting) => [at(setting), y.place(setting.place[3])]), "theory"));
    expected.forEach((setting) => chart.append(element("circle", { cx: at(setting), cy: y.place(setting.place[3]), r: 2, class: "theory" })));
    chart.append(line(found.map((setting) => [at(setting), y.place(setting.place[0])]), "mean"));
    slice.forEach((setting, place) => {
      const height = setting.located ? y.place(setting.place[0]) : BOTTOM - 8;
      const point = element("g", {
        class: "target", role: "button", tabindex: -1, "aria-pressed": "false",
        "aria-label": `${setting.said}. ${setting.lines[0]}`,
        mouseenter: () => choose(setting), focus: () => choose(setting), click: () => choose(setting),
        keydown: (event) => {
          const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          const points = [...chart.querySelectorAll(".target")];
          points[Math.min(Math.max(place + step, 0), points.length - 1)].focus();
        },
      });
      point.setting = setting;
      if (setting.located) {
        const [low, high] = [setting.place[1], setting.place[2]].map((end, k) => (known(end) ? y.place(end) : k ? TOP : BOTTOM));
        point.append(line([[at(setting), low], [at(setting), high]], "error"));
      } else
        point.append(element("path", { d: `M${at(setting) - 4} ${height - 4}l8 8m0 -8l-8 8`, class: "cross" }));
      point.append(element("circle", { cx: at(setting), cy: height, r: setting.located ? 5 : 9, class: setting.located ? "point" : "reach" }));
      chart.append(point);
    });
    return chart;
  }

  // ---- one explorer -------------------------------------------------------------------------------------------------

  function explorer(data) {
    const many = data.settings.length > 1;
    const numbers = data.keys.flatMap((key, place) => (key.number ? [place] : []));
    const withPlaces = many && data.along >= 0 && data.settings.some((setting) => setting.place);
    let along = data.along;
    let chosen = data.settings.find((setting) => setting.located) || data.settings[data.settings.length >> 1];
    const [places, curve] = [element("div"), element("div")];
    const panel = element("div", { class: "panel", "aria-live": "polite" });
    const selects = data.keys.map((key, place) => {
      const values = [...new Set(data.settings.map((setting) => setting.values[place]))];
      if (key.number) values.sort((a, b) => data.settings.find((s) => s.values[place] === a).at[place] - data.settings.find((s) => s.values[place] === b).at[place]);
      return values.length < 2 ? null : element("select", { change: (event) => choose(nearest(place, event.target.value)) }, ...values.map((value) => element("option", {}, value)));
    });

    /** The setting with this value of a key that shares most other values with the chosen one (not all need be there). */
    function nearest(place, value) {
      const shared = (setting) => setting.values.filter((own, k) => own === chosen.values[k]).length;
      return data.settings.filter((setting) => setting.values[place] === value).reduce((best, one) => (shared(one) > shared(best) ? one : best));
    }

    const sliceOf = (setting) => setting.values.filter((_, place) => place !== along).join("\n");
    function drawPlaces() {
      const slice = data.settings.filter((setting) => setting.place && sliceOf(setting) === sliceOf(chosen) && known(setting.at[along]));
      places.replaceChildren(placesChart(data, slice.sort((a, b) => a.at[along] - b.at[along]), along, choose));
      places.slice = sliceOf(chosen);
    }

    function choose(setting) {
      chosen = setting;
      selects.forEach((select, place) => select && (select.value = chosen.values[place]));
      if (withPlaces && places.slice !== sliceOf(chosen)) drawPlaces();
      places.querySelectorAll(".target").forEach((point) => {
        const pressed = point.setting === chosen;
        point.setAttribute("aria-pressed", pressed);
        point.setAttribute("tabindex", pressed ? 0 : -1);
      });
      curve.replaceChildren(curveChart(data, chosen));
      const lines = [chosen.said ? element("strong", {}, `${chosen.said}. `) : "", (chosen.lines || []).join(" ")];
      const cell = chosen.cell && sweep ? [element("p", {}, "One of its cells again, with its log: ", element("code", {}, `raysweep debug ${sweep} ${chosen.cell}`))] : [];
      const medians = chosen.median ? [element("p", {}, "Points are medians, because draws have no variance.")] : [];
      panel.replaceChildren(element("p", {}, ...lines), ...medians, ...cell);
    }

    const box = element("section", { class: "explore", "aria-label": `Explore ${data.what || `${data.name} over ${data.x}`}` });
    const toggle = (name, text) => element("label", {}, element("input", { type: "checkbox", checked: true, change: (event) => box.classList.toggle(`no-${name}`, !event.target.checked) }), ` ${text}`);
    const controls = selects.map((select, place) => select && element("label", {}, `${data.keys[place].label} `, select));
    if (withPlaces && numbers.length > 1) {
      const over = element("select", { class: "over", change: (event) => { along = Number(event.target.value); drawPlaces(); choose(chosen); } }, ...numbers.map((place) => element("option", { value: place, selected: place === along }, data.keys[place].label)));
      controls.push(element("label", {}, "places over ", over));
    }
    if (data.settings.some((setting) => setting.theory[0].length)) controls.push(toggle("theory", "theory"));
    if (data.settings.some((setting) => setting.seeds.length > 1)) controls.push(toggle("seeds", "seeds"), toggle("bands", "intervals"));
    box.append(element("h2", {}, `Explore: ${data.what || `${data.name} over ${data.x}`}`));
    box.append(element("div", { class: "controls" }, ...controls.filter(Boolean)));
    box.append(element("div", { class: "charts" }, ...(withPlaces ? [places] : []), curve), panel);
    choose(chosen);
    return box;
  }

  // ---- tables -------------------------------------------------------------------------------------------------------

  /** The number that a cell begins with ("below 0.25", "1.90 [1.78, 2.04]", "10,041"), or null. */
  function numberOf(text) {
    if (/^[-−]?∞/.test(text)) return text.startsWith("∞") ? Infinity : -Infinity;
    const found = /^(?:above |below |any |up to |± )*([-−+]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?)/i.exec(text);
    return found ? Number(found[1].replace(/,/g, "").replace("−", "-")) : null;
  }

  function sortable(table, name) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const sort = () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => ({ row, text: row.cells[column].textContent.trim() }));
        const filled = rows.filter(({ text }) => text !== "–" && text !== "");
        const numeric = filled.filter(({ text }) => numberOf(text) !== null).length > filled.length / 2;
        const value = ({ text }) => (numeric ? numberOf(text) : text === "–" || text === "" ? null : text);
        rows.sort((a, b) => {
          const [one, other] = [value(a), value(b)];
          if (one === null || other === null) return (one === null) - (other === null); // what has no value stays last
          return (up ? 1 : -1) * (numeric ? (one === other ? 0 : one - other) : one.localeCompare(other));
        });
        body.append(...rows.map(({ row }) => row));
      };
      head.replaceChildren(element("button", { type: "button", click: sort }, ...head.childNodes));
    });
    if (table.closest("article")) return; // the table in full stands below
    const quoted = (cell) => (/[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
    const text = () => [...table.rows].map((row) => [...row.cells].map((cell) => quoted(cell.textContent.replaceAll("\u00a0", " ").replaceAll("\u2060", "").trim())).join(",") + "\n").join("");
    const button = element("button", { type: "button", class: "csv", click: () => download(`${name}.csv`, text(), "text/csv") }, "Download this table (CSV)");
    (table.closest(".scroll") || table).after(element("p", { class: "controls" }, button));
  }

  // ---- the page -----------------------------------------------------------------------------------------------------

  const sweep = document.body.dataset.sweep;
  document.querySelectorAll("table").forEach((table) => sortable(table, table.dataset.name || sweep || "table"));
  for (const part of document.querySelectorAll("details")) {
    const waiting = [...part.querySelectorAll("script.explored")];
    // Drawn when it is first opened: a large report has thousands of curves.
    const draw = () => part.open && waiting.splice(0).reverse().forEach((one) => {
      const data = JSON.parse(one.textContent);
      for (const setting of data.settings) setting.theory[0] = data.grids[setting.theory[0]];
      const drawn = data.form === "parallel" ? parallel(data, element) : data.settings.length && explorer(data);
      if (drawn) part.querySelector("summary + div").prepend(drawn);
    });
    part.addEventListener("toggle", draw);
    draw();
    const figure = document.getElementById("figure");
    if (waiting.length && figure && figure.dataset.about === part.querySelector("summary + div").id) {
      const open = () => { part.open = true; draw(); part.scrollIntoView(); part.querySelector(".explore select, .explore input, summary").focus(); };
      figure.append(element("p", { class: "controls" }, element("button", { type: "button", click: open }, "Explore this figure")));
    }
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
})();
