"""What a fitted model does: encode, rank, ensemble, explain and embed; no trainer is needed."""
