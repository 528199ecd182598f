"use strict";
// Draws the charts of a report from the JSON of the page. Only plotly is used, and nothing is loaded.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const CONFIG = {
    responsive: true, displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  // The width of an A4 page within its margins, as page.css has them; a chart takes half a page at most, so that no more
  // than that stays empty before one.
  const PRINTED_PX = 700, PRINTED_MOST_PX = 500;
  const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

  const unpack = (column) => {
    const bytes = Uint8Array.from(atob(column.data), (letter) => letter.charCodeAt(0));
    return Array.from(new KINDS[column.kind](bytes.buffer), (value) => value - 1);
  };
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const group = (number) => Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, "\u00a0");
  const element = (id) => document.getElementById(id);

  // ---- charts follow the theme: paper, ink, and colours as dark as the paper; all other colours are the same in both
  const DARK = {
    "#ffffff": "#16181b", "rgba(255,255,255,0.8)": "rgba(22,24,27,0.8)", "#e5e5e5": "#3a3f45",
    "#202020": "#e6e6e6", "#404040": "#d0d0d0", "#000000": "#f2f2f2", "#332288": "#9a8fe0", "#117733": "#2fae5f",
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  let printing = false;
  const recolour = (value) => {
    if (typeof value === "string") return DARK[value.toLowerCase()] || value;
    // Arrays of numbers contain no colours; a step of a colour scale is a number and a colour.
    if (Array.isArray(value)) return ["number", "undefined"].includes(typeof value.at(-1)) ? value : value.map(recolour);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, recolour(item)]));
  };
  // ?present: for a lecture, larger text and one section per screen. Plotly reserves room for the text that it draws.
  const presenting = new URLSearchParams(location.search).has("present");
  const LARGER = 1.35;
  if (presenting) document.documentElement.classList.add("present");
  const enlarged = (layout) => {
    const font = (some) => some && Object.assign({}, some, some.size && { size: some.size * LARGER });
    const { t, b } = layout.margin;
    const axes = Object.entries(layout).filter(([key, axis]) => /^[xy]axis/.test(key) && axis.tickfont);
    const letters = axes.map(([key, axis]) => [key, Object.assign({}, axis, { tickfont: font(axis.tickfont) })]);
    return Object.assign({}, layout, Object.fromEntries(letters), {
      height: layout.height * LARGER, font: font(layout.font),
      margin: Object.assign({}, layout.margin, { t: t * LARGER, b: b * LARGER }),
      annotations: (layout.annotations || []).map((one) => Object.assign({}, one, { font: font(one.font) })),
    });
  };
  const paint = (id) => {
    let [traces, layout] = drawn.get(id);
    if (presenting && !printing) layout = enlarged(layout);
    if (dark.matches && !printing) {
      [traces, layout] = [recolour(traces), recolour(layout)];
      for (const axis of Object.keys(layout).filter((key) => /^[xy]axis/.test(key)))
        layout[axis] = Object.assign({ gridcolor: DARK["#e5e5e5"] }, layout[axis]);
    }
    if (printing)
      layout = Object.assign({}, layout, { width: PRINTED_PX, height: Math.min(layout.height, PRINTED_MOST_PX) });
    // The element needs the chart's height; otherwise plotly resizes the chart to the element when the window changes.
    element(id).style.height = `${layout.height}px`;
    Plotly.react(id, traces, layout, CONFIG);
  };
  const paintAll = () => [...drawn.keys()].forEach(paint);
  dark.addEventListener("change", paintAll);
  const react = (id, traces, layout) => {
    drawn.set(id, [traces, layout]);
    paint(id);
  };

  // ---- Starting plotly takes a second: it is started when the browser is idle, or when the first chart is drawn. The page
  // contains the library as text, or its address.
  const library = element("plotly");
  let script = null;
  const withPlotly = (draw) => {
    if (!script) {
      script = document.createElement("script");
      if (library.dataset.src) script.src = library.dataset.src;
      else script.textContent = library.textContent;
      document.head.append(script);
    }
    if (window.Plotly) draw();
    else script.addEventListener("load", draw);
  };
  const whenIdle = window.requestIdleCallback || setTimeout;
  addEventListener("load", () => whenIdle(() => withPlotly(() => {})));

  // ---- a chart is drawn when it comes near the window; all charts are drawn before the page is printed
  const waiting = new Map();
  const drawNow = (id) => withPlotly(() => {
    const draw = waiting.get(id);
    waiting.delete(id);
    if (draw) draw();
  });
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      near.unobserve(entry.target);
      drawNow(entry.target.id);
    }
  }, { rootMargin: "300px" });
  const whenSeen = (id, height, draw) => {
    element(id).style.height = `${height}px`;
    waiting.set(id, draw);
    near.observe(element(id));
  };
  const drawAll = () => [...waiting.keys()].forEach(drawNow);
  addEventListener("draw-all", drawAll);
  addEventListener("beforeprint", () => {
    printing = true;
    drawAll();
    paintAll();
  });
  addEventListener("afterprint", () => {
    printing = false;
    paintAll();
  });

  for (const [id, figure] of Object.entries(page.figures))
    whenSeen(id, figure.layout.height, () => react(id, figure.data, figure.layout));

  // ---- memory: a chart of the selected memory
  if (page.memories.length) {
    const choice = element("memory-choice");
    const show = () => {
      const figure = page.memories[choice.value];
      react("memory-chart", figure.data, figure.layout);
    };
    choice.addEventListener("change", show);
    whenSeen("memory-chart", page.memories[0].layout.height, show);
  }

  // ---- tile map: cells coloured by the selected property
  if (page.tiles) {
    const tiles = page.tiles;
    for (const name of ["tile", "task", "iteration", "unit", "nbytes", "nram_bytes", "logged_unit", "logged_write"])
      tiles[name] = tiles[name] && unpack(tiles[name]);
    tiles.start = tiles.start.map(unpack);
    tiles.stop = tiles.stop.map(unpack);
    const across = tiles.columns.length - 1, down = tiles.rows.length - 1;
    const cells = (value) => Array.from({ length: down }, (_, row) =>
      Array.from({ length: across }, (_, column) => value(row * across + column)));
    const words = tiles.task.map((task, tile) => {
      const box = tiles.start.map((start, axis) => `${start[tile]}:${tiles.stop[axis][tile]}`).join(", ");
      return `<b>${escape(tiles.units[tiles.unit[tile]])}</b>, task ${task}<br>iteration ${tiles.iteration[tile]}<br>`
        + `box [${box}]<br>${group(tiles.nbytes[tile])} B of the output, ${group(tiles.nram_bytes[tile])} B of NRAM`;
    });
    const planned = cells((cell) => words[tiles.tile[cell]] || "no tile");
    const logged = tiles.logged_unit && cells((cell) => tiles.logged_unit[cell] < 0 ? "written by nobody"
      : `<b>${escape(tiles.units[tiles.logged_unit[cell]])}</b>, its write number ${tiles.logged_write[cell]}`);
    const known = (value) => (value === undefined || value < 0 ? null : value);
    const choices = {
      unit: [() => cells((cell) => known(tiles.unit[tiles.tile[cell]])), planned, "core", "cores"],
      iteration: [() => cells((cell) => known(tiles.iteration[tiles.tile[cell]])), planned, "iteration", "Cividis"],
      logged_unit: [() => cells((cell) => known(tiles.logged_unit[cell])), logged, "core, by the log", "cores"],
      logged_write: [() => cells((cell) => known(tiles.logged_write[cell])), logged, "write, by the log", "Cividis"],
    };
    const choice = element("tile-choice");
    const show = () => {
      const [values, text, title, colorscale] = choices[choice.value];
      const z = values();
      const most = z.flat().reduce((most, value) => Math.max(most, value), 1);
      // Cores are categories: a hue for each cluster, a shade for each of its cores.
      const bands = tiles.colours.slice(0, most + 1);
      const steps = bands.flatMap((colour, index) => [[index / bands.length, colour], [(index + 1) / bands.length, colour]]);
      const categorical = colorscale === "cores";
      const trace = {
        type: "heatmap", z, text, x: tiles.columns, y: tiles.rows,
        colorscale: categorical ? steps : colorscale, zmin: categorical ? -0.5 : 0, zmax: categorical ? most + 0.5 : most,
        hovertemplate: "%{text}<extra></extra>", xgap: across < 120 ? 1 : 0, ygap: down < 80 ? 1 : 0,
        colorbar: { title: { text: title, side: "right" }, outlinewidth: 0, thickness: 14, tickformat: "d" },
      };
      const axis = { automargin: true, zeroline: false, showgrid: false, tickformat: "d" };
      // With few elements, plotly would use fractional ticks.
      const whole = (extent) => (extent < 10 ? { dtick: 1, tick0: 0 } : {});
      react("tile-chart", [trace], Object.assign({}, page.look, {
        height: 420,
        xaxis: Object.assign({ title: { text: tiles.column_label.replace(" (", "<br>(") }, range: [0, tiles.columns[across]] }, axis,
          whole(tiles.columns[across])),
        yaxis: Object.assign({ title: { text: tiles.row_label }, range: [tiles.rows[down], 0] }, axis,
          whole(tiles.rows[down])),
      }));
    };
    choice.addEventListener("change", show);
    whenSeen("tile-chart", 420, show);
  }

  // ---- timeline: the visible part is redrawn at every zoom, a column for each pixel or two
  if (page.timeline) {
    const time = page.timeline;
    for (const name of ["start_ps", "length_ps", "cause", "label", "line", "nbytes", "times"])
      time[name] = unpack(time[name]);
    const count = time.causes.length;
    const choice = element("timeline-choice");
    let view = [0, time.end_ps];

    const chosen = () => {
      const every = time.lanes.map((_, lane) => lane);
      if (choice.value === "all") return every.filter((lane) => time.lanes[lane][1] === 0);
      if (choice.value === "pipes") return every;
      return every.filter((lane) => time.lanes[lane][0] === Number(choice.value));
    };
    const instant = (ps) => (ps / time.unit_ps).toLocaleString("en", { maximumFractionDigits: 4 }).replace(/,/g, "\u00a0");
    const about = (span) => {
      const start = time.start_ps[span], stop = start + time.length_ps[span];
      let words = `<br>${time.causes[time.cause[span]]}<br>${instant(start)} to ${instant(stop)} ${time.unit}`;
      if (time.times[span]) {
        const what = time.label[span] < 0 ? "several operations" : escape(time.labels[time.label[span]]);
        words += `<br>${what}${time.times[span] > 1 ? `, ${group(time.times[span])} times` : ""}`;
        if (time.nbytes[span]) words += `<br>${group(time.nbytes[span])} B`;
        if (time.line[span] >= 0) words += `<br>${escape(time.lines[time.line[span]])}`;
      }
      return words;
    };
    const firstAfter = (lane, at) => {
      let low = time.first[lane], high = time.first[lane + 1];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (time.start_ps[middle] + time.length_ps[middle] > at) high = middle; else low = middle + 1;
      }
      return low;
    };
    // Bounds and number of the columns, at most `most`. Summarized intervals have no order within: a column is at least as
    // long as one of them, and begins with one.
    const columns = (most) => {
      const least = time.within_ps, [low, high] = view;
      if (!least || (high - low) / most >= least) return [low, high, most];
      const from = Math.floor(low / least), to = Math.ceil(high / least);
      return [from * least, to * least, to - from];
    };
    // The shares of the causes in each column of a lane, and a text for each column.
    const look = (lane, low, high, bins) => {
      const width = (high - low) / bins;
      const share = new Float64Array(bins * count), only = new Int32Array(bins).fill(-1);
      for (let span = firstAfter(lane, low); span < time.first[lane + 1] && time.start_ps[span] < high; span++) {
        const start = Math.max(time.start_ps[span], low) - low;
        const stop = Math.min(time.start_ps[span] + time.length_ps[span], high) - low;
        const last = Math.min(Math.ceil(stop / width), bins);
        for (let bin = Math.floor(start / width); bin < last; bin++) {
          const part = (Math.min(stop, (bin + 1) * width) - Math.max(start, bin * width)) / width;
          if (part <= 0) continue;
          share[bin * count + time.cause[span]] += part;
          only[bin] = only[bin] === -1 ? span : -2;
        }
      }
      const [unit, kind] = time.lanes[lane];
      const name = `<b>${escape(time.units[unit])}, ${time.lane_names[kind]}</b>`;
      const words = Array.from({ length: bins }, (_, bin) => {
        if (only[bin] === -1) return `${name}<br>nothing`;
        if (only[bin] >= 0) return name + about(only[bin]);
        const parts = time.causes.map((cause, index) => [share[bin * count + index], cause]).filter(([part]) => part > 0.0005);
        parts.sort((one, other) => other[0] - one[0]);
        return `${name}<br>of ${instant(width)} ${time.unit} from ${instant(low + bin * width)}:`
          + parts.map(([part, cause]) => `<br>${(100 * part).toFixed(1)} % ${cause}`).join("");
      });
      return { share, words };
    };
    const scale = time.colours.flatMap((colour, index) => [[index / count, colour], [(index + 1) / count, colour]]);

    const draw = () => {
      const lanes = chosen();
      const [levels, px] = lanes.length <= 12 ? [8, 3] : lanes.length <= 40 ? [8, 1.7]
        : lanes.length <= 90 ? [5, 2.6] : [3, 2];
      const [low, high, bins] = columns(lanes.length <= 12 ? 900 : lanes.length <= 90 ? 600 : 450);
      const z = [], text = [], ticks = [], names = [];
      let before = null;
      for (const lane of lanes) {
        const [unit, kind] = time.lanes[lane];
        const blank = () => { z.push(new Array(bins).fill(null)); text.push(new Array(bins).fill("")); };
        if (before !== null) blank();
        if (before !== null && before !== unit && choice.value === "pipes") blank();
        before = unit;
        const { share, words } = look(lane, low, high, bins);
        ticks.push(z.length + levels / 2 - 0.5);
        names.push(choice.value === "all" ? escape(time.units[unit])
          : choice.value === "pipes" ? (kind === 0 ? `<b>${escape(time.units[unit])}</b>` : time.lane_names[kind])
          : time.lane_names[kind]);
        for (let level = levels - 1; level >= 0; level--) {
          const at = (level + 0.5) / levels, row = new Array(bins).fill(null);
          for (let bin = 0; bin < bins; bin++) {
            let reach = 0;
            for (let cause = 0; cause < count; cause++) {
              reach += share[bin * count + cause];
              if (reach > at) { row[bin] = cause; break; }
            }
          }
          z.push(row);
          text.push(words);
        }
      }
      const unit = time.unit_ps, step = (high - low) / bins / unit;
      const trace = {
        type: "heatmap", z, text, x0: low / unit + step / 2, dx: step, y0: 0, dy: 1, zmin: -0.5, zmax: count - 0.5,
        colorscale: scale, showscale: false, hovertemplate: "%{text}<extra></extra>", hoverongaps: false,
      };
      const size = lanes.length > 90 ? 10 : 12;
      const tight = choice.value === "pipes" && lanes.length > 90;
      const candidates = names.map((_, index) => index).filter((index) => !tight || time.lanes[lanes[index]][1] === 0);
      // Labels keep a distance of one line height.
      const apart = z.length * px / candidates.length, every = Math.max(Math.ceil(size * 1.05 / apart), 1);
      const named = candidates.filter((_, place) => place % every === 0);
      react("timeline-chart", [trace], Object.assign({}, page.look, {
        height: Math.max(z.length * px, 60) + 92,
        dragmode: "zoom",
        plot_bgcolor: "#ffffff",
        xaxis: { title: { text: `time since the first launch [${time.unit}]` }, range: [view[0] / unit, view[1] / unit],
          zeroline: false, showgrid: false },
        yaxis: { tickvals: named.map((index) => ticks[index]), ticktext: named.map((index) => names[index]),
          range: [z.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false, automargin: true,
          tickfont: { size } },
      }));
    };
    const go = (low, high) => {
      const width = Math.min(Math.max(high - low, 10, 2 * time.within_ps), time.end_ps);
      const from = Math.min(Math.max(low, 0), time.end_ps - width);
      view = [from, from + width];
      draw();
    };
    const zoom = (factor) => {
      const middle = (view[0] + view[1]) / 2, half = (view[1] - view[0]) / 2 * factor;
      go(middle - half, middle + half);
    };
    const move = (part) => go(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
    choice.addEventListener("change", draw);
    element("zoom-in").addEventListener("click", () => zoom(0.5));
    element("zoom-out").addEventListener("click", () => zoom(2));
    element("zoom-left").addEventListener("click", () => move(-0.5));
    element("zoom-right").addEventListener("click", () => move(0.5));
    element("zoom-all").addEventListener("click", () => go(0, time.end_ps));
    whenSeen("timeline-chart", 300, () => {
      draw();
      element("timeline-chart").on("plotly_relayout", (change) => {
        if (change["xaxis.autorange"]) go(0, time.end_ps);
        else if ("xaxis.range[0]" in change) go(change["xaxis.range[0]"] * time.unit_ps, change["xaxis.range[1]"] * time.unit_ps);
        else if ("xaxis.range" in change) go(change["xaxis.range"][0] * time.unit_ps, change["xaxis.range"][1] * time.unit_ps);
      });
    });
  }
  document.documentElement.dataset.ready = "yes";
})();
