// Solves the form's proof of work while the user types, and sends the form when both have finished.
"use strict";

(() => {
  const texts = document.currentScript.dataset;
  const form = document.querySelector("form[data-challenge]");
  const challenge = JSON.parse(form.dataset.challenge);
  const note = document.getElementById("proof");
  const field = form.elements.captcha;
  let wanted = false;

  note.hidden = false;
  const worker = new Worker(form.dataset.worker);
  worker.onerror = () => { note.textContent = texts.failed; };
  worker.onmessage = (e) => {
    worker.terminate();
    const { algorithm, challenge: asked, salt, signature } = challenge;
    field.value = btoa(JSON.stringify({ algorithm, challenge: asked, number: e.data, salt, signature }));
    if (wanted) form.submit();
  };
  worker.postMessage(challenge);

  form.addEventListener("submit", (e) => {
    if (field.value) return;
    e.preventDefault();
    wanted = true;
    note.textContent = texts.runs;
  });
})();
