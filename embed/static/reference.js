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
    docExpansion: "list",
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
