// What the events say, put onto the page. Texts of answers are only ever set as text.

import { columns, curve } from "./charts.js";
import { follow } from "./feed.js";

const ORIGINS = {
  line: "as drafted",
  branch: "on a branch",
  pool: "from the target's own n-gram pool",
  missed: "missed",
  undrafted: "no draft in time",
};
const BASES = {
  measured: (n) => `The target alone: measured in ${n} passes without a draft.`,
  modelled: (n) => `The target alone: an estimate from ${n} passes, by what each drafted or seeded token adds to them.`,
  estimated: (n) => `The target alone: an estimate from the shortest tenth of ${n} passes. Seeds ride in them and drafts are verified there, so without specproxy it may be faster than that.`,
};
const PHASES = { pass: "target's passes", draft: "drafting", seed: "seeds on their way", wait: "waiting" };

const at = (id) => document.getElementById(id);
const state = { present: null, history: null, route: null, span: "15m" };

function made(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

const known = (value) => value !== null && value !== undefined;
const percent = (value) => {
  if (!known(value)) return "–";
  const fine = (value > 0.985 && value < 0.9995) || (value > 0 && value < 0.1);
  return `${(100 * value).toFixed(fine ? 1 : 0)} %`;
};
const fileOf = (path) => path.split(/[\\/]/).at(-1);
const decimal = (value, digits = 1) => (known(value) ? value.toFixed(digits) : "–");
const count = (value) => value.toLocaleString("en");
const milliseconds = (value) => (known(value) ? `${(1000 * value).toFixed(value < 0.01 ? 1 : 0)} ms` : "–");

function chosen(list) {
  return list.find((route) => route.name === state.route) ?? list[0];
}

// -- speed -------------------------------------------------------------------------------------

function showSpeed(route) {
  const { speed } = route.observed;
  const mode = at("mode");
  const fast = route.mode !== "passthrough" && route.mode !== "starting";
  mode.textContent = route.mode;
  mode.className = `pill ${fast ? "fast" : route.mode === "starting" ? "wait" : ""}`;
  at("reason").textContent = route.reason;
  const alone = speed.alone?.tokens_per_s ?? null;
  const factor = speed.now !== null && alone !== null ? speed.now / alone : null;
  at("factor").textContent = factor === null ? "–" : `${decimal(factor, factor < 10 ? 2 : 1)}×`;
  at("factor").parentElement.className = `factor ${factor > 1 ? "fast" : ""}`;
  const estimated = speed.alone !== null && speed.alone.basis !== "measured";
  at("factor-text").textContent = factor === null
    ? "no answer has been sped up yet"
    : `the speed of the target alone${estimated ? ", estimated" : ""}`;
  const most = Math.max(speed.now ?? 0, alone ?? 0, 1e-9);
  bars(at("speeds"), [
    ["now", "fast", (speed.now ?? 0) / most, `${decimal(speed.now)} tokens/s`],
    ["alone", "", (alone ?? 0) / most, `${estimated ? "≈ " : ""}${decimal(alone)} tokens/s`],
  ]);
  at("basis").textContent = speed.alone ? BASES[speed.alone.basis](speed.alone.num_passes) : "";
}

function bars(place, rows) {
  if (place.children.length !== 3 * rows.length) {
    place.replaceChildren(...rows.flatMap(([, kind]) => [
      made("span", "muted"),
      made("span", "track", made("span", `fill ${kind}`)),
      made("span", "number"),
    ]));
  }
  rows.forEach(([label, , share, text], index) => {
    place.children[3 * index].textContent = label;
    place.children[3 * index + 1].firstChild.style.width = `${Math.min(100, 100 * share)}%`;
    place.children[3 * index + 2].textContent = text;
  });
}

function showTiles(route) {
  const { windows } = route.observed;
  const recent = windows["1m"].num_passes ? windows["1m"] : windows["15m"];
  const span = windows["1m"].num_passes ? "last minute" : "last 15 min";
  const tiles = [
    ["Acceptance", percent(recent.acceptance_rate), span],
    ["Tokens per pass", decimal(recent.tokens_per_pass, 2), span],
    ["Running", count(route.running), route.waiting ? `${route.waiting} waiting` : ""],
    ["Answers", count(windows["24h"].num_answers), "last 24 h"],
  ];
  at("tiles").replaceChildren(...tiles.map(([name, value, note]) =>
    made("div", "", made("dt", "", name), made("dd", "", value, " ", made("small", "", note)))));
}

// -- running answers ---------------------------------------------------------------------------

function showLegend(answers, mode) {
  // a target that takes our drafts as they are has no pool of its own
  const shown = Object.entries(ORIGINS).filter(([origin]) => origin !== "pool" || mode === "seeding");
  const sums = Object.fromEntries(Object.keys(ORIGINS).map((origin) =>
    [origin, answers.reduce((sum, answer) => sum + answer.total[`num_${origin}`], 0)]));
  const total = Object.values(sums).reduce((sum, part) => sum + part, 0);
  at("legend").replaceChildren(...shown.map(([origin, words]) => {
    const share = total ? made("b", "", ` ${Math.round((100 * sums[origin]) / total)} %`) : "";
    return made("li", "", made("span", `swatch ${origin}`), words, share);
  }));
}

function showAnswers(route, texts) {
  const { answers } = route;
  showLegend(answers, route.mode);
  const more = route.num_more ? ` and ${route.num_more} more` : "";
  at("num-answers").textContent = answers.length ? `${answers.length}${more}` : "";
  const place = at("answers");
  const cards = new Map([...place.children].map((card) => [card.dataset.number, card]));
  const wanted = answers.map((answer) => {
    const card = cards.get(String(answer.number)) ?? emptyCard(answer);
    fillCard(card, answer, texts);
    return card;
  });
  if (!wanted.length) wanted.push(made("p", "none", "Nothing is being answered right now."));
  const same = wanted.length === place.children.length && wanted.every((card, i) => card === place.children[i]);
  if (!same) place.replaceChildren(...wanted);
}

function emptyCard(answer) {
  const card = made("article", "answer", made("h3"), made("div", "mix"), made("p", "asked"), made("div", "said"));
  card.dataset.number = String(answer.number);
  return card;
}

function fillCard(card, answer, texts) {
  const [head, mix, asked, said] = card.children;
  const { total } = answer;
  head.replaceChildren(
    answer.kind,
    made("span", "", `${count(answer.num_prompt)} + ${count(answer.num_tokens)} tokens`),
    ...(total.num_passes ? [
      made("span", "", `${percent(total.acceptance_rate)} accepted`),
      made("span", "", `${decimal(total.tokens_per_pass)} per pass`),
      made("span", "rate", `${decimal(total.tokens_per_s)} tokens/s`),
    ] : []),
  );
  head.title = answer.request_id ? `request ${answer.request_id}` : "";
  mix.replaceChildren(...Object.keys(ORIGINS).map((origin) => {
    const part = made("i", origin);
    part.style.flexGrow = String(total[`num_${origin}`]);
    return part;
  }));
  asked.textContent = answer.prompt.trim();
  asked.hidden = !answer.prompt.trim();
  const version = `${answer.num_tokens}`;
  if (said.dataset.version === version) return;
  said.dataset.version = version;
  if (!texts) {
    said.replaceChildren(made("span", "prompt", "Texts are not shown here."));
    return;
  }
  const before = answer.num_dropped ? [made("span", "prompt", `… ${count(answer.num_dropped)} tokens before … `)] : [];
  const follows = said.scrollHeight - said.scrollTop - said.clientHeight < 40;
  said.replaceChildren(...before, ...answer.spans.map(([origin, text]) => {
    const span = made("span", origin, text);
    span.title = ORIGINS[origin] ?? "";
    return span;
  }));
  if (follows) said.scrollTop = said.scrollHeight;
}

// -- charts and tables -------------------------------------------------------------------------

function showCharts(past) {
  const timeline = past[state.span];
  curve(at("chart-acceptance"), timeline, {
    read: (point) => point[1], max: 1, format: percent,
    labels: [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]],
  });
  const most = Math.max(4, ...timeline.points.map((point) => point[2] ?? 0));
  const max = 2 * Math.ceil(most / 2);
  curve(at("chart-passes"), timeline, {
    read: (point) => point[2], max, format: (value) => decimal(value, 2),
    labels: [[0, "0"], ...(max > 8 ? [] : [[1 / max, "1"]]), [0.5, `${max / 2}`], [1, `${max}`]],
  });
}

function showPhases(route) {
  const { windows } = route.observed;
  const span = windows["1m"].decode_s ? "1m" : "15m";
  const recent = windows[span];
  at("phase-span").textContent = span === "1m" ? "last minute" : "last 15 min";
  bars(at("phases"), Object.entries(PHASES).map(([phase, words]) => {
    const share = recent.decode_s ? recent[`${phase}_s`] / recent.decode_s : null;
    return [words, phase, share ?? 0, share === null ? "–" : `${share.toFixed(2)} s`];
  }));
}

function table(place, first, tallies) {
  const head = [first, "answers", "tokens", "acceptance", "per pass", "tokens/s"];
  const rows = Object.entries(tallies).map(([name, tally]) => [
    name, count(tally.num_answers), count(tally.num_tokens), percent(tally.acceptance_rate),
    decimal(tally.tokens_per_pass, 2), decimal(tally.tokens_per_s),
  ]);
  if (!rows.length) rows.push(["nothing yet", "", "", "", "", ""]);
  place.replaceChildren(
    made("thead", "", made("tr", "", ...head.map((text) => made("th", "", text)))),
    made("tbody", "", ...rows.map((row) => made("tr", "", ...row.map((text) => made("td", "", text))))),
  );
}

// -- target, draft, policy ---------------------------------------------------------------------

function facts(place, rows) {
  place.replaceChildren(...rows.flatMap(([name, ...values]) =>
    [made("dt", "", name), made("dd", "", ...values)]));
}

function showHealth(route) {
  const { facts: target, draft } = route.observed;
  const targetDot = made("span", `dot ${target ? (route.ready ? "good" : "warn") : ""}`);
  const draftDot = made("span", `dot ${route.draft_alive ? "good" : ""}`);
  facts(at("health"), [
    ["target", targetDot, target ? fileOf(target.model) : "away", made("span", "muted", ` at ${route.target}`)],
    ...(target ? [
      ["llama.cpp", target.build],
      ["slots", `${target.num_slots}, of ${count(target.num_context)} tokens`],
    ] : []),
    ["draft", draftDot, draft ?? "none is configured", draft && !route.draft_alive ? " (gone)" : ""],
  ]);
}

function showPolicy(route) {
  const { policy, decisions } = route.observed;
  const rows = [
    ["expected", `${percent(policy.acceptance)} of drafted tokens accepted`],
    ["draft", `${milliseconds(policy.draft_token_s)} a token`],
    ["pass", milliseconds(policy.pass_s)],
  ];
  if (policy.nodes_awaited !== null) {
    const text = policy.nodes_awaited ? `waits for ${policy.nodes_awaited} drafted tokens` : "leaves at once";
    rows.push(["after a miss", `the next pass ${text}`]);
  }
  if (policy.seeding !== null) {
    const gain = `${policy.seeding.expected_gain.toFixed(1)}× by acceptance`;
    rows.push(["seeding", policy.seeding.pays ? gain : "does not pay here: tried again now and then"]);
  }
  if (policy.steps_down_at !== null) {
    rows.push(["many at once", `from ${policy.steps_down_at} answers on, drafts do not pay here`]);
  }
  facts(at("policy"), rows);
  at("decisions").replaceChildren(...decisions.map((decision) => {
    const when = new Date(decision.at_s * 1000);
    const time = made("time", "", when.toLocaleTimeString("en-GB"));
    time.dateTime = when.toISOString();
    return made("li", "", time, made("span", "", made("b", "", decision.mode), `: ${decision.reason}`));
  }));
}

// -- all of it ---------------------------------------------------------------------------------

function showRoutes(routes) {
  const place = at("routes");
  place.hidden = routes.length < 2;
  if (place.hidden) return;
  const names = routes.map((route) => route.name);
  const shown = [...place.children].map((button) => button.textContent);
  if (names.join() !== shown.join()) place.replaceChildren(...names.map(routeButton));
  for (const button of place.children) {
    if (button.textContent === chosen(routes).name) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function routeButton(name) {
  const button = made("button", "", name);
  button.type = "button";
  button.addEventListener("click", () => {
    state.route = name;
    show();
    showPast();
  });
  return button;
}

function show() {
  const { routes, texts } = state.present;
  const route = chosen(routes);
  at("main").hidden = false;
  showRoutes(routes);
  showSpeed(route);
  showTiles(route);
  showAnswers(route, texts);
  columns(at("chart-positions"), route.observed.by_position);
  showPhases(route);
  table(at("kinds"), "kind", route.observed.by_kind);
  table(at("windows"), "last", route.observed.windows);
  showHealth(route);
  showPolicy(route);
  document.title = route.running ? `specproxy (${route.running})` : "specproxy";
}

function showPast() {
  if (state.history && state.present) showCharts(chosen(state.history.routes));
}

function hear(name, content) {
  if (name === "present") {
    state.present = content;
    show();
  } else if (name === "history") {
    state.history = content;
    showPast();
  }
}

function tell(live) {
  at("link").textContent = live ? "live" : "connecting";
  at("link").classList.toggle("live", live);
}

function askKey(wasWrong) {
  const dialog = at("ask");
  at("key-wrong").hidden = !wasWrong;
  at("main").hidden = true;
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    at("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const key = at("key").value.trim();
      at("key").value = "";
      dialog.close();
      resolve(key);
    }, { once: true });
  });
}

function prepare() {
  at("ask").addEventListener("cancel", (event) => event.preventDefault());
  const themes = { auto: "light dark", light: "light", dark: "dark" };
  const names = Object.keys(themes);
  const button = at("theme");
  const use = (name) => {
    document.documentElement.style.colorScheme = themes[name];
    button.textContent = name;
    localStorage.setItem("specproxy.theme", name);
  };
  const before = localStorage.getItem("specproxy.theme");
  use(names.includes(before) ? before : "auto");
  button.addEventListener("click", () => use(names[(names.indexOf(button.textContent) + 1) % names.length]));
  for (const choice of document.querySelectorAll("[data-span]")) {
    choice.addEventListener("click", () => {
      state.span = choice.dataset.span;
      for (const each of document.querySelectorAll("[data-span]")) {
        each.setAttribute("aria-pressed", String(each === choice));
      }
      showPast();
    });
  }
  addEventListener("resize", () => {
    if (state.present) show();
    showPast();
  });
}

prepare();
follow("events", { hear, tell, askKey });
