// Adds Copy buttons to listings and to elements with data-copy, and removes an icon that does not load. It stores nothing and sends no requests.
"use strict";

(() => {
  // Without HTTPS, browsers offer only the older way, which copies the selection.
  const copy = async (node) => {
    if (navigator.clipboard) {
      try {
        await navigator.clipboard.writeText(node.textContent);
        return true;
      } catch { /* not allowed: try the other way */ }
    }
    const chosen = getSelection();
    chosen.selectAllChildren(node);
    const done = document.execCommand("copy");
    if (done) chosen.removeAllRanges();
    return done;
  };

  const add = (node, place) => {
    const button = document.createElement("button");
    const said = document.createElement("span");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    said.className = "sr";
    said.setAttribute("role", "status");
    let timer;
    button.addEventListener("click", async () => {
      button.textContent = said.textContent = (await copy(node)) ? "Copied" : "Select and copy";
      clearTimeout(timer);
      timer = setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 2000);
    });
    place.append(button, said);
  };

  for (const listing of document.querySelectorAll(".listing")) {
    const code = listing.querySelector("code");
    if (code) add(code, listing.querySelector("figcaption"));
  }
  for (const node of document.querySelectorAll("[data-copy]")) add(node, node.parentNode);

  // An icon that does not load leaves no gap.
  for (const icon of document.querySelectorAll(".favicon")) {
    if (icon.complete && !icon.naturalWidth) icon.remove();
    else icon.addEventListener("error", () => icon.remove());
  }
})();
