// Small charts, drawn as SVG at the size of their place.

const LEFT = 36;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function frame(place, labels, draw) {
  const width = Math.max(120, place.clientWidth);
  const height = Math.max(80, place.clientHeight);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const bottom = height - BOTTOM;
  const y = (share) => bottom - share * (bottom - TOP);
  for (const [share, text] of labels) {
    root.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share) }));
    root.append(svg("text", { class: "axis", x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, text));
  }
  draw(root, { left: LEFT, right: width - RIGHT, bottom, height, y });
  place.replaceChildren(root);
}

function empty(root, { left, right, y }, text) {
  root.append(svg("text", { class: "empty", x: (left + right) / 2, y: y(0.5) + 4 }, text));
}

const FEWEST_PERIODS = 12;

function ago(seconds) {
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

/**
 * `timeline`: now, period_s, num_periods, points; `read(point)`: a value or null.
 *
 * As long as there is little to show, it shows a shorter time.
 */
export function curve(place, timeline, { read, max, labels, format }) {
  frame(place, labels, (root, box) => {
    const { left, right, bottom, height, y } = box;
    const last = Math.floor(timeline.now / timeline.period_s);
    const ageOf = (point) => last - Math.round(point[0] / timeline.period_s);
    const oldest = timeline.points.length ? ageOf(timeline.points[0]) : 0;
    const most = Math.min(timeline.num_periods - 1, Math.max(FEWEST_PERIODS, oldest));
    const x = (point) => right - (ageOf(point) / most) * (right - left);
    const axis = [[left, "start", ago(most * timeline.period_s)], [right, "end", "now"]];
    for (const [at, anchor, text] of axis) {
      root.append(svg("text", { class: "axis", x: at, y: height - 4, "text-anchor": anchor }, text));
    }
    const runs = [];
    let before = null;
    for (const point of timeline.points) {
      const value = read(point);
      if (value === null) continue;
      const index = Math.round(point[0] / timeline.period_s);
      const spot = { x: x(point), y: y(Math.min(1, value / max)), value, start: point[0] };
      if (before !== null && index - before === 1) runs.at(-1).push(spot);
      else runs.push([spot]);
      before = index;
    }
    if (!runs.length) empty(root, box, "nothing has run yet");
    for (const run of runs) {
      const way = run.map((spot) => `${spot.x.toFixed(1)} ${spot.y.toFixed(1)}`).join("L");
      if (run.length > 1) {
        const under = `M${run[0].x} ${bottom}L${way}L${run.at(-1).x} ${bottom}Z`;
        root.append(svg("path", { class: "area", d: under }));
        root.append(svg("path", { class: "curve", d: `M${way}` }));
      }
      for (const spot of run) {
        const shown = run.length === 1 || spot === runs.at(-1).at(-1);
        const dot = svg("circle", { class: "dot", cx: spot.x, cy: spot.y, r: shown ? 3 : 6 });
        if (!shown) dot.setAttribute("opacity", "0");
        const when = new Date(spot.start * 1000).toLocaleTimeString();
        dot.append(svg("title", {}, `${when}: ${format(spot.value)}`));
        root.append(dot);
      }
    }
  });
}

/** `pairs`: [confirmed, decided] by position. */
export function columns(place, pairs) {
  const labels = [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]];
  frame(place, labels, (root, box) => {
    const { left, right, bottom, height, y } = box;
    if (!pairs.length) return empty(root, box, "nothing was drafted yet");
    const step = (right - left) / Math.max(8, pairs.length);
    const most = Math.max(...pairs.map((pair) => pair[1]));
    const every = step < 22 ? 4 : 1;
    pairs.forEach(([confirmed, decided], index) => {
      const rate = decided ? confirmed / decided : 0;
      const x = left + index * step + step * 0.14;
      const size = { x, width: step * 0.72, rx: Math.min(4, step / 5) };
      root.append(svg("rect", { class: "back", ...size, y: y(1), height: bottom - y(1) }));
      const column = svg("rect", {
        class: "column", ...size, y: y(rate), height: bottom - y(rate),
        opacity: (0.3 + 0.7 * Math.sqrt(decided / most)).toFixed(2),
      });
      const words = `position ${index + 1}: ${confirmed} of ${decided} (${Math.round(rate * 100)} %)`;
      column.append(svg("title", {}, words));
      root.append(column);
      if (index % every === 0) {
        const at = { class: "axis", x: x + step * 0.36, y: height - 4, "text-anchor": "middle" };
        root.append(svg("text", at, String(index + 1)));
      }
    });
  });
}
