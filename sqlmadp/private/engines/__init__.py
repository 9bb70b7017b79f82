"""The engines that hold the private table: a SELECT in, counts out."""
