// All that scripts add to an item of any kind. The page of a recipe and the app load it; pages of other items need
// item.js alone.
import './item.js';
import './recipe.js';
