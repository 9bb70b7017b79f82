"""Answer several analysts' SQL in one differentially private release."""
