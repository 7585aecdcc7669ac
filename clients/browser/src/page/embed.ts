/** What a script tag on another site puts there: the survey that it names, where it stands. */

export function embed(script: HTMLScriptElement, name: string): void {
  const { survey, analyzer, compact, invitation } = script.dataset;
  if (survey) {
    const made = document.createElement(name);
    made.setAttribute("survey", survey);
    made.setAttribute("analyzer", analyzer ?? new URL(".", script.src).href);
    if (compact !== undefined) made.setAttribute("compact", "");
    if (invitation) made.setAttribute("invitation", invitation);
    if (script.closest("head") === null) script.after(made);
    else document.body.append(made);
  } else if (document.querySelector(name) === null) {
    console.error(`data-survey is missing, so nothing is asked here: <script src="${script.src}" data-survey="…" defer>`);
  }
}
