"""What is taken out of text, and what is marked in it."""
