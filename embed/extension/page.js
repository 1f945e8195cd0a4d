// Functions that run inside the page in a tab, where they see nothing of this file but themselves.

/** selected is the text that is selected in the page or in a field of it, but for passwords. */
export function selected() {
  const field = document.activeElement;
  if (field?.matches?.('textarea, input[type=text], input[type=search], input[type=url], input:not([type])')) {
    const text = field.value.slice(field.selectionStart ?? 0, field.selectionEnd ?? 0);
    if (text) return text;
  }
  return String(getSelection() ?? '');
}

/**
 * fetched reads an address as the page would: with cookies what is of its own site. null if it may not, if that is above
 * limit bytes, or if own says that it is of this site (true) or of another (false), and it is not.
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

/** copied puts text on the clipboard, also in pages without a certificate; false if that failed. */
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
