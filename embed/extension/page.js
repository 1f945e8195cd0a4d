// Functions that run inside the page of a tab. They cannot use anything else in this file.

/** selected is the text selected in the page or in one of its fields, except password fields. */
export function selected() {
  const field = document.activeElement;
  if (field?.matches?.('textarea, input[type=text], input[type=search], input[type=url], input:not([type])')) {
    const text = field.value.slice(field.selectionStart ?? 0, field.selectionEnd ?? 0);
    if (text) return text;
  }
  return String(getSelection() ?? '');
}

/**
 * fetched reads an address as the page would, with cookies for the page's own site. own says whether the address must
 * be of that site (true) or of another (false). null if it is not, if the page may not read it, or if it exceeds limit
 * bytes.
 */
export async function fetched(address, limit, own) {
  try {
    if ((new URL(address).origin === location.origin) !== own) return null;
    const answer = await fetch(address, { credentials: 'same-origin' });
    if (!answer.ok || Number(answer.headers.get('content-length')) > limit) return null;
    const blob = await answer.blob();
    if (blob.size > limit) return null;
    const data = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = reject;
      reader.readAsDataURL(blob);
    });
    return { data, type: blob.type, disposition: answer.headers.get('content-disposition') ?? '' };
  } catch {
    return null;
  }
}

/** copied puts text on the clipboard, even in pages without HTTPS. It returns false if that failed. */
export function copied(text) {
  const had = document.activeElement;
  const area = document.createElement('textarea');
  area.value = text;
  area.style.cssText = 'position:fixed;top:0;opacity:0';
  (document.body ?? document.documentElement).append(area);
  area.select();
  const ok = document.execCommand('copy');
  area.remove();
  had?.focus?.({ preventScroll: true });
  return ok;
}
