"""From a measurement to answers, over residual spaces."""
