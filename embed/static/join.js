// Makes a passkey for the account that a form asks for, in place of a password, and sends it with the form.
"use strict";

(() => {
  const form = document.querySelector("form[data-passkey]"), button = form.querySelector("[data-make]");
  if (!window.PublicKeyCredential) return;
  button.hidden = false; // the browser can use it
  // A browser that comes back to the page keeps its fields.
  addEventListener("pageshow", () => { form.elements.passkey.value = ""; });
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");

  button.addEventListener("click", async () => {
    const { username, displayName, passkey } = form.elements;
    if (!username.reportValidity()) return;
    try {
      const o = JSON.parse(form.dataset.passkey);
      o.challenge = bytes(o.challenge);
      o.user = { id: bytes(o.user.id), name: username.value, displayName: displayName.value || username.value };
      const { rawId, type, response: r } = await navigator.credentials.create({ publicKey: o });
      passkey.value = JSON.stringify({
        id: text(rawId),
        rawId: text(rawId),
        type,
        response: {
          clientDataJSON: text(r.clientDataJSON),
          attestationObject: text(r.attestationObject),
          transports: r.getTransports?.() ?? [],
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
