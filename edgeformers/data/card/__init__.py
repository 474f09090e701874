"""The data card: what a network holds, and what that means for training."""
