"""What is learned from representations: a head, its loss, and which metrics count."""
