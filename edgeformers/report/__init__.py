"""Pages and terminal tables made from cards and run logs; no model is needed to read them."""
