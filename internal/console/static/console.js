// Keys for people who do not use a mouse. Everything that a key does can also be done with a link or a field.
"use strict";
(() => {
  const pages = { n: "/", h: "/holds", a: "/alerts", s: "/sessions", b: "/beliefs", t: "/tools", r: "/rules", l: "/log" };
  let go = 0;
  const typing = (e) => e.target.closest("input, select, textarea, pre, [contenteditable]");
  const links = () => [...document.querySelectorAll("[data-row]")].map((r) => r.querySelector("a, summary")).filter(Boolean);
  const move = (by) => {
    const all = links();
    const row = document.activeElement && document.activeElement.closest("[data-row]");
    const at = all.findIndex((l) => l.closest("[data-row]") === row);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    if (next) next.focus();
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Escape" && typing(e)) { e.target.blur(); return; }
    if (typing(e)) return;
    if (go && Date.now() - go < 1500 && pages[e.key]) { location.href = pages[e.key]; return; }
    go = 0;
    switch (e.key) {
      case "g": go = Date.now(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "?": location.href = "/help"; break;
      case "/": {
        const field = document.querySelector("[data-search]");
        if (field) { e.preventDefault(); field.focus(); field.select(); }
      }
    }
  });
  // The list is not replaced while somebody uses a form in it, has a folded part of it open, or selects text.
  document.addEventListener("htmx:beforeRequest", (e) => {
    const live = document.getElementById("live");
    if (e.target !== live) return;
    const busy = live.contains(document.activeElement) && document.activeElement.closest("form, pre");
    if (busy || live.querySelector("details[open]") || !getSelection().isCollapsed) e.preventDefault();
  });
  // The focus stays on the same link when the list is replaced.
  let focused = "";
  document.addEventListener("htmx:beforeSwap", () => {
    const a = document.activeElement;
    focused = a && a.closest("#live") ? a.getAttribute("href") || "" : "";
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (!focused) return;
    const a = [...document.querySelectorAll("#live a")].find((x) => x.getAttribute("href") === focused);
    if (a && document.activeElement === document.body) a.focus({ preventScroll: true });
  });
})();
