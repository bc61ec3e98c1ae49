// The state of the pages, updated by server-sent events, and the choice of the page. A page is drawn again when its state changes, at most
// once a second.
import { el } from "./page.js";
import { now } from "./now.js";
import { advice, jobPage, queuePage } from "./queue.js";
import { whatIfPage } from "./whatif.js";

const AGAIN_MILLISECONDS = 3000;
const state = { queues: new Map(), pool: null, operator: {}, viewer: null, ahead: 0, live: false, clock: () => Date.now() / 1000 + state.ahead };
const main = document.getElementById("main");
let shownPath = null;

function draw() {
  health();
  if (state.pool === null) return;
  const path = location.hash.slice(1) || "/";
  const fresh = path !== shownPath;
  shownPath = path;
  const [, page, ...rest] = path.split("/").map(decodeURIComponent);
  for (const link of document.querySelectorAll("nav a")) link.toggleAttribute("aria-current", link.hash === `#/${page}`);
  document.title = `${page === "queue" ? rest.slice(1).join("/") : { "": "Now", "what-if": "What if", job: "A Job" }[page] ?? "fairburst"} · fairburst`;
  if (page === "what-if" || page === "job") {
    if (fresh) main.replaceChildren(...(page === "job" ? jobPage(state, rest) : whatIfPage(state)));
  } else if (page === "queue") {
    if (fresh) main.replaceChildren(el("div", { className: "page" }), advice(rest));
    main.firstChild.replaceChildren(...queuePage(state, rest.join("/")));
  } else keepingFocus(() => main.replaceChildren(...now(state, draw)));
  if (fresh) scrollTo(0, 0);
}

// Each drawing replaces the page, so it gives the focus back to the link or field that had it.
function keepingFocus(work) {
  const was = document.activeElement, inside = main.contains(was), cursor = was?.selectionStart ?? null;
  const scrolled = [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  work();
  main.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = scrolled[at] ?? 0; });
  if (!inside) return;
  const section = was.closest("section")?.querySelector("h2")?.firstChild?.textContent;
  const same = [...main.querySelectorAll(was.tagName)].filter((one) => (was.id ? one.id === was.id : was.hash ? one.hash === was.hash : one.textContent === was.textContent));
  const found = same[0];
  if (found) {
    found.focus({ preventScroll: true });
    if (cursor !== null) found.setSelectionRange?.(cursor, cursor);
  } else if (section) main.focus({ preventScroll: true });
}

function health() {
  const shown = document.getElementById("health");
  const { problem, holder, renewedSecondsAgo: ago, leaseSeconds: lease } = state.operator;
  const late = ago !== undefined && lease && ago > lease;
  const text = !state.live ? "Connection lost, trying again" : problem ?? (late ? `The operator is silent for ${Math.round(ago)} s` : `Live. ${holder} leads`);
  if (shown.textContent !== text) shown.textContent = text;
  shown.className = !state.live || problem || late ? "bad" : "";
}

function follow() {
  const feed = new EventSource("/feed");
  feed.onmessage = ({ data }) => {
    const found = JSON.parse(data);
    if (found.replace) state.queues.clear();
    for (const [key, queue] of Object.entries(found.queues)) queue ? state.queues.set(key, queue) : state.queues.delete(key);
    Object.assign(state, { pool: found.pool, operator: found.operator, ahead: found.at - Date.now() / 1000, live: true });
    draw();
  };
  feed.onerror = () => {
    state.live = false;
    health();
    if (feed.readyState === EventSource.CLOSED) setTimeout(enter, AGAIN_MILLISECONDS);  // refused: a browser does not try that again by itself
  };
}

// Shows who looks, where people log in. A session that has ended leads back to the form.
async function enter() {
  try {
    const answer = await fetch("/viewer");
    if (answer.status === 401) return location.replace("/");
    if (!answer.ok) throw new Error(answer.statusText);
    state.viewer = (await answer.json()).name;
  } catch {
    setTimeout(enter, AGAIN_MILLISECONDS);
    return;
  }
  if (state.viewer !== null && !document.getElementById("viewer")) document.querySelector("header").append(viewerForm(state.viewer));
  follow();
}

function viewerForm(name) {
  const short = name.replace(/^system:serviceaccount:([^:]+):/, "$1/");
  return el("form", { id: "viewer", method: "post", action: "/logout" }, el("span", { title: name }, short), el("button", {}, "Log out"));
}

addEventListener("hashchange", draw);
setInterval(() => { if (state.live && !document.hidden) draw(); }, 5000);
enter();
