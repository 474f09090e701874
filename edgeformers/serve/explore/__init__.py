"""The explorer: pages that show what a trained model sees, and why it recommends."""
