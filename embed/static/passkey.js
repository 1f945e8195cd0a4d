// Asks the browser for a passkey and sends its answer with the form.
"use strict";

(() => {
  const form = document.querySelector("form[data-passkey]");
  if (!window.PublicKeyCredential) return;
  form.hidden = false; // the browser can use it
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const o = JSON.parse(form.dataset.passkey);
      o.challenge = bytes(o.challenge);
      for (const one of o.allowCredentials ?? []) one.id = bytes(one.id);
      const { rawId, type, response: r } = await navigator.credentials.get({ publicKey: o });
      form.elements.passkey.value = JSON.stringify({
        id: text(rawId),
        rawId: text(rawId),
        type,
        response: {
          clientDataJSON: text(r.clientDataJSON),
          authenticatorData: text(r.authenticatorData),
          signature: text(r.signature),
          userHandle: r.userHandle ? text(r.userHandle) : "",
        },
      });
      form.submit();
    } catch {
      const alert = form.querySelector("[role=alert]") ?? form.appendChild(document.createElement("p"));
      alert.className = "error";
      alert.setAttribute("role", "alert");
      alert.textContent = form.dataset.failed;
    }
  });
})();
