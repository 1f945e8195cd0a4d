// Shows the schema that this server publishes. "Try it out" always calls the server that the page came from, not the
// address in the schema. The page may have been read under another name, and its policy lets it reach no other server.
"use strict";

// A Markdown table with alignment becomes a style attribute, which the policy refuses. So all columns get the alignment
// of the style sheet.
function withoutAlignment(schema) {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === "description" && typeof value === "string"
      ? value.replace(/^[ |:-]*\|[ |:-]*$/gm, (row) => row.replaceAll(":", "-"))
      : value,
  );
}

// Swagger UI's own filter looks for the phrase in the names of groups alone. This one keeps the operations that have
// all words, in the name of the group or in what the list and the operation say.
function operationsWith(groups, phrase) {
  const words = phrase.toLowerCase().split(/\s+/);
  const has = (name) => (entry) => {
    const operation = entry.get("operation");
    const parts = [name, entry.get("method"), entry.get("path")].concat(
      ["operationId", "summary", "description"].map((member) => operation.get(member, "")),
    );
    const text = parts.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return groups
    .map((group, name) => group.set("operations", group.get("operations").filter(has(name))))
    .filter((group) => group.get("operations").size > 0);
}

// The groups are folded, but open while there is a filter, so that what it has found can be seen.
const findsOperations = {
  fn: { opsFilter: operationsWith },
  statePlugins: {
    layout: {
      wrapSelectors: {
        isShown: (original) => (state, thing, otherwise) => {
          const filter = state.get("filter");
          const filtered = typeof filter === "string" && filter !== "";
          return (filtered && thing[0] === "operations-tag") || original(thing, otherwise);
        },
      },
    },
  },
};

(async () => {
  const texts = document.currentScript.dataset;
  const main = document.getElementById("reference");
  const state = document.getElementById("state");
  const explanation = Array.from(state.childNodes);
  state.textContent = texts.loading;

  let schema;
  try {
    const answer = await fetch(main.dataset.schema, { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(texts.status.replace("{status}", answer.status));
    schema = withoutAlignment(await answer.json());
  } catch (problem) {
    state.replaceChildren(texts.failed.replace("{why}", problem.message));
    return;
  }
  if (typeof SwaggerUIBundle !== "function") {
    explanation[0].textContent = texts.noViewer;
    state.replaceChildren(...explanation);
    return;
  }
  const root = new URL(main.dataset.root, location.href).href.replace(/\/$/, "");
  schema.servers = [{ url: root }];

  // The first render replaces what the page says without scripts.
  SwaggerUIBundle({
    spec: schema,
    domNode: main,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    deepLinking: true,
    docExpansion: "none",
    plugins: [() => findsOperations],
    onComplete: () => {
      const field = main.querySelector(".operation-filter-input");
      if (field === null) return;
      field.placeholder = texts.filter;
      field.setAttribute("aria-label", texts.filter);
    },
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    // A key typed here is forgotten with the page.
    persistAuthorization: false,
    // Load no other schema: neither one from an address in the query nor a remote validator.
    queryConfigEnabled: false,
    validatorUrl: null,
  });
})();
