"""What users' tests and our own share: waiting for a condition, and equality by value and type."""
