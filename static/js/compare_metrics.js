// Any metrics of the chosen runs.
import { chooser } from "./chooser.js";
import { showPanels } from "./panels.js";

chooser();
showPanels();
