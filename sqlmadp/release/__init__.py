"""From a plan to rows: the stages of a release in order, and all that is shown before it."""
