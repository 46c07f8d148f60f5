"""What operators compute of each row by itself, and the expressions and functions that they call."""
