// That the server runs a newer version than the one that the user saw last. It shows a message once for each user, on
// whatever device. app.js calls begin if the page says that there is news. It uses nothing of view.
import { t, toast } from './dom.js';
import { api, base, start } from './session.js';

const shownFor = 60e3;

// begin tells what is new. An account that has seen no version yet starts with this one: to it everything is new.
export async function begin() {
  const { version, anchor, first } = start.news;
  // A page in the background would tell nobody.
  if (document.hidden) {
    await new Promise((shown) => { document.addEventListener('visibilitychange', shown, { once: true }); });
  }
  try {
    await api('PATCH', 'me', { seenVersion: version });
  } catch { return; /* the next page tells */ }
  if (first) return;
  toast(t('news.updated', { version }), {
    time: shownFor, action: t('news.what'), run: () => { location.href = `${base}/help/changes#${anchor}`; },
  });
}
