// The field for searching, which every page has. Of view it uses name and params. app.js imports the module.
import { all, find, moveFocus } from './dom.js';
import { go } from './router.js';
import { base, view } from './session.js';

const field = find('#q');
let timer = 0;
function search() {
  clearTimeout(timer);
  const words = field.value.trim();
  if (words) go(`${base}/search?q=${encodeURIComponent(words)}`, { replace: view?.name === 'search' });
  else if (view?.name === 'search') go(base + '/', { replace: true });
}

field.addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(search, 250);
});
find('.top form').addEventListener('submit', (e) => {
  e.preventDefault();
  // If the results are already shown, Enter moves to the first of them.
  const shown = view?.name === 'search' && view.params.get('q') === field.value.trim();
  if (shown && all('#main .item').length) moveFocus(1);
  else search();
});
