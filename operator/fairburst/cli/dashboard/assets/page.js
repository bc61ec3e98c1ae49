// Elements, amounts and times for all pages. Text from the cluster becomes text nodes only.

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "style") Object.assign(made.style, value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

export const card = (title, note, ...children) => el("section", {}, el("h2", {}, title, " ", el("small", {}, note)), ...children);
export const heading = (text, ...more) => el("div", { className: "heading" }, el("h1", {}, text), ...more);

export function amount(name, value) {
  if (name === "cpu") return `${round(value)} ${value === 1 ? "core" : "cores"}`;
  if (name === "memory" || name === "ephemeral-storage") {
    const power = Math.min(6, Math.max(0, Math.floor(Math.log2(Math.max(value, 1)) / 10)));
    return `${round(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power]}${name === "memory" ? "" : ` ${name}`}`;
  }
  return `${round(value)} ${name}`;
}

// An amount without its unit, for texts in which the unit follows: "24 of 64 cores".
export const ofWhole = (name, value, whole) => `${/^(memory|ephemeral-storage)$/.test(name) ? amount(name, value) : round(value)} of ${amount(name, whole)}`;

const round = (value) => (value >= 100 ? Math.round(value) : Math.round(value * 100) / 100).toLocaleString("en");
export const amounts = (found) => Object.entries(found).filter(([, value]) => value > 0).map(([name, value]) => amount(name, value)).join(", ") || "nothing";
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
export const percent = (part) => (part === null || part === undefined ? "–" : `${(part * 100).toFixed(1)} %`);

export function span(seconds) {
  const left = Math.max(0, Math.round(seconds));
  if (left >= 172800) return `${Math.round(left / 86400)} d`;
  if (left >= 7200) return `${Math.round(left / 3600)} h`;
  return left >= 120 ? `${Math.round(left / 60)} min` : `${left} s`;
}

// The largest fraction of the pool's capacity that an amount takes of any resource; null if the capacity is unknown.
export function part(found, capacity) {
  if (!Object.keys(capacity).length) return null;
  const parts = Object.entries(found).map(([name, value]) => (capacity[name] > 0 ? value / capacity[name] : 0));
  return Math.max(0, ...parts);
}

// A queue's use of the pool; by its status for people who may not see the capacity.
export const usedPart = (queue, capacity) => part(queue.usage, capacity) ?? queue.usedShare;
export const wantedPart = (queue, capacity) => part(queue.demand, capacity) ?? (queue.usedShare === null ? null : queue.usedShare + (queue.waitingShare ?? 0));

export const queueName = (queue) => `${queue.namespace}/${queue.name}`;
export const breakable = (name) => name.split("/").flatMap((one, at) => (at ? ["/", el("wbr"), one] : [one]));
export const queueLink = (queue) => el("a", { href: `#/queue/${queue.kind}/${queueName(queue)}`, title: queueName(queue) }, ...breakable(queueName(queue)));
export const queueOptions = (state, id) => el("datalist", { id }, ...[...state.queues.values()].map(queueName).sort().map((value) => el("option", { value })));
export const badge = (queue) => el("span", { className: `badge ${queue.class ?? "warn"}` }, queue.class ?? "Undecided");

export function bar(label, { used, band = 0, tick = null }) {
  const wide = (value) => `${Math.min(100, value * 100)}%`;
  return el("div", { className: "bar", role: "img", "aria-label": label, title: label },
    el("i", { className: "band", style: { width: wide(band) } }),
    el("i", { className: "used", style: { width: wide(used) } }),
    tick === null ? null : el("i", { className: "tick", style: { left: `min(calc(100% - 3px), ${wide(tick)})` } }));
}

export async function ask(path, shown) {
  shown.replaceChildren(el("p", { className: "quiet", role: "status" }, "Reading the cluster and deciding"));
  try {
    const answer = await fetch(path);
    if (answer.status === 401) throw new Error("You are logged out. Load this page again.");
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error ?? answer.statusText);
    return found;
  } catch (error) {
    shown.replaceChildren(el("p", { className: "bad", role: "alert" }, error.message));
    return null;
  }
}

// An explanation, without the facts that are already on the page.
export function explained(found, without = []) {
  const facts = Object.entries(found.facts).filter(([label]) => !without.includes(label)).flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, ...prose(text))]);
  const advice = found.advice.map((one) => el("li", {}, one.change, one.command ? el("pre", { tabIndex: 0 }, one.command) : null));
  const list = advice.length ? el("ul", {}, ...advice) : null;
  return [...(found.work ?? []).map(finding), el("h3", {}, found.headline), el("dl", {}, ...facts), found.goal ? el("p", { className: "goal" }, ...prose(found.goal)) : null, list].filter(Boolean);
}

// Words between backticks are code.
const prose = (text) => text.split("`").map((one, at) => (at % 2 ? el("code", {}, one) : one));

function finding(line) {
  const [, reason, message] = /^Event (\w+): (.*)$/s.exec(line) ?? [];
  return reason ? el("p", { className: "event" }, el("span", { className: "badge" }, reason), " ", message) : el("p", {}, ...prose(line));
}

export function showAll(count, work) {
  const made = el("button", { type: "button", className: "more" }, `Show all ${count}`);
  made.addEventListener("click", work);
  return made;
}
