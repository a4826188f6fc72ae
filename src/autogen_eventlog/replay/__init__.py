"""Replay: an agent's asyncio schedule as data (`machine`), and the loop that records and follows it (`session`)."""
