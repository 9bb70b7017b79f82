"""An analyst's questions as rows over vertices, and the units of their errors."""
