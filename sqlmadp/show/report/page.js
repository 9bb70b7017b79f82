"use strict";
const choice = document.getElementById("filter");
if (choice) {
  choice.hidden = false;
  choice.addEventListener("change", (event) => {
    for (const part of document.querySelectorAll("[data-analyst]")) {
      part.hidden = event.target.value !== "all" && part.dataset.analyst !== event.target.value;
    }
  });
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not(.again)")) part.open = true;
});
