// Shows the schema this server publishes. "Try it out" always calls the server the page came from, whatever address
// the schema names: the page may be read under another name, and its policy lets it reach no other.
"use strict";

// A column of a Markdown table that names its alignment becomes a style attribute, which the policy refuses. So all
// columns are aligned as the style sheet has them.
function withoutAlignment(schema) {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === "description" && typeof value === "string"
      ? value.replace(/^[ |:-]*\|[ |:-]*$/gm, (row) => row.replaceAll(":", "-"))
      : value,
  );
}

(async () => {
  const main = document.getElementById("reference");
  const state = document.getElementById("state");
  const explanation = Array.from(state.childNodes);
  state.textContent = "Loading …";

  let schema;
  try {
    const answer = await fetch(main.dataset.schema, { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    schema = withoutAlignment(await answer.json());
  } catch (problem) {
    state.replaceChildren(`The schema could not be loaded: ${problem.message}. Reload the page to try again.`);
    return;
  }
  if (typeof SwaggerUIBundle !== "function") {
    explanation[0].textContent = "The viewer could not be loaded. The OpenAPI schema is at ";
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
    // A key typed here lives as long as the page, no longer.
    persistAuthorization: false,
    // No schema but this server's: neither an address in the query nor a remote validator.
    queryConfigEnabled: false,
    validatorUrl: null,
  });
})();
